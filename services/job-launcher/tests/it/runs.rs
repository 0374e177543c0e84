//! Runs: the objects of a test, and the hands of a kubelet.

use std::{fmt::Debug, time::Duration};

use clap::Parser;
use futures::StreamExt;
use k8s_openapi::{
    api::{batch::v1::Job, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use signalbox_job_launcher::{Args, serve};
use signalbox_runtime::service::Service;
use signalbox_testkit::{AuditEvent, kubelet, wait_for};
use signalbox_types::{Agent, AgentDefinition, Phase, Station, names};
use tokio::task::JoinHandle;

use crate::world::{LIMIT, Replica, Via, World};

pub const SERVICE: &str = "job-launcher";
/// What a run says whose log is not there: no kubelet has it.
pub const NO_OUTPUT: &str = "run output unavailable: pod garbage-collected";

/// A job-launcher that serves.
pub async fn launcher(world: &World) -> Replica {
    launcher_via(world, Via::default()).await
}

pub async fn launcher_via(world: &World, via: Via<'_>) -> Replica {
    run_launcher(world.service(SERVICE, via).await)
}

pub fn run_launcher(service: Service) -> Replica {
    Replica::run(service, |service| serve(service, Args::parse_from([SERVICE])))
}

/// A world with a recipe and the Station `station`.
pub async fn world() -> World {
    world_with(json!({})).await
}

/// The same, `spec` being merged into the Station's.
pub async fn world_with(spec: Value) -> World {
    let world = World::new().await;
    let _: AgentDefinition = world.namespace.create(include_str!("../fixtures/definition.yaml")).await;
    station(&world, "station", spec).await;
    world
}

/// Makes a Station.
pub async fn station(world: &World, name: &str, spec: Value) {
    create::<Station>(world, include_str!("../fixtures/station.yaml"), name, json!({"spec": spec})).await;
}

/// Makes an Agent of the Station `station`.
pub async fn agent(world: &World, name: &str) -> Agent {
    agent_with(world, name, json!({})).await
}

/// The same, `changes` being merged into the whole.
pub async fn agent_with(world: &World, name: &str, changes: Value) -> Agent {
    create(world, include_str!("../fixtures/agent.yaml"), name, changes).await
}

async fn create<K>(world: &World, yaml: &str, name: &str, changes: Value) -> K
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let mut object: Value = serde_saphyr::from_str(yaml).unwrap();
    object["metadata"]["name"] = json!(name);
    merge(&mut object, changes);
    world.namespace.api::<K>().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

/// A JSON merge patch.
fn merge(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (name, value) in fields {
                merge(&mut target[&name], value);
            }
        }
        other => *target = other,
    }
}

/// Patches an object of the caller's.
pub async fn patch<K>(world: &World, name: &str, patch: Value) -> K
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    world.namespace.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

/// Patches the status of an Agent behind the launcher's back.
pub async fn patch_status(world: &World, name: &str, status: Value) -> Agent {
    let patch = Patch::Merge(json!({"status": status}));
    world.namespace.api::<Agent>().patch_status(name, &PatchParams::default(), &patch).await.unwrap()
}

pub async fn get(world: &World, name: &str) -> Agent {
    world.namespace.api().get(name).await.unwrap()
}

/// Waits until an Agent is in that phase.
#[track_caller]
pub fn in_phase(world: &World, name: &str, phase: Phase) -> impl Future<Output = Agent> {
    in_phase_within(world, name, phase, LIMIT)
}

#[track_caller]
pub fn in_phase_within(world: &World, name: &str, phase: Phase, limit: Duration) -> impl Future<Output = Agent> {
    let what = format!("{name} is {phase} ({})", std::panic::Location::caller());
    let agents = world.namespace.api::<Agent>();
    async move {
        wait_for(&what, limit, || async {
            let agent = agents.get(name).await.unwrap();
            if agent.phase() == phase { Ok(agent) } else { Err(agent.status) }
        })
        .await
    }
}

/// Waits until the launcher has sent a request that `wanted` takes.
pub async fn requested(world: &World, what: &str, wanted: impl Fn(&AuditEvent) -> bool) -> AuditEvent {
    wait_for(what, LIMIT, || async {
        let requests = world.requests(SERVICE).await;
        requests.iter().find(|event| wanted(event)).cloned().ok_or(requests.len())
    })
    .await
}

/// When the launcher's first request of that verb and kind about that object was received.
pub async fn time_of(world: &World, request: &str, name: &str) -> jiff::Timestamp {
    let requests = world.requests(SERVICE).await;
    let found =
        requests.iter().find(|event| describe(event) == request && (event.name == name || event.name.is_empty()));
    found.unwrap_or_else(|| panic!("no {request} {name}")).at
}

/// `verb resource` or `verb resource/subresource`.
pub fn describe(event: &AuditEvent) -> String {
    let slash = if event.subresource.is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", event.verb, event.resource, event.subresource)
}

/// What became of the launcher's status patches.
pub async fn status_patches(world: &World) -> Vec<u16> {
    let requests = world.requests(SERVICE).await;
    requests.iter().filter(|event| describe(event) == "patch agents/status").map(|event| event.code).collect()
}

/// A run that is Running, on a node that we play.
pub async fn running_on_a_node(world: &World) -> (kubelet::Node, String) {
    agent(world, "run").await;
    let pod = pod_of(world, "run").await;
    let node = kubelet::Node::start(world.namespace.plane()).await;
    node.take(&world.namespace.name, &pod).await;
    in_phase(world, "run", Phase::Running).await;
    (node, pod)
}

/// How many Jobs the launcher has created.
pub async fn jobs_created(world: &World) -> usize {
    let requests = world.requests(SERVICE).await;
    let created = |event: &&AuditEvent| event.code == 201 && !event.uri.contains("dryRun");
    requests.iter().filter(|event| describe(event) == "create jobs").filter(created).count()
}

/// The Jobs that are there, by name.
pub async fn jobs(world: &World) -> Vec<String> {
    let jobs = world.namespace.api::<Job>().list(&ListParams::default()).await.unwrap();
    let mut names: Vec<_> = jobs.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}

/// The pod that the Job controller made for an Agent.
pub async fn pod_of(world: &World, agent: &str) -> String {
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    kubelet::pod_of(&client, namespace, &names::job_name(agent)).await.name_any()
}

/// Plays the kubelet: the agent of that run ends with `code`, and by it the Job.
pub async fn end(world: &World, agent: &str, code: i32) {
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    let pod = pod_of(world, agent).await;
    kubelet::run_pod(&client, namespace, &pod).await;
    kubelet::end_pod(&client, namespace, &pod, code).await;
}

/// Plays the kubelet for all pods of the world: each ends well as soon as it is there.
pub struct Kubelet(JoinHandle<()>);

impl Kubelet {
    pub fn play(world: &World) -> Self {
        let (client, pods) = (world.namespace.plane().client(), world.namespace.api::<Pod>());
        let namespace = world.namespace.name.clone();
        Self(tokio::spawn(async move {
            let events = kube::runtime::watcher(pods, kube::runtime::watcher::Config::default());
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                use kube::runtime::watcher::Event::{Apply, InitApply};
                let Ok(Apply(pod) | InitApply(pod)) = event else { continue };
                let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
                if pod.metadata.deletion_timestamp.is_none() && phase.is_none_or(|phase| phase == "Pending") {
                    kubelet::end_pod(&client, &namespace, &pod.name_any(), 0).await;
                }
            }
        }))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The Job that the launcher would make for an Agent, as far as it is looked at, for a test that plays the Job
/// controller too: `managedBy` keeps kube-controller-manager away from it.
pub async fn played_job(world: &World, agent: &Agent) -> Job {
    let owner = OwnerReference { controller: Some(true), ..agent.controller_owner_ref(&()).unwrap() };
    let labels = json!({"agents.re-cinq.com/component": "job"});
    let job = json!({
        "metadata": {"name": names::job_name(&agent.name_any()), "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "backoffLimit": 0, "managedBy": "signalbox.example/played",
            "template": {"metadata": {"labels": labels}, "spec": {
                "restartPolicy": "Never",
                "initContainers": [{"name": "init", "image": "played"}],
                "containers": [{"name": "agent", "image": "played"}],
            }},
        },
    });
    let job = serde_json::from_value(job).unwrap();
    world.namespace.api().create(&PostParams::default(), &job).await.unwrap()
}
