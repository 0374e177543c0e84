//! The messages, as a consumer in any language would read them.

use kube::ResourceExt;
use serde_json::json;
use signalbox_testkit::eventually;
use signalbox_types::Agent;
use tokio::time::Instant;

use crate::{
    gate::{Act, Gate},
    support::{Ear, LISTING_LIMIT, agent, names_in, patch_status, speaks},
    world::{LIMIT, Via, World, next_message},
};

#[tokio::test]
async fn a_change_of_an_agent_is_told_at_once_and_slim() {
    let world = World::new().await;
    let mut ear = Ear::on(&world, "signalbox.v1.change.agents").await;
    let watcher = world.watcher().await;
    speaks(&watcher).await;
    let created = agent(&world, "run").await;
    let applied = ear.change_of("run").await;
    assert_eq!((&applied["v"], &applied["type"], &applied["kind"]), (&json!(1), &json!("applied"), &json!("agents")));
    assert_eq!(applied["object"]["metadata"]["uid"], json!(created.uid()));
    assert_eq!(applied["object"]["metadata"]["resourceVersion"], json!(created.resource_version()));
    assert_eq!(applied["object"]["metadata"]["labels"], json!({"team": "shop"}));
    assert_eq!(applied["object"]["spec"], json!({"stationRef": "station"}), "parameters may hold a credential");
    assert_eq!(applied["object"]["metadata"].get("managedFields"), None);

    let status = json!({"phase": "Succeeded", "exitCode": 0, "output": "long", "failureReason": "x".repeat(5000)});
    let ended = patch_status(&world, "run", status).await;
    let applied = ear.change_of("run").await;
    assert_eq!(applied["object"]["metadata"]["resourceVersion"], json!(ended.resource_version()));
    assert_eq!(applied["object"]["status"]["phase"], "Succeeded");
    assert_eq!(applied["object"]["status"].get("output"), None);
    assert_eq!(applied["object"]["status"]["failureReason"].as_str().unwrap().len(), 4096);

    world.namespace.api::<Agent>().delete("run", &Default::default()).await.unwrap();
    let deleted = ear.change_of("run").await;
    let version = deleted["object"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(version > ended.resource_version().unwrap().parse().unwrap(), "that of the delete");
    let object = json!({
        "namespace": world.namespace.name, "name": "run", "uid": created.uid(), "resourceVersion": version.to_string(),
    });
    assert_eq!(deleted, json!({"v": 1, "type": "deleted", "kind": "agents", "object": object}));
}

#[tokio::test]
async fn every_kind_is_told_of_and_of_jobs_and_pods_only_those_of_runs() {
    let world = World::new().await;
    let mut ear = Ear::on(&world, "signalbox.v1.change.>").await;
    let watcher = world.watcher().await;
    speaks(&watcher).await;
    world.namespace.apply(include_str!("../fixtures/others.yaml")).await;
    let mut seen = std::collections::BTreeMap::new();
    while seen.len() < 4 {
        let change = ear.next().await;
        seen.entry(change["kind"].as_str().unwrap().to_owned()).or_insert(change);
    }
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["agentdefinitions", "jobs", "pods", "stations"]);
    assert_eq!(seen["jobs"]["object"]["metadata"]["name"], "ours");
    assert_eq!(seen["stations"]["object"]["spec"].get("template"), None);
    assert_eq!(seen["stations"]["object"]["spec"]["maxConcurrentRuns"], 2);
    assert_eq!(seen["agentdefinitions"]["object"]["spec"]["model"], "exec");
    let pod = &seen["pods"]["object"];
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], "ours");
    assert_eq!(pod["spec"]["containers"], json!([]), "an environment may hold a secret");
    let rest = ear.rest(&world).await;
    assert!(rest.iter().all(|change| change["object"]["metadata"]["name"] != "foreign"), "{rest:?}");
}

#[tokio::test]
async fn a_listing_of_each_kind_is_told_every_fifteen_seconds() {
    let world = World::new().await;
    let run = agent(&world, "run").await;
    let mut ear = Ear::on(&world, "signalbox.v1.listing.>").await;
    let watcher = world.watcher().await;
    speaks(&watcher).await;
    let mut kinds = std::collections::BTreeMap::new();
    while kinds.len() < 5 {
        let listing = ear.next().await;
        kinds.insert(listing["kind"].as_str().unwrap().to_owned(), listing);
    }
    assert_eq!(kinds.keys().collect::<Vec<_>>(), ["agentdefinitions", "agents", "jobs", "pods", "stations"]);
    let first = ear.next_that(|listing| listing["kind"] == "agents").await;
    let heard = Instant::now();
    let (epoch, version) = (first["epoch"].as_str().unwrap(), first["listVersion"].as_u64().unwrap());
    assert!(!epoch.is_empty() && version >= run.resource_version().unwrap().parse().unwrap());
    let object = json!([world.namespace.name, "run", run.uid(), run.resource_version()]);
    let wanted = json!({
        "v": 1, "epoch": epoch, "kind": "agents", "scope": [world.namespace.name], "listVersion": version,
        "part": 0, "parts": 1, "objects": [object],
    });
    assert_eq!(first, wanted);
    assert_eq!(kinds["stations"]["objects"], json!([]), "that there is none is told too");
    let next = ear.next_that(|listing| listing["kind"] == "agents").await;
    assert!(heard.elapsed() < LISTING_LIMIT, "{:?}", heard.elapsed());
    assert_eq!((next["epoch"].as_str(), names_in(&next)), (Some(epoch), vec!["run".to_owned()]));
    assert!(next["listVersion"].as_u64().unwrap() >= version);
}

#[tokio::test]
async fn a_change_of_one_object_is_told_once_though_the_watch_starts_over() {
    let world = World::new().await;
    agent(&world, "old").await;
    let gate = Gate::before(world.namespace.plane()).await;
    let watcher = world.watcher_via(Via { gate: Some(&gate), bus: None }).await;
    speaks(&watcher).await;
    let mut ear = Ear::on(&world, "signalbox.v1.change.agents").await;
    // Its LIST is in then. It may have taken more than one: rights that were just given take a moment to be in force.
    eventually("it watches", LIMIT, || async { gate.asked().iter().any(|asked| asked.is_watch_of("agents")) }).await;
    let lists = gate.full_lists("agents");
    let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}).to_string();
    // The watch that stands ends by its own; a new one is told to start over.
    let mut refused = false;
    gate.rule(move |asked| match asked.is_watch_of("agents") && !std::mem::replace(&mut refused, true) {
        true => Act::Answer(200, format!("{gone}\n")),
        false => Act::Pass,
    });
    gate.end_watches();
    eventually("it lists again", LIMIT, || async { gate.full_lists("agents") == lists + 1 }).await;
    agent(&world, "new").await;
    ear.change_of("new").await;
    let told = ear.rest(&world).await;
    assert_eq!(told.len(), 0, "{told:?}");
}

#[tokio::test]
async fn with_traces_on_a_change_carries_a_trace() {
    let world = World::new().await;
    let traces = ["OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9"];
    let watcher = world.program_with(env!("CARGO_BIN_EXE_watcher"), "watcher", "first", None, &traces).await;
    let bus = world.bus().await;
    let mut changes = bus.subscribe("signalbox.v1.change.agents".to_owned()).await.unwrap();
    bus.flush().await.unwrap();
    eventually("it is connected", LIMIT, || async { watcher.process.log_tail().contains("bus connected") }).await;
    agent(&world, "run").await;
    let change = next_message(&mut changes, LIMIT).await;
    let trace = change.headers.unwrap().get("traceparent").unwrap().as_str().to_owned();
    let parts: Vec<_> = trace.split('-').map(str::len).collect();
    assert_eq!(parts, [2, 32, 16, 2], "{trace}");
}
