//! A bus that is away, dies, comes back or hangs: every run still ends, only later.

use std::time::Duration;

use serde_json::json;
use signalbox_testkit::{AuditEvent, Proxy, kubelet};
use signalbox_types::{
    Agent, Phase,
    bus::{Change, change_subject},
};

use crate::{
    runs::{
        Kubelet, SERVICE, agent, agent_with, end, get, in_phase, in_phase_within, jobs_created, launcher, launcher_via,
        pod_of, station, world, world_with,
    },
    world::{LIMIT, SILENT_LIMIT, Via, next_message},
};

#[tokio::test]
async fn runs_end_though_the_bus_was_never_started_when_we_play_the_kubelet() {
    let world = world().await;
    world.nats.kill();
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    launcher.works().await;
    let _kubelet = Kubelet::play(&world);
    agent(&world, "run").await;
    in_phase_within(&world, "run", Phase::Succeeded, SILENT_LIMIT).await;
    assert_eq!(jobs_created(&world).await, 1);
    assert_eq!(launcher.metric("controller_store_listing_source{kind=\"agents\",source=\"own\"}"), Some(1.0));
}

#[tokio::test]
async fn runs_end_though_the_bus_dies_between_their_start_and_their_end_when_we_play_the_kubelet() {
    let world = world().await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    launcher.works().await;
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    world.nats.kill();
    agent(&world, "b").await;
    let _kubelet = Kubelet::play(&world);
    for name in ["a", "b"] {
        in_phase_within(&world, name, Phase::Succeeded, SILENT_LIMIT).await;
    }
    assert_eq!(jobs_created(&world).await, 2);
}

#[tokio::test]
async fn a_bus_that_comes_back_is_used_at_once_when_we_play_the_kubelet() {
    let world = world().await;
    let launcher = launcher(&world).await;
    let watcher = world.watcher().await;
    launcher.works().await;
    watcher.works().await;
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    world.nats.kill();
    end(&world, "a", 0).await;
    agent(&world, "b").await;
    let killed = tokio::time::Instant::now();
    world.nats.restart().await;
    in_phase(&world, "a", Phase::Succeeded).await;
    in_phase(&world, "b", Phase::Running).await;
    let took = killed.elapsed();
    assert!(took < std::time::Duration::from_secs(25), "{took:?}: silence alone would have taken 35 s");
    assert_eq!(jobs_created(&world).await, 2);
}

#[tokio::test]
async fn runs_end_though_the_bus_hangs_when_we_play_the_kubelet() {
    let world = world().await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    launcher.works().await;
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    world.nats.pause();
    agent(&world, "b").await;
    let _kubelet = Kubelet::play(&world);
    for name in ["a", "b"] {
        in_phase_within(&world, name, Phase::Succeeded, SILENT_LIMIT).await;
    }
    world.nats.resume();
    // What it kept comes late, and changes nothing.
    agent(&world, "c").await;
    in_phase_within(&world, "c", Phase::Succeeded, SILENT_LIMIT).await;
    assert_eq!(jobs_created(&world).await, 3);
}

#[tokio::test]
async fn runs_end_though_the_launcher_alone_is_cut_off_from_the_bus_when_we_play_the_kubelet() {
    let world = world().await;
    let proxy = Proxy::to(world.nats.address()).await;
    let launcher = launcher_via(&world, Via { bus: Some(proxy.address()), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    launcher.works().await;
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    proxy.stall();
    let _kubelet = Kubelet::play(&world);
    in_phase_within(&world, "a", Phase::Succeeded, SILENT_LIMIT).await;
    proxy.resume();
    agent(&world, "b").await;
    in_phase_within(&world, "b", Phase::Succeeded, SILENT_LIMIT).await;
    assert_eq!(jobs_created(&world).await, 2);
}

#[tokio::test]
async fn every_message_of_the_past_told_again_in_any_order_changes_nothing_when_we_play_the_kubelet() {
    let world = world_with(json!({"maxConcurrentRuns": 1})).await;
    let bus = world.bus().await;
    let mut past = bus.subscribe("signalbox.v1.>".to_owned()).await.unwrap();
    bus.flush().await.unwrap();
    let launcher = launcher(&world).await;
    let watcher = world.watcher().await;
    launcher.works().await;
    watcher.works().await;
    agent(&world, "a").await;
    end(&world, "a", 0).await;
    in_phase(&world, "a", Phase::Succeeded).await;
    agent(&world, "gone").await;
    in_phase(&world, "gone", Phase::Running).await;
    world.namespace.api::<Agent>().delete("gone", &Default::default()).await.unwrap();
    agent(&world, "b").await;
    in_phase(&world, "b", Phase::Running).await;
    agent(&world, "c").await;
    let listed = change_or_listing(&mut past, "c").await;
    // So that nothing is said of its start meanwhile.
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    kubelet::run_pod(&client, namespace, &pod_of(&world, "b").await).await;
    // One that is refused is harmless: each names the version that it was computed from. Events are apart.
    let done = |event: &AuditEvent| event.is_write() && event.code < 300 && event.resource != "events";
    let writes = async || world.requests(SERVICE).await.into_iter().filter(done).count();
    let before = writes().await;
    for round in 0..3 {
        for (at, message) in listed.iter().enumerate() {
            let other = &listed[(at * 7 + round * 3) % listed.len()];
            for message in [message, other] {
                bus.publish(message.subject.clone(), message.payload.clone()).await.unwrap();
            }
        }
    }
    bus.flush().await.unwrap();
    // A Station of its own shows when all of it has been read: its change comes last.
    station(&world, "other", json!({})).await;
    agent_with(&world, "last", json!({"spec": {"stationRef": "other"}})).await;
    in_phase(&world, "last", Phase::Running).await;
    assert_eq!(writes().await, before + 2, "the start of the last run alone");
    assert_eq!((get(&world, "b").await.phase(), get(&world, "c").await.phase()), (Phase::Running, Phase::Pending));
    end(&world, "b", 0).await;
    in_phase(&world, "c", Phase::Running).await;
}

#[tokio::test]
async fn a_forged_end_in_a_version_that_was_never_given_out_only_delays_a_run_when_we_play_the_kubelet() {
    let world = world().await;
    let bus = world.bus().await;
    let launcher = launcher(&world).await;
    let watcher = world.watcher().await;
    launcher.works().await;
    watcher.works().await;
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    let mut forged = get(&world, "a").await;
    forged.metadata.resource_version = Some(u64::MAX.to_string());
    forged.status.as_mut().unwrap().phase = Some(Phase::Succeeded);
    let message = Change::Applied(forged).encode().unwrap();
    bus.publish(change_subject("agents"), message.into()).await.unwrap();
    bus.flush().await.unwrap();
    // Its change comes after the forged one.
    agent(&world, "b").await;
    in_phase(&world, "b", Phase::Running).await;
    end(&world, "a", 0).await;
    in_phase_within(&world, "a", Phase::Succeeded, SILENT_LIMIT).await;
    assert_eq!(jobs_created(&world).await, 2);
}

/// All messages up to the first that names that object.
async fn change_or_listing(past: &mut async_nats::Subscriber, name: &str) -> Vec<async_nats::Message> {
    let mut messages = Vec::new();
    loop {
        let message = next_message(past, LIMIT).await;
        let named = String::from_utf8_lossy(&message.payload).contains(&format!("\"{name}\""));
        messages.push(message);
        if named {
            return messages;
        }
    }
}

#[tokio::test]
async fn twenty_runs_end_once_each_though_the_bus_breaks_again_and_again_when_we_play_the_kubelet() {
    let world = world().await;
    let proxy = Proxy::to(world.nats.address()).await;
    let via = Via { bus: Some(proxy.address()), ..Via::default() };
    let _launcher = launcher_via(&world, via).await;
    let _watcher = world.watcher_via(via).await;
    let _kubelet = Kubelet::play(&world);
    for number in 0..20 {
        agent(&world, &format!("run-{number:02}")).await;
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..150))).await;
        match number % 4 {
            0 => proxy.drop_connections(),
            1 => proxy.stall(),
            2 => proxy.refuse(),
            _ => proxy.resume(),
        }
    }
    for number in 0..20 {
        in_phase_within(&world, &format!("run-{number:02}"), Phase::Succeeded, SILENT_LIMIT).await;
    }
    assert_eq!(jobs_created(&world).await, 20);
}
