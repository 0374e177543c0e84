//! More than one namespace: names say which object is meant only within one.

use kube::ResourceExt;
use serde_json::json;
use signalbox_testkit::{eventually, kubelet};
use signalbox_types::{Agent, AgentDefinition, Phase};

use crate::{
    gate::{Act, Gate},
    runs::{
        SERVICE, agent, describe, end, get, in_phase, jobs, jobs_created, launcher, launcher_via, patch, pod_of,
        requested, station,
    },
    world::{LIMIT, SILENT_LIMIT, Via, World},
};

/// Makes the recipe and a Station `station` of one run at a time.
async fn furnish(world: &World, policy: &str) {
    let _: AgentDefinition = world.namespace.create(include_str!("../fixtures/definition.yaml")).await;
    station(world, "station", json!({"maxConcurrentRuns": 1, "concurrencyPolicy": policy})).await;
}

/// Two namespaces with the same Station; its limit and its queue are those of one namespace.
async fn two_run_at_once(a: &World, b: &World) {
    for world in [a, b] {
        agent(world, "first").await;
    }
    for world in [a, b] {
        in_phase(world, "first", Phase::Running).await;
        agent(world, "second").await;
    }
    for world in [a, b] {
        let queued = |status: &Agent| status.status.as_ref().is_some_and(|status| !status.conditions.is_empty());
        eventually("it waits", LIMIT, || async { queued(&get(world, "second").await) }).await;
    }
    // The end of one makes room in its own namespace.
    end(a, "first", 0).await;
    in_phase(a, "second", Phase::Running).await;
    assert_eq!((get(b, "first").await.phase(), get(b, "second").await.phase()), (Phase::Running, Phase::Pending));
    assert_eq!(jobs(b).await, ["agent-job-first"]);
    let logged = b.namespace.api::<k8s_openapi::api::core::v1::Event>();
    eventually("an Event of it is in its namespace", LIMIT, || async {
        logged
            .list(&Default::default())
            .await
            .unwrap()
            .iter()
            .any(|event| event.reason.as_deref() == Some("JobCreated"))
    })
    .await;
}

#[tokio::test]
async fn equal_stations_and_agents_of_two_namespaces_by_name_never_mix_and_a_third_is_not_served_when_we_play_the_kubelet()
 {
    let [a, b] = World::several().await;
    let c = a.beside().await;
    for world in [&a, &b, &c] {
        furnish(world, "Allow").await;
    }
    agent(&c, "first").await;
    let (launcher, watcher) = (launcher(&a).await, a.watcher().await);
    launcher.works().await;
    agent(&c, "second").await;
    two_run_at_once(&a, &b).await;
    assert_eq!(get(&c, "first").await.status, None);
    assert_eq!((jobs_created(&a).await, jobs_created(&b).await), (2, 1));
    assert_eq!(c.requests(SERVICE).await.len(), 0, "not even asked for");
    launcher.stop().await;
    watcher.stop().await;
}

#[tokio::test]
async fn with_the_cluster_roles_a_namespace_that_is_made_later_is_served_too_when_we_play_the_kubelet() {
    let world = World::whole_cluster().await;
    furnish(&world, "Allow").await;
    let (launcher, watcher) = (launcher(&world).await, world.watcher().await);
    launcher.works().await;
    watcher.works().await;
    let later = world.beside().await;
    furnish(&later, "Allow").await;
    two_run_at_once(&world, &later).await;
    launcher.stop().await;
    watcher.stop().await;
}

#[tokio::test]
async fn replace_takes_no_victim_from_another_namespace() {
    let [a, b] = World::several().await;
    for world in [&a, &b] {
        furnish(world, "Replace").await;
    }
    let _services = (launcher(&a).await, a.watcher().await);
    for world in [&a, &b] {
        agent(world, "old").await;
        in_phase(world, "old", Phase::Running).await;
    }
    agent(&b, "new").await;
    in_phase(&b, "new", Phase::Running).await;
    assert_eq!(get(&a, "old").await.phase(), Phase::Running);
    assert!(b.namespace.api::<Agent>().get_opt("old").await.unwrap().is_none());
    assert_eq!(a.requests(SERVICE).await.iter().filter(|event| event.verb == "delete").count(), 0);
    // The LIST of one namespace's Agents has told nothing of the other's: its run still holds its slot.
    agent(&a, "new").await;
    in_phase(&a, "new", Phase::Running).await;
    assert!(a.namespace.api::<Agent>().get_opt("old").await.unwrap().is_none());
    assert_eq!(get(&b, "new").await.phase(), Phase::Running);
}

#[tokio::test]
async fn cancel_and_a_changed_station_reach_the_run_of_their_own_namespace() {
    let [a, b] = World::several().await;
    for world in [&a, &b] {
        furnish(world, "Allow").await;
    }
    let _services = (launcher(&a).await, a.watcher().await);
    for world in [&a, &b] {
        agent(world, "first").await;
        in_phase(world, "first", Phase::Running).await;
        agent(world, "second").await;
    }
    let canceled = json!({"metadata": {"annotations": {"agents.re-cinq.com/cancel": "true"}}});
    patch::<Agent>(&b, "second", canceled).await;
    in_phase(&b, "second", Phase::Failed).await;
    patch::<signalbox_types::Station>(&b, "station", json!({"spec": {"maxConcurrentRuns": 2}})).await;
    agent(&b, "third").await;
    in_phase(&b, "third", Phase::Running).await;
    assert_eq!((get(&a, "first").await.phase(), get(&a, "second").await.phase()), (Phase::Running, Phase::Pending));
    assert_eq!(get(&b, "first").await.phase(), Phase::Running);
}

#[tokio::test]
async fn without_a_watcher_both_namespaces_are_served_by_own_listings_when_we_play_the_kubelet() {
    let [a, b] = World::several().await;
    for world in [&a, &b] {
        furnish(world, "Allow").await;
    }
    let launcher = launcher(&a).await;
    launcher.works().await;
    for world in [&a, &b] {
        agent(world, "run").await;
    }
    for world in [&a, &b] {
        let agents = world.namespace.api::<Agent>();
        eventually("it runs", SILENT_LIMIT, || async { agents.get("run").await.unwrap().phase() == Phase::Running })
            .await;
    }
    // Its pod too is looked for where it is.
    let pod = pod_of(&b, "run").await;
    let (client, namespace) = (b.namespace.plane().client(), &b.namespace.name);
    kubelet::run_pod(&client, namespace, &pod).await;
    kubelet::end_pod(&client, namespace, &pod, 3).await;
    eventually("it has ended", SILENT_LIMIT, || async { get(&b, "run").await.phase() == Phase::Failed }).await;
    assert_eq!(get(&b, "run").await.status.unwrap().exit_code, Some(3));
    assert_eq!(get(&a, "run").await.phase(), Phase::Running);
}

#[tokio::test]
async fn a_namespace_that_refuses_keeps_no_other_from_being_served_and_is_served_once_it_does_not() {
    let [a, b] = World::several().await;
    for world in [&a, &b] {
        furnish(world, "Allow").await;
        agent(world, "run").await;
    }
    let gate = Gate::before(a.namespace.plane()).await;
    let refused = format!("/namespaces/{}/", b.namespace.name);
    gate.rule(move |asked| match asked.path.contains(&refused) {
        true => Act::Answer(403, json!({"kind": "Status", "status": "Failure", "code": 403}).to_string()),
        false => Act::Pass,
    });
    let launcher = launcher_via(&a, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = a.watcher().await;
    launcher.works().await;
    in_phase(&a, "run", Phase::Running).await;
    // Told of, and left alone: what stands beside it is not known.
    let later = agent(&b, "later").await;
    assert_eq!(get(&b, "later").await.uid(), later.uid());
    assert!(gate.asked().iter().all(|asked| !asked.path.ends_with("/agents/run") || asked.path.contains(&a.home)));
    gate.release();
    in_phase(&b, "run", Phase::Running).await;
    let request = requested(&b, "a Job", |event| describe(event) == "create jobs" && event.code == 201).await;
    assert_eq!(request.name, "agent-job-run");
    assert_eq!(jobs(&b).await, ["agent-job-run"], "its limit holds from the first");
    assert_eq!(get(&b, "later").await.phase(), Phase::Pending);
}
