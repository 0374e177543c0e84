//! A bus that is away, dies, comes back or hangs: every run still ends, only later.

use signalbox_testkit::Proxy;
use signalbox_types::Phase;

use crate::{
    runs::{Kubelet, agent, end, in_phase, in_phase_within, jobs_created, launcher, launcher_via, world},
    world::{SILENT_LIMIT, Via},
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
