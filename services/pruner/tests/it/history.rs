//! What is kept and what goes.

use serde_json::json;
use signalbox_testkit::wait_for;
use signalbox_types::{Agent, Phase};

use crate::{
    support::{SERVICE, agent, deletes, end, ended, limit, names, only, patch_status, pruner, station},
    world::{LIMIT, World},
};

#[tokio::test]
async fn case_54_and_fix_0_10_5_many_runs_that_ended_before_the_start_are_pruned_at_once_with_sixty_of_them() {
    let world = World::new().await;
    station(&world, "station").await;
    ended(&world, "good", "station", Phase::Succeeded, 40).await;
    ended(&world, "bad", "station", Phase::Failed, 20).await;
    // No watcher and no message is needed for it.
    let pruner = pruner(&world).await;
    only(&world, &["bad-19", "good-38", "good-39"]).await;
    let deletes = deletes(&world).await;
    assert_eq!((deletes.len(), deletes.iter().all(|(_, code)| *code == 200)), (57, true), "{deletes:?}");
    pruner.stop().await;
}

#[tokio::test]
async fn each_run_that_ends_makes_the_oldest_of_its_phase_go() {
    let world = World::new().await;
    station(&world, "station").await;
    let pruner = pruner(&world).await;
    let _watcher = world.watcher().await;
    pruner.works().await;
    for minute in 0..4 {
        let name = format!("good-{minute}");
        agent(&world, &name, "station").await;
        end(&world, &name, Phase::Succeeded, minute).await;
    }
    only(&world, &["good-2", "good-3"]).await;
    for minute in 4..7 {
        let name = format!("bad-{minute}");
        agent(&world, &name, "station").await;
        end(&world, &name, Phase::Failed, minute).await;
    }
    only(&world, &["bad-6", "good-2", "good-3"]).await;
}

#[tokio::test]
async fn runs_that_have_not_ended_are_never_touched() {
    let world = World::new().await;
    station(&world, "station").await;
    limit(&world, "station", 0, 0).await;
    agent(&world, "pending", "station").await;
    agent(&world, "running", "station").await;
    patch_status(&world, "running", json!({"phase": "Running"})).await;
    ended(&world, "good", "station", Phase::Succeeded, 2).await;
    ended(&world, "bad", "station", Phase::Failed, 2).await;
    let _services = (pruner(&world).await, world.watcher().await);
    only(&world, &["pending", "running"]).await;
}

#[tokio::test]
async fn case_56_a_limit_of_0_touches_no_other_stations_history() {
    let world = World::new().await;
    station(&world, "none").await;
    limit(&world, "none", 0, 0).await;
    station(&world, "two").await;
    ended(&world, "none", "none", Phase::Succeeded, 3).await;
    ended(&world, "two", "two", Phase::Succeeded, 3).await;
    ended(&world, "lost", "gone", Phase::Succeeded, 5).await;
    let _services = (pruner(&world).await, world.watcher().await);
    let lost = ["lost-00", "lost-01", "lost-02", "lost-03", "lost-04"];
    only(&world, &[&lost[..], &["two-01", "two-02"]].concat()).await;
}

#[tokio::test]
async fn a_lowered_limit_prunes_at_once_and_a_station_made_later_counts_too() {
    let world = World::new().await;
    station(&world, "station").await;
    ended(&world, "good", "station", Phase::Succeeded, 2).await;
    ended(&world, "late", "later", Phase::Succeeded, 4).await;
    let pruner = pruner(&world).await;
    let _watcher = world.watcher().await;
    pruner.works().await;
    limit(&world, "station", 1, 0).await;
    only(&world, &["good-01", "late-00", "late-01", "late-02", "late-03"]).await;
    station(&world, "later").await;
    only(&world, &["good-01", "late-02", "late-03"]).await;
}

#[tokio::test]
async fn case_57_a_run_that_a_finalizer_holds_is_deleted_once_and_goes_when_it_is_let_go() {
    let world = World::new().await;
    station(&world, "station").await;
    limit(&world, "station", 0, 0).await;
    agent(&world, "held", "station").await;
    let patch = |finalizers| kube::api::Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let (agents, params) = (world.namespace.api::<Agent>(), Default::default());
    agents.patch("held", &params, &patch(json!(["agents.re-cinq.com/batch-cleanup"]))).await.unwrap();
    end(&world, "held", Phase::Succeeded, 0).await;
    let _services = (pruner(&world).await, world.watcher().await);
    wait_for("it is terminating", LIMIT, || async {
        let held = agents.get("held").await.unwrap();
        if held.is_terminating() { Ok(()) } else { Err(held.metadata) }
    })
    .await;
    // Another one shows that the pruner has gone on, and it does not ask again for what is on its way.
    agent(&world, "next", "station").await;
    end(&world, "next", Phase::Failed, 1).await;
    only(&world, &["held"]).await;
    assert_eq!(deletes(&world).await.len(), 2);
    agents.patch("held", &params, &patch(json!(null))).await.unwrap();
    only(&world, &[]).await;
}

#[tokio::test]
async fn at_rest_a_pruner_with_full_histories_asks_for_nothing() {
    let world = World::new().await;
    station(&world, "station").await;
    ended(&world, "good", "station", Phase::Succeeded, 2).await;
    let pruner = pruner(&world).await;
    let _watcher = world.watcher().await;
    pruner.works().await;
    let source = "controller_store_listing_source{kind=\"stations\",source=\"bus\"}";
    signalbox_testkit::eventually("a listing has come over the bus", LIMIT, || async {
        pruner.metric(source) == Some(1.0)
    })
    .await;
    let requests = world.requests(SERVICE).await;
    assert!(requests.iter().all(|event| event.verb == "list"), "{requests:?}");
    assert_eq!(names(&world).await.len(), 2);
}

#[tokio::test]
async fn equal_stations_of_two_namespaces_keep_histories_of_their_own_and_a_third_is_left_alone() {
    let [a, b] = World::several().await;
    let c = a.beside().await;
    for world in [&a, &b, &c] {
        station(world, "station").await;
    }
    ended(&a, "good", "station", Phase::Succeeded, 3).await;
    ended(&b, "good", "station", Phase::Succeeded, 2).await;
    ended(&c, "good", "station", Phase::Succeeded, 3).await;
    let (pruner, _watcher) = (pruner(&a).await, a.watcher().await);
    only(&a, &["good-01", "good-02"]).await;
    // By a message; by a Station's change; and the third stays as it is.
    agent(&b, "next", "station").await;
    end(&b, "next", Phase::Succeeded, 9).await;
    only(&b, &["good-01", "next"]).await;
    limit(&b, "station", 1, 1).await;
    only(&b, &["next"]).await;
    assert_eq!(names(&a).await, ["good-01", "good-02"]);
    assert_eq!(names(&c).await.len(), 3);
    assert_eq!(c.requests(SERVICE).await.len(), 0, "not even asked for");
    pruner.stop().await;
}

#[tokio::test]
async fn with_the_cluster_roles_histories_of_all_namespaces_are_kept_one_that_is_made_later_too() {
    let world = World::whole_cluster().await;
    let (pruner, watcher) = (pruner(&world).await, world.watcher().await);
    pruner.works().await;
    watcher.works().await;
    let later = world.beside().await;
    for world in [&world, &later] {
        station(world, "station").await;
        ended(world, "good", "station", Phase::Succeeded, 2).await;
    }
    ended(&later, "bad", "station", Phase::Failed, 2).await;
    only(&later, &["bad-01", "good-00", "good-01"]).await;
    limit(&later, "station", 1, 1).await;
    only(&later, &["bad-01", "good-01"]).await;
    assert_eq!(names(&world).await, ["good-00", "good-01"]);
    pruner.stop().await;
    watcher.stop().await;
}
