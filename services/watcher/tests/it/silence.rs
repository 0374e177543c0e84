//! A connection that is there and says nothing.

use std::time::Duration;

use futures::TryStreamExt;
use kube::{
    Api, ResourceExt,
    api::{ListParams, WatchParams},
    core::WatchEvent,
};
use signalbox_runtime::{client::Clients, metrics::Metrics};
use signalbox_testkit::{Namespace, Proxy};
use signalbox_types::Agent;
use tokio::time::Instant;

/// At the level of the client that the watcher uses, because six minutes are too long to wait for: the clock is the
/// test's. (kube's watcher ends a silent watch even sooner, after 300 s, by the same means.)
#[tokio::test]
async fn case_62_a_watch_over_a_half_open_connection_ends_by_360_seconds_and_goes_on_from_its_version() {
    let namespace = Namespace::fresh().await;
    let proxy = Proxy::to(namespace.plane().address()).await;
    let mut config = namespace.plane().config();
    config.cluster_url = format!("https://{}", proxy.address()).parse().unwrap();
    let clients = Clients::from_config(config, &Metrics::new().unwrap()).unwrap();
    let agents: Api<Agent> = Api::namespaced(clients.reader, &namespace.name);
    let version = agents.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = Box::pin(agents.watch(&WatchParams::default(), &version).await.unwrap());
    proxy.stall();
    let _: Agent = namespace.create(include_str!("../fixtures/agent.yaml")).await;
    tokio::time::pause();
    let began = Instant::now();
    let ended = events.try_next().await;
    let silent = began.elapsed();
    tokio::time::resume();
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    assert!(silent > Duration::from_secs(300) && silent <= Duration::from_secs(361), "{silent:?}");
    proxy.resume();
    let mut events = Box::pin(agents.watch(&WatchParams::default(), &version).await.unwrap());
    let missed = events.try_next().await.unwrap().unwrap();
    assert!(matches!(&missed, WatchEvent::Added(agent) if agent.name_any() == "run"), "{missed:?}");
}
