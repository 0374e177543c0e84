//! The listing of one kind: every 15 s, whatever state its watch is in.

use std::time::Duration;

use signalbox_runtime::list;
use signalbox_types::{
    Agent, Watched,
    bus::{ListingPart, listing_subject},
};
use tokio::time::{Instant, sleep_until};

use crate::stream::Scope;

/// Between listings.
const INTERVAL: Duration = Duration::from_secs(15);
/// Between a listing and one that a bus which came back asks for.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// Listings in a row that may fail before the service counts as unhealthy.
const TOLERATED: u32 = 2;

/// Publishes a listing now and every [`INTERVAL`], and as soon as the bus is back.
pub(crate) async fn publish<K: Watched>(scope: &Scope) {
    let mut trouble = scope.service.bus.trouble();
    let mut failures = 0;
    loop {
        trouble.mark_unchanged();
        let began = Instant::now();
        match once::<K>(scope).await {
            Ok(()) => {
                failures = 0;
                scope.failing.set(K::KIND, false);
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(kind = K::KIND, failures, %error, "listing failed");
                scope.failing.set(K::KIND, failures > TOLERATED);
            }
        }
        tokio::select! {
            () = sleep_until(began + INTERVAL) => {}
            Ok(()) = trouble.changed() => sleep_until(began + MIN_PAUSE).await,
        }
    }
}

async fn once<K: Watched>(scope: &Scope) -> Result<(), kube::Error> {
    let namespace = &scope.service.namespace;
    let (version, objects) = list::metadata::<K>(&scope.service.clients.reader, namespace).await?;
    for part in ListingPart::split(K::KIND, &scope.epoch, std::slice::from_ref(namespace), version, objects) {
        match part.encode() {
            Ok(body) => scope.service.bus.publish(listing_subject(K::KIND), None, body).await,
            Err(error) => tracing::error!(kind = K::KIND, %error, "listing not encoded"),
        }
    }
    scope.metrics.resyncs.inc();
    if K::KIND == <Agent as Watched>::KIND {
        scope.count_agents();
    }
    Ok(())
}
