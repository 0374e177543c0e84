//! What a run costs, by the API server's own log.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use signalbox_testkit::{AuditEvent, kubelet, wait_for};
use signalbox_types::Phase;

use crate::{
    runs::{SERVICE, agent, describe, in_phase, launcher, pod_of, world, world_with},
    world::{LIMIT, World},
};

/// The requests of the launcher since `since`, counted; the Events that it tells are apart.
async fn costs(world: &World, since: jiff::Timestamp) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let of_runs = |event: &&AuditEvent| event.at > since && describe(event) != "create events";
    for event in world.requests(SERVICE).await.iter().filter(of_runs) {
        *counts.entry(describe(event)).or_default() += 1;
    }
    counts
}

fn budget<const N: usize>(entries: [(&str, usize); N]) -> BTreeMap<String, usize> {
    entries.into_iter().map(|(request, count)| (request.to_owned(), count)).collect()
}

const RUN: [(&str, usize); 6] = [
    ("get agents", 1),
    ("get stations", 1),
    ("get agentdefinitions", 1),
    ("create jobs", 1),
    ("patch agents/status", 2),
    ("get pods/log", 1),
];

#[tokio::test]
async fn a_run_costs_seven_requests_when_we_play_the_kubelet() {
    let world = world().await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    launcher.works().await;
    let since = settled(&world).await;
    agent(&world, "run").await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    let pod = pod_of(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    kubelet::run_pod(&client, namespace, &pod).await;
    let node = kubelet::Node::start(world.namespace.plane()).await;
    node.take(namespace, &pod).await;
    node.set_log(namespace, &pod, "agent", "done\n");
    kubelet::end_pod(&client, namespace, &pod, 0).await;
    in_phase(&world, "run", Phase::Succeeded).await;
    let mut costs = costs(&world, since).await;
    // One more where the Job's end was told before the pod's.
    assert!(costs.remove("list pods").unwrap_or(0) <= 1);
    assert_eq!(costs, budget(RUN));
}

#[tokio::test]
async fn a_run_that_waits_for_its_station_costs_three_reads_and_a_patch_more_when_we_play_the_kubelet() {
    let world = world_with(serde_json::json!({"maxConcurrentRuns": 1})).await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    launcher.works().await;
    let since = settled(&world).await;
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    agent(&world, "b").await;
    wait_for("the second is validated", LIMIT, || async {
        let costs = costs(&world, since).await;
        if costs.get("get agentdefinitions") == Some(&2) { Ok(()) } else { Err(costs) }
    })
    .await;
    for name in ["a", "b"] {
        crate::runs::end(&world, name, 0).await;
        in_phase(&world, name, Phase::Succeeded).await;
    }
    let mut costs = costs(&world, since).await;
    assert!(costs.remove("list pods").unwrap_or(0) <= 2);
    let wanted = [
        ("get agents", 3),
        ("get stations", 3),
        ("get agentdefinitions", 3),
        ("create jobs", 2),
        ("patch agents/status", 5),
        ("get pods/log", 2),
    ];
    assert_eq!(costs, budget(wanted));
}

#[tokio::test]
async fn at_rest_nothing_is_written_but_leases_when_we_play_the_kubelet() {
    let world = world_with(serde_json::json!({"maxConcurrentRuns": 1})).await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    launcher.works().await;
    // One runs and one waits.
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    kubelet::run_pod(&world.namespace.plane().client(), &world.namespace.name, &pod_of(&world, "a").await).await;
    agent(&world, "b").await;
    let since = settled(&world).await;
    // Twenty seconds and a listing of each kind, by the launcher's own renewals.
    let leases = world.namespace.api::<Lease>();
    let renewed = async || leases.get(&World::account(SERVICE)).await.unwrap().spec.unwrap().renew_time.unwrap().0;
    let start = renewed().await;
    wait_for("20 s of renewals", LIMIT, || async {
        let gone = renewed().await.duration_since(start);
        if gone >= jiff::SignedDuration::from_secs(19) { Ok(()) } else { Err(gone) }
    })
    .await;
    let mut written = world.namespace.audit().await;
    written.retain(|event| {
        event.is_write() && event.at > since && event.user.contains(":signalbox-") && event.resource != "leases"
    });
    assert_eq!(written.len(), 0, "{written:?}");
    assert_eq!(costs(&world, since).await, BTreeMap::new(), "nor is anything read by the launcher");
}

/// Waits until the launcher has asked for nothing for five seconds: what the first connection to the bus brought is over.
async fn settled(world: &World) -> jiff::Timestamp {
    wait_for("the launcher is quiet", LIMIT, || async {
        let last = world.requests(SERVICE).await.last().map(|event| (describe(event), event.at));
        let now = jiff::Timestamp::now();
        let quiet = last.as_ref().is_none_or(|(_, at)| now.duration_since(*at) >= jiff::SignedDuration::from_secs(5));
        if quiet { Ok(now) } else { Err(last) }
    })
    .await
}
