//! The listing of one kind: every 15 s, whatever state its watch is in.

use std::time::Duration;

use signalbox_runtime::list;
use signalbox_types::{
    Agent, Watched,
    bus::{ListingPart, listing_subject},
};
use tokio::time::{Instant, sleep_until};

use crate::stream::Shared;

/// Between listings.
const INTERVAL: Duration = Duration::from_secs(15);
/// Between a listing and one that a bus which came back asks for.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Listings in a row that may fail before the service counts as unhealthy.
const TOLERATED: u32 = 2;

/// Publishes a listing now and every [`INTERVAL`], and as soon as the bus is back.
pub(crate) async fn publish<K: Watched>(shared: &Shared) {
    let mut trouble = shared.service.bus.trouble();
    let mut failures = 0;
    loop {
        trouble.mark_unchanged();
        let began = Instant::now();
        match once::<K>(shared).await {
            Ok(()) => {
                failures = 0;
                shared.failing.set(K::KIND, false);
            }
            Err(Failure(namespace, error)) => {
                failures += 1;
                tracing::warn!(kind = K::KIND, namespace, failures, %error, "listing failed");
                shared.failing.set(K::KIND, failures > TOLERATED);
            }
        }
        tokio::select! {
            () = sleep_until(began + INTERVAL) => {}
            Ok(()) = trouble.changed() => sleep_until(began + MIN_PAUSE).await,
        }
    }
}

/// Publishes what could be listed, and fails with what could not.
async fn once<K: Watched>(shared: &Shared) -> Result<(), Failure> {
    let service = &shared.service;
    let listed = list::metadata::<K>(&service.clients.reader, &service.scope).await;
    let list::Versions { scope, version, objects, refused } = listed.map_err(|error| Failure(None, error))?;
    for part in ListingPart::split(K::KIND, &shared.epoch, &scope, version, objects) {
        match part.encode() {
            Ok(body) => service.bus.publish(listing_subject(K::KIND), None, body).await,
            Err(error) => tracing::error!(kind = K::KIND, %error, "listing not encoded"),
        }
    }
    shared.metrics.resyncs.inc();
    if K::KIND == <Agent as Watched>::KIND {
        shared.count_agents();
    }
    match refused.into_iter().next() {
        Some((namespace, error)) => Err(Failure(Some(namespace), error)),
        None => Ok(()),
    }
}

/// Why a listing is not whole, and the first namespace that it lacks if it has others.
struct Failure(Option<String>, kube::Error);
