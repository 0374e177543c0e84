//! Watches and listings that break. The gate answers in the API server's place where a real one cannot be made to.

use std::time::Duration;

use serde_json::json;
use signalbox_testkit::{TempDir, eventually, wait_for};

use crate::{
    gate::{Act, Asked, Gate},
    support::{Ear, agent, names_in, speaks},
    world::{LIMIT, Replica, Via, World, run_watcher},
};

const RECONNECTS: &str = "controller_watch_reconnects_total";

fn through(gate: &Gate) -> Via<'_> {
    Via { gate: Some(gate), bus: None }
}

fn watches(gate: &Gate, kind: &str) -> Vec<Asked> {
    gate.asked().into_iter().filter(|asked| asked.is_watch_of(kind)).collect()
}

/// A watcher whose first watch of Agents is answered with this, and every later one by the API server.
async fn first_watch_answered(world: &World, gate: &Gate, code: u16, body: String) -> Replica {
    let mut answered = false;
    gate.rule(move |asked| match asked.is_watch_of("agents") && !std::mem::replace(&mut answered, true) {
        true => Act::Answer(code, body.clone()),
        false => Act::Pass,
    });
    let watcher = world.watcher_via(through(gate)).await;
    speaks(&watcher).await;
    watcher
}

fn event(type_: &str, object: serde_json::Value) -> String {
    format!("{}\n", json!({"type": type_, "object": object}))
}

fn status(code: u16, reason: &str) -> serde_json::Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason})
}

#[tokio::test]
async fn case_59_a_line_of_a_watch_that_is_no_json_is_ignored_when_the_api_server_is_scripted() {
    let world = World::new().await;
    let mut ear = Ear::on(&world, "signalbox.v1.change.agents").await;
    let gate = Gate::before(world.namespace.plane()).await;
    // A version that the next watch can go on from.
    let version = agent(&world, "other").await.metadata.resource_version;
    let told = json!({
        "apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent",
        "metadata": {"name": "told", "namespace": world.namespace.name, "uid": "u", "resourceVersion": version},
        "spec": {"stationRef": "station"},
    });
    let body = format!("<html>not JSON</html>\n{{\"type\": \"ADDED\", \"obj\n{}", event("ADDED", told));
    let mut answered = false;
    gate.rule(move |asked| match asked.is_watch_of("agents") && !std::mem::replace(&mut answered, true) {
        true => Act::AnswerLater(200, body.clone()),
        false => Act::Pass,
    });
    let watcher = world.watcher_via(through(&gate)).await;
    // Not before the bus is there: what is told without one is lost.
    speaks(&watcher).await;
    eventually("the watch is asked for", LIMIT, || async { watches(&gate, "agents").len() == 1 }).await;
    gate.release();
    ear.change_of("told").await;
    agent(&world, "next").await;
    ear.change_of("next").await;
    watcher.stop().await;
}

#[tokio::test]
async fn case_60_a_watch_that_is_refused_with_401_is_asked_for_again_after_growing_pauses() {
    let world = World::new().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| match asked.is_watch_of("agents") {
        true => Act::Answer(401, status(401, "Unauthorized").to_string()),
        false => Act::Pass,
    });
    let watcher = world.watcher_via(through(&gate)).await;
    let asked = wait_for("four watches", LIMIT, || async {
        let asked = watches(&gate, "agents");
        if asked.len() >= 4 { Ok(asked) } else { Err(asked.len()) }
    })
    .await;
    let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(pauses.iter().all(|pause| *pause >= Duration::from_secs(2)), "{pauses:?}");
    assert!(watcher.metric(RECONNECTS).unwrap() >= 3.0);
    // It goes on from where it was as soon as it may.
    gate.release();
    let mut ear = Ear::on(&world, "signalbox.v1.change.agents").await;
    agent(&world, "run").await;
    ear.change_of("run").await;
}

#[tokio::test]
async fn case_61_a_version_that_is_gone_leads_to_a_new_list_when_told_by_the_http_status() {
    let world = World::new().await;
    let gate = Gate::before(world.namespace.plane()).await;
    let watcher = first_watch_answered(&world, &gate, 410, status(410, "Expired").to_string()).await;
    relists(&world, &gate, &watcher).await;
}

#[tokio::test]
async fn case_61_a_version_that_is_gone_leads_to_a_new_list_when_told_by_an_error_event() {
    let world = World::new().await;
    let gate = Gate::before(world.namespace.plane()).await;
    let watcher = first_watch_answered(&world, &gate, 200, event("ERROR", status(410, "Expired"))).await;
    relists(&world, &gate, &watcher).await;
}

async fn relists(world: &World, gate: &Gate, watcher: &Replica) {
    let mut ear = Ear::on(world, "signalbox.v1.change.agents").await;
    eventually("it lists again and watches", LIMIT, || async {
        gate.full_lists("agents") >= 2 && watches(gate, "agents").len() >= 2
    })
    .await;
    let first = watches(gate, "agents")[0].at;
    let listed = gate.asked().into_iter().find(|asked| asked.at > first && asked.is_full_list_of("agents")).unwrap();
    assert!(listed.at - first < Duration::from_secs(2), "at once: {:?}", listed.at - first);
    agent(world, "run").await;
    ear.change_of("run").await;
    assert_eq!(watcher.metric(RECONNECTS), Some(1.0));
}

#[tokio::test]
async fn a_watch_that_the_api_server_closes_goes_on_from_its_version() {
    let world = World::new().await;
    let gate = Gate::before(world.namespace.plane()).await;
    let watcher = world.watcher_via(through(&gate)).await;
    speaks(&watcher).await;
    let mut ear = Ear::on(&world, "signalbox.v1.change.agents").await;
    // After its LIST, so that it is the watch that tells of the first.
    eventually("the watch", LIMIT, || async { watches(&gate, "agents").len() == 1 }).await;
    agent(&world, "a").await;
    ear.change_of("a").await;
    // What changes while it is away is told by the new watch.
    gate.rule(|asked| if asked.is_watch_of("agents") { Act::HoldRequest } else { Act::Pass });
    gate.end_watches();
    eventually("a new watch", LIMIT, || async { watches(&gate, "agents").len() == 2 }).await;
    agent(&world, "b").await;
    gate.release();
    ear.change_of("b").await;
    assert_eq!(gate.full_lists("agents"), 1);
}

#[tokio::test]
async fn case_63_an_agent_that_no_watch_told_of_is_in_the_next_listing() {
    let world = World::new().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is_watch_of("agents") { Act::HoldAnswer } else { Act::Pass });
    let watcher = world.watcher_via(through(&gate)).await;
    speaks(&watcher).await;
    let mut ear = Ear::on(&world, "signalbox.v1.listing.agents").await;
    agent(&world, "run").await;
    ear.listing_with("run").await;
}

#[tokio::test]
async fn trouble_with_one_kind_holds_up_no_other_and_is_seen_by_the_probe_after_the_third_listing() {
    let world = World::new().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| match asked.is("GET", "/pods") {
        true => Act::Answer(403, status(403, "Forbidden").to_string()),
        false => Act::Pass,
    });
    let watcher = world.watcher_via(through(&gate)).await;
    speaks(&watcher).await;
    let (mut changes, mut listings) =
        (Ear::on(&world, "signalbox.v1.change.agents").await, Ear::on(&world, "signalbox.v1.listing.>").await);
    agent(&world, "run").await;
    changes.change_of("run").await;
    let listing = listings.listing_with("run").await;
    assert_eq!((listing["kind"].as_str(), names_in(&listing)), (Some("agents"), vec!["run".to_owned()]));
    assert!(watcher.service.health.is_ready(), "one listing that failed is no illness");
    eventually("it is not ready", LIMIT, || async { !watcher.service.health.is_ready() }).await;
    // The first LIST of the watch is among them; a listing has no full objects.
    let failed =
        gate.asked().iter().filter(|asked| asked.is("GET", "/pods") && asked.query.contains("limit=500")).count();
    assert!(failed >= 3, "{failed}");
    gate.release();
    eventually("one success makes it ready", LIMIT, || async { watcher.service.health.is_ready() }).await;
}

#[tokio::test]
async fn case_64_a_rotated_token_is_used_by_the_next_request_and_the_old_one_while_there_is_none() {
    let world = World::new().await;
    let gate = Gate::before(world.namespace.plane()).await;
    let (plane, namespace) = (world.namespace.plane(), &world.namespace.name);
    let account = World::account("watcher");
    let token = async || plane.token_for(namespace, &account).await;
    let (first, second) = (token().await, token().await);
    assert_ne!(first, second);
    let dir = TempDir::new("token");
    let file = dir.write("token", &first);
    let mut config = plane.config();
    config.cluster_url = gate.url().parse().unwrap();
    config.auth_info = Default::default();
    config.auth_info.token_file = Some(file.display().to_string());
    let service = world.service_with("watcher", config, world.nats.address()).await;
    let watcher = run_watcher(service);
    speaks(&watcher).await;
    let renewed_with = async |wanted: &str| {
        let before = gate.asked().len();
        eventually("a renewal", LIMIT, || async {
            gate.asked()[before..].iter().any(|asked| asked.method == "PATCH" && asked.token == wanted)
        })
        .await;
    };
    renewed_with(&first).await;
    dir.write("token", &second);
    renewed_with(&second).await;
    std::fs::remove_file(&file).unwrap();
    renewed_with(&second).await;
    assert_eq!(watcher.metric("controller_is_leader"), Some(1.0), "it led all along");
}

#[tokio::test]
async fn a_watch_that_ends_at_once_again_and_again_is_asked_for_every_two_seconds() {
    let world = World::new().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is_watch_of("agents") { Act::Answer(200, String::new()) } else { Act::Pass });
    let watcher = world.watcher_via(through(&gate)).await;
    speaks(&watcher).await;
    let asked = wait_for("three watches", LIMIT, || async {
        let asked = watches(&gate, "agents");
        if asked.len() >= 3 { Ok(asked) } else { Err(asked.len()) }
    })
    .await;
    let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(pauses.iter().all(|pause| *pause >= Duration::from_millis(1900)), "{pauses:?}");
}
