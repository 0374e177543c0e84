//! What the test itself hears on the bus, and the Agents it makes.

use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use signalbox_testkit::eventually;
use signalbox_types::Agent;

use crate::world::{LIMIT, Replica, World, next_message};

/// A subscription of the test's own.
pub struct Ear(async_nats::Subscriber);

impl Ear {
    pub async fn on(world: &World, subject: &str) -> Self {
        let bus = world.bus().await;
        let subscriber = bus.subscribe(subject.to_owned()).await.unwrap();
        // In force before anything is published.
        bus.flush().await.unwrap();
        Self(subscriber)
    }

    /// The next message.
    pub async fn next(&mut self) -> Value {
        let message = next_message(&mut self.0, LIMIT).await;
        serde_json::from_slice(&message.payload).unwrap()
    }

    /// The next message that `wanted` takes; the others are skipped.
    pub async fn next_that(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await;
            if wanted(&message) {
                return message;
            }
        }
    }

    /// The next change of the object of that name.
    pub async fn change_of(&mut self, name: &str) -> Value {
        self.next_that(|message| message["object"]["metadata"]["name"] == name || message["object"]["name"] == name)
            .await
    }

    /// The next listing that has the object of that name.
    pub async fn listing_with(&mut self, name: &str) -> Value {
        self.next_that(|message| names_in(message).iter().any(|listed| listed == name)).await
    }

    /// What has come and was not taken yet; what was published before this is among it.
    pub async fn rest(&mut self, world: &World) -> Vec<Value> {
        // The server keeps the order of one connection: this one comes after all that was published before it.
        let bus = world.bus().await;
        let marker = format!("{:016x}", rand::random::<u64>());
        bus.publish("signalbox.v1.change.agents", json!({"marker": marker}).to_string().into()).await.unwrap();
        bus.flush().await.unwrap();
        let mut rest = Vec::new();
        loop {
            let message = self.next().await;
            if message["marker"] == marker.as_str() {
                return rest;
            }
            rest.push(message);
        }
    }
}

/// The names in a part of a listing.
pub fn names_in(listing: &Value) -> Vec<String> {
    let objects = listing["objects"].as_array().into_iter().flatten();
    objects.filter_map(|object| object[1].as_str()).map(str::to_owned).collect()
}

/// Waits until a watcher leads and is connected to the bus: what it sees from now on is told.
pub async fn speaks(watcher: &Replica) {
    watcher.leads().await;
    eventually("it is connected", LIMIT, || async { watcher.service.bus.is_connected() }).await;
}

/// Makes an Agent.
pub async fn agent(world: &World, name: &str) -> Agent {
    let mut agent: Agent = serde_saphyr::from_str(include_str!("../fixtures/agent.yaml")).unwrap();
    agent.metadata.name = Some(name.to_owned());
    world.namespace.api().create(&PostParams::default(), &agent).await.unwrap()
}

/// Patches the status of an Agent.
pub async fn patch_status(world: &World, name: &str, status: Value) -> Agent {
    let patch = Patch::Merge(json!({"status": status}));
    world.namespace.api::<Agent>().patch_status(name, &PatchParams::default(), &patch).await.unwrap()
}

/// How long two listings of a kind are apart, and some more.
pub const LISTING_LIMIT: Duration = Duration::from_secs(20);
