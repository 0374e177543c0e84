//! Two watchers, one of which speaks; and what the leader counts.

use std::time::Duration;

use serde_json::json;
use signalbox_runtime::bus::{Bus, BusConfig};
use signalbox_testkit::{Nats, eventually};
use signalbox_types::Agent;
use tokio::time::Instant;

use crate::{
    gate::Gate,
    support::{Ear, agent, patch_status, speaks},
    world::{LIMIT, Via, World, next_message, run_watcher},
};

const SERVICE: &str = "watcher";
const EXE: &str = env!("CARGO_BIN_EXE_watcher");

#[tokio::test]
async fn a_standby_reads_its_lease_and_publishes_nothing() {
    let world = World::new().await;
    let leader = world.watcher().await;
    speaks(&leader).await;
    let gate = Gate::before(world.namespace.plane()).await;
    let standby = world.watcher_via(Via { gate: Some(&gate), bus: None }).await;
    let mut ear = Ear::on(&world, "signalbox.v1.>").await;
    agent(&world, "run").await;
    eventually("it has looked three times", LIMIT, || async { gate.asked().len() >= 3 }).await;
    assert!(gate.asked().iter().all(|asked| asked.is("GET", "/leases/signalbox-watcher")), "{:?}", gate.asked());
    let told = ear.rest(&world).await;
    let epochs: std::collections::BTreeSet<_> = told.iter().filter_map(|message| message["epoch"].as_str()).collect();
    assert!(epochs.len() <= 1, "{epochs:?}");
    let changes = told.iter().filter(|message| message["object"]["metadata"]["name"] == "run").count();
    assert_eq!(changes, 1, "one watcher told of it");
    assert_eq!(standby.metric("controller_agents{phase=\"Pending\"}"), None, "a standby counts no Agents");
    assert!(standby.service.health.is_ready());
}

#[tokio::test]
async fn the_leader_counts_agents_by_phase_and_forgets_them_when_it_leads_no_more() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        agent(&world, name).await;
    }
    patch_status(&world, "a", json!({"phase": "Running"})).await;
    patch_status(&world, "b", json!({"phase": "Failed", "exitCode": 1})).await;
    let watcher = world.watcher().await;
    let counts = || {
        let phases = ["Pending", "Running", "Succeeded", "Failed"];
        phases.map(|phase| watcher.metric(&format!("controller_agents{{phase=\"{phase}\"}}")))
    };
    eventually("all are counted", LIMIT, || async { counts() == [1.0, 1.0, 0.0, 1.0].map(Some) }).await;
    world.namespace.api::<Agent>().delete("b", &Default::default()).await.unwrap();
    eventually("one is gone", LIMIT, || async { counts() == [1.0, 1.0, 0.0, 0.0].map(Some) }).await;
    assert!(watcher.metric("controller_resyncs_total").unwrap() >= 5.0, "a listing of each kind");
    world.set_holder(SERVICE, "another").await;
    eventually("it counts nothing", LIMIT, || async { counts() == [None; 4] }).await;
}

#[tokio::test]
async fn a_watcher_that_is_asked_to_end_hands_over_at_once() {
    let world = World::new().await;
    let first = world.program(EXE, SERVICE, "first", None).await;
    world.led_by(SERVICE, "first").await;
    let second = world.program(EXE, SERVICE, "second", None).await;
    eventually("the second has seen the Lease", LIMIT, || async {
        second.get("/readyz").await.as_deref() == Some("ok")
    })
    .await;
    let mut ear = Ear::on(&world, "signalbox.v1.change.agents").await;
    let asked = Instant::now();
    first.process.terminate();
    eventually("it ends", LIMIT, || async { !first.process.is_running() }).await;
    let took = asked.elapsed();
    assert!(took <= Duration::from_secs(1), "{took:?}: {}", first.process.log_tail());
    world.led_by(SERVICE, "second").await;
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    agent(&world, "run").await;
    ear.change_of("run").await;
    assert_eq!(second.metric("controller_is_leader").await, Some(1.0));
}

#[tokio::test]
async fn a_watcher_that_is_killed_is_followed_by_another_once_its_lease_has_expired() {
    let world = World::new().await;
    let first = world.program(EXE, SERVICE, "first", None).await;
    world.led_by(SERVICE, "first").await;
    let _second = world.program(EXE, SERVICE, "second", None).await;
    first.process.kill();
    let mut ear = Ear::on(&world, "signalbox.v1.listing.agents").await;
    agent(&world, "run").await;
    world.led_by(SERVICE, "second").await;
    ear.listing_with("run").await;
}

#[tokio::test]
async fn the_watcher_writes_nothing_but_its_lease() {
    let world = World::new().await;
    let watcher = world.watcher().await;
    speaks(&watcher).await;
    let mut ear = Ear::on(&world, "signalbox.v1.listing.agents").await;
    agent(&world, "run").await;
    ear.listing_with("run").await;
    let requests = world.requests(SERVICE).await;
    assert!(
        !requests.is_empty() && requests.iter().all(|event| !event.is_write() && event.code == 200),
        "{requests:?}"
    );
}

/// The users of `k8s/base/nats.conf`, with passwords of the test's own.
#[tokio::test]
async fn under_the_rights_of_the_base_configuration_the_watcher_alone_tells_of_changes() {
    let world = World::new().await;
    let base = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../k8s/base/nats.conf")).unwrap();
    // The ports are the cluster's.
    let config: String = base.lines().filter(|line| !line.contains("port:")).collect::<Vec<_>>().join("\n");
    let password = |user: &str| format!("word-of-{user}");
    let config = ["watcher", "job-launcher", "pruner"].iter().fold(config, |config, user| {
        config.replace(&format!("$NATS_PASSWORD_{}", user.to_uppercase().replace('-', "_")), &password(user))
    });
    let nats = Nats::start_with(&config).await;
    let connect = async |user: &str| {
        let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password(user));
        options.connect(nats.url()).await.unwrap()
    };
    assert!(async_nats::connect(nats.url()).await.is_err(), "nobody else gets in");
    let mut service = world.service("watcher", Via::default()).await;
    let credentials = Some(("watcher".to_owned(), password("watcher")));
    let bus = BusConfig { url: nats.url(), credentials, name: "watcher".to_owned() };
    service.bus = Bus::connect(bus).await.unwrap();
    let listener = connect("job-launcher").await;
    let mut heard = listener.subscribe("signalbox.v1.>".to_owned()).await.unwrap();
    listener.flush().await.unwrap();
    let watcher = run_watcher(service);
    speaks(&watcher).await;
    // Not its own subject: refused, and nobody hears of it.
    for user in ["job-launcher", "pruner"] {
        let forger = connect(user).await;
        forger.publish("signalbox.v1.change.agents".to_owned(), "forged".into()).await.unwrap();
        forger.flush().await.unwrap();
    }
    agent(&world, "run").await;
    loop {
        let message = next_message(&mut heard, LIMIT).await;
        assert_ne!(message.payload, "forged");
        if message.subject.as_str() == "signalbox.v1.change.agents" {
            break;
        }
    }
}
