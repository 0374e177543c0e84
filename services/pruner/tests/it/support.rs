//! Stations, and Agents that have ended.

use clap::Parser;
use futures::{StreamExt, stream};
use kube::{
    ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use signalbox_pruner::{Args, serve};
use signalbox_runtime::service::Service;
use signalbox_testkit::wait_for;
use signalbox_types::{Agent, Phase, Station};

use crate::world::{LIMIT, Replica, Via, World};

pub const SERVICE: &str = "pruner";

/// A pruner that serves.
pub async fn pruner(world: &World) -> Replica {
    pruner_via(world, Via::default()).await
}

pub async fn pruner_via(world: &World, via: Via<'_>) -> Replica {
    run_pruner(world.service(SERVICE, via).await)
}

pub fn run_pruner(service: Service) -> Replica {
    Replica::run(service, |service| serve(service, Args::parse_from([SERVICE])))
}

/// Makes a Station that keeps two Succeeded runs and a Failed one.
pub async fn station(world: &World, name: &str) {
    let mut station: Station = serde_saphyr::from_str(include_str!("../fixtures/station.yaml")).unwrap();
    station.metadata.name = Some(name.to_owned());
    world.namespace.api().create(&PostParams::default(), &station).await.unwrap();
}

/// Sets the limits of a Station.
pub async fn limit(world: &World, name: &str, successful: u32, failed: u32) {
    let limits = json!({"successfulRunsHistoryLimit": successful, "failedRunsHistoryLimit": failed});
    let patch = Patch::Merge(json!({"spec": limits}));
    world.namespace.api::<Station>().patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Makes an Agent of a Station.
pub async fn agent(world: &World, name: &str, station: &str) -> Agent {
    let mut agent: Agent = serde_saphyr::from_str(include_str!("../fixtures/agent.yaml")).unwrap();
    agent.metadata.name = Some(name.to_owned());
    agent.spec.station_ref = station.to_owned();
    world.namespace.api().create(&PostParams::default(), &agent).await.unwrap()
}

/// Writes the end of a run: it was completed in that minute.
pub async fn end(world: &World, name: &str, phase: Phase, minute: usize) -> Agent {
    let code = i32::from(phase == Phase::Failed);
    let completed_at = format!("2026-06-22T12:{minute:02}:00Z");
    patch_status(world, name, json!({"phase": phase, "exitCode": code, "completedAt": completed_at})).await
}

/// Patches the status of an Agent.
pub async fn patch_status(world: &World, name: &str, status: Value) -> Agent {
    let patch = Patch::Merge(json!({"status": status}));
    world.namespace.api::<Agent>().patch_status(name, &PatchParams::default(), &patch).await.unwrap()
}

/// Makes Agents that have ended, one a minute: `<prefix>-00` is the oldest.
pub async fn ended(world: &World, prefix: &str, station: &str, phase: Phase, count: usize) {
    let one = async |minute| {
        let name = format!("{prefix}-{minute:02}");
        agent(world, &name, station).await;
        end(world, &name, phase, minute).await;
    };
    stream::iter(0..count).for_each_concurrent(8, one).await;
}

/// The names of the Agents that are there.
pub async fn names(world: &World) -> Vec<String> {
    let agents = world.namespace.api::<Agent>().list(&ListParams::default()).await.unwrap();
    let mut names: Vec<_> = agents.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

/// Waits until exactly these Agents are there.
pub async fn only(world: &World, wanted: &[&str]) {
    wait_for("only those are kept", LIMIT, || async {
        let names = names(world).await;
        if names == wanted { Ok(()) } else { Err(names) }
    })
    .await;
}

/// The deletes that the pruner asked for, with their answers.
pub async fn deletes(world: &World) -> Vec<(String, u16)> {
    let requests = world.requests(SERVICE).await;
    requests.into_iter().filter(|event| event.is_write()).map(|event| (event.name, event.code)).collect()
}
