//! Conflicts, errors, and leaders that are not.

use serde_json::json;
use signalbox_testkit::{eventually, wait_for};
use signalbox_types::Phase;

use crate::{
    gate::{Act, Gate},
    support::{SERVICE, agent, deletes, end, ended, limit, names, only, patch_status, pruner, pruner_via, station},
    world::{LIMIT, SILENT_LIMIT, Via, World},
};

fn through(gate: &Gate) -> Via<'_> {
    Via { gate: Some(gate), bus: None }
}

#[tokio::test]
async fn case_55_a_run_that_changes_under_a_delete_is_kept_until_the_next_sweep() {
    let world = World::new().await;
    station(&world, "station").await;
    limit(&world, "station", 0, 0).await;
    ended(&world, "good", "station", Phase::Succeeded, 1).await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.method == "DELETE" { Act::HoldRequest } else { Act::Pass });
    let _pruner = pruner_via(&world, through(&gate)).await;
    eventually("it is to be deleted", LIMIT, || async { gate.count("DELETE", "/agents/good-00") == 1 }).await;
    patch_status(&world, "good-00", json!({"prUrl": "https://forge.example/1"})).await;
    gate.release();
    wait_for("the delete is refused", LIMIT, || async {
        let deletes = deletes(&world).await;
        if deletes.first() == Some(&("good-00".to_owned(), 409)) { Ok(()) } else { Err(deletes) }
    })
    .await;
    let _watcher = world.watcher().await;
    only(&world, &[]).await;
    assert_eq!(deletes(&world).await.iter().map(|(_, code)| *code).collect::<Vec<_>>(), [409, 200]);
}

#[tokio::test]
async fn trouble_with_one_station_stops_no_other() {
    let world = World::new().await;
    for name in ["bad", "good"] {
        station(&world, name).await;
        limit(&world, name, 0, 0).await;
        ended(&world, name, name, Phase::Succeeded, 2).await;
    }
    let gate = Gate::before(world.namespace.plane()).await;
    let broken = json!({"kind": "Status", "code": 500, "message": "etcd is away"}).to_string();
    gate.rule(move |asked| match asked.is("GET", "/stations/bad") {
        true => Act::Answer(500, broken.clone()),
        false => Act::Pass,
    });
    let pruner = pruner_via(&world, through(&gate)).await;
    only(&world, &["bad-00", "bad-01"]).await;
    let errors = "controller_reconciles_total{result=\"error\"}";
    eventually("the error is counted", LIMIT, || async { pruner.metric(errors).is_some_and(|count| count >= 1.0) })
        .await;
    gate.release();
    only(&world, &[]).await;
}

#[tokio::test]
async fn case_65_leadership_lost_in_the_middle_of_a_sweep_deletes_no_more() {
    let world = World::new().await;
    station(&world, "station").await;
    limit(&world, "station", 0, 0).await;
    ended(&world, "good", "station", Phase::Succeeded, 5).await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.method == "DELETE" { Act::HoldAnswer } else { Act::Pass });
    let pruner = pruner_via(&world, through(&gate)).await;
    let sent = || gate.asked().iter().filter(|asked| asked.method == "DELETE").count();
    eventually("the first delete", LIMIT, || async { sent() == 1 }).await;
    // The next tick of the election shows it that another leads.
    world.set_holder(SERVICE, "another").await;
    eventually("it leads no more", LIMIT, || async { pruner.metric("controller_is_leader") == Some(0.0) }).await;
    let at_the_end = sent();
    gate.release();
    let before = gate.count("GET", "/leases/signalbox-pruner");
    eventually("it stands by", LIMIT, || async { gate.count("GET", "/leases/signalbox-pruner") > before }).await;
    assert_eq!((sent(), names(&world).await.len()), (at_the_end, 5 - at_the_end));
    assert!(at_the_end <= 2, "{at_the_end}: an answer that does not come is waited for, five seconds");
    world.free_lease(SERVICE).await;
    only(&world, &[]).await;
}

#[tokio::test]
async fn histories_are_pruned_though_there_is_no_bus() {
    let world = World::new().await;
    world.nats.kill();
    station(&world, "station").await;
    let pruner = pruner(&world).await;
    pruner.works().await;
    ended(&world, "good", "station", Phase::Succeeded, 3).await;
    wait_for("the oldest goes", SILENT_LIMIT, || async {
        let names = names(&world).await;
        if names == ["good-01", "good-02"] { Ok(()) } else { Err(names) }
    })
    .await;
}

#[tokio::test]
async fn a_pruner_that_is_killed_is_followed_by_another_that_prunes_on() {
    let world = World::new().await;
    station(&world, "station").await;
    let exe = env!("CARGO_BIN_EXE_pruner");
    let first = world.program(exe, SERVICE, "first", None).await;
    world.led_by(SERVICE, "first").await;
    let _second = world.program(exe, SERVICE, "second", None).await;
    let _watcher = world.watcher().await;
    first.process.kill();
    for minute in 0..3 {
        let name = format!("good-{minute}");
        agent(&world, &name, "station").await;
        end(&world, &name, Phase::Succeeded, minute).await;
    }
    only(&world, &["good-1", "good-2"]).await;
}

#[tokio::test]
async fn a_pruner_that_is_asked_to_end_is_gone_within_a_second_with_its_lease_released() {
    let world = World::new().await;
    let program = world.program(env!("CARGO_BIN_EXE_pruner"), SERVICE, "first", None).await;
    world.led_by(SERVICE, "first").await;
    let asked = tokio::time::Instant::now();
    program.process.terminate();
    eventually("it ends", LIMIT, || async { !program.process.is_running() }).await;
    let took = asked.elapsed();
    assert!(took <= std::time::Duration::from_secs(1), "{took:?}");
    assert_eq!(world.holder(SERVICE).await, "");
}
