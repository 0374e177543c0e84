//! Keeps a [`Kind`] true: from the bus while it speaks, by own listings while it does not.

use std::time::Duration;

use async_nats::Message;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use prometheus::{IntGaugeVec, Opts};
use signalbox_types::{
    ObjectId, Watched,
    bus::{Change, HEADER_TRACEPARENT, ListingPart, change_subject, listing_subject},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    assembly::Assembly,
    get_guarded,
    table::{Key, Listing},
    {Kind, Notice},
};
use crate::{
    bus::{Bus, BusError},
    health::Failing,
    list::{self, Only},
    metrics::Metrics,
    scope::Scope,
};

/// Between a listing and its comparison: the changes that were on their way have come by then.
const SETTLE: Duration = Duration::from_secs(2);
/// GETs at a time after a comparison.
const SETTLE_CONCURRENCY: usize = 8;
/// Without a complete listing for so long, plus up to [`SILENCE_JITTER`], the bus counts as silent.
const SILENCE: Duration = Duration::from_secs(35);
/// Keeps the services from listing at the same moment once the bus is gone.
const SILENCE_JITTER: Duration = Duration::from_secs(10);
/// Between own listings.
const OWN_LISTING_INTERVAL: Duration = Duration::from_secs(15);
/// After a LIST that failed.
const RETRY: Duration = Duration::from_secs(2);
/// Namespaces that are listed at the same time, at first.
const FILL_CONCURRENCY: usize = 8;
/// Between attempts to list a namespace that refuses it.
const REOPEN_INTERVAL: Duration = Duration::from_secs(15);
/// Own listings in a row that may fail before the service counts as unhealthy.
const TOLERATED: u32 = 2;
/// Between own listings that trouble on the bus asks for.
const TROUBLE_PAUSE: Duration = Duration::from_secs(2);

/// Tells where listings come from and how old the last one is.
#[derive(Clone)]
pub struct FeedMetrics {
    source: IntGaugeVec,
    last: IntGaugeVec,
}

impl FeedMetrics {
    /// Registers `controller_store_listing_source` and `controller_store_last_listing_timestamp_seconds`.
    pub fn register(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let source = Opts::new(
            "controller_store_listing_source",
            "1 for the source of the newest listing of a kind: the bus, or the service's own LIST.",
        );
        let last = Opts::new(
            "controller_store_last_listing_timestamp_seconds",
            "When the newest listing of a kind was complete, in seconds since the epoch.",
        );
        Ok(Self {
            source: metrics.register(IntGaugeVec::new(source, &["kind", "source"])?)?,
            last: metrics.register(IntGaugeVec::new(last, &["kind"])?)?,
        })
    }

    fn listed(&self, kind: &str, source: Source) {
        self.source.with_label_values(&[kind, "bus"]).set(i64::from(source == Source::Bus));
        self.source.with_label_values(&[kind, "own"]).set(i64::from(source == Source::Own));
        self.last.with_label_values(&[kind]).set(jiff::Timestamp::now().as_second());
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Bus,
    Own,
}

/// What feeds one kind.
pub struct Feed<K: Watched> {
    kind: Kind<K>,
    bus: Bus,
    metrics: FeedMetrics,
    assembly: Assembly,
    failing: Failing,
    /// Own listings in a row that failed.
    failures: u32,
    settling: FuturesUnordered<BoxFuture<'static, ()>>,
    own: Option<BoxFuture<'static, Option<Listing>>>,
    /// The scope without the namespaces that have refused their first LIST. Nothing is decided about an object of those:
    /// what stands beside it is not known.
    serving: Scope,
    /// Tries those again, and gives back the ones that still refuse.
    reopening: Option<BoxFuture<'static, Vec<String>>>,
    silent_at: Instant,
}

impl<K: Watched> Feed<K> {
    /// A feed that has not begun.
    pub fn new(kind: Kind<K>, bus: Bus, metrics: FeedMetrics, failing: Failing) -> Self {
        let serving = kind.inner.scope.clone();
        Self {
            kind,
            bus,
            metrics,
            assembly: Assembly::default(),
            failing,
            failures: 0,
            settling: FuturesUnordered::new(),
            own: None,
            serving,
            reopening: None,
            silent_at: silence_from_now(),
        }
    }

    /// Subscribes, LISTs, calls `ready`, and then keeps the kind true until it is dropped. The order matters: what
    /// changes after the LIST comes by the subscription.
    pub async fn run(mut self, ready: impl FnOnce()) -> Result<(), BusError> {
        let mut changes = self.bus.subscribe(change_subject(K::KIND)).await?;
        let mut listings = self.bus.subscribe(listing_subject(K::KIND)).await?;
        let mut trouble = self.bus.trouble();
        trouble.mark_unchanged();
        let closed = fill(&self.kind).await;
        self.serve_without(closed);
        self.failing.set(K::KIND, false);
        ready();
        loop {
            tokio::select! {
                Some(message) = changes.next() => self.on_change(&message),
                Some(message) = listings.next() => self.on_listing(&message.payload),
                Some(()) = self.settling.next() => {
                    let _ = self.kind.inner.notices.send(Notice::Listed);
                }
                listing = pending_or(&mut self.own) => self.on_own_listing(listing),
                closed = pending_or(&mut self.reopening) => {
                    self.serve_without(closed);
                    let _ = self.kind.inner.notices.send(Notice::Listed);
                }
                () = sleep_until(self.silent_at) => self.list_now(),
                Ok(()) = trouble.changed() => {
                    trouble.mark_unchanged();
                    self.silent_at = self.silent_at.min(Instant::now() + TROUBLE_PAUSE);
                }
            }
        }
    }

    fn serve_without(&mut self, closed: Vec<String>) {
        self.serving = self.kind.inner.scope.without(&closed);
        self.reopening = (!closed.is_empty()).then(|| reopen(self.kind.clone(), closed).boxed());
    }

    fn on_change(&self, message: &Message) {
        let trace = message.headers.as_ref().and_then(|headers| headers.get(HEADER_TRACEPARENT));
        match Change::<K>::decode(&message.payload) {
            // The watcher may serve more namespaces than we do.
            Ok(change) if !self.serving.contains(namespace_of(&change)) => {}
            Ok(change) => self.kind.change(change, trace.map(ToString::to_string)),
            Err(error) => tracing::warn!(kind = K::KIND, %error, "change not understood; a listing will repair it"),
        }
    }

    fn on_listing(&mut self, body: &[u8]) {
        let part = match ListingPart::decode(body, K::KIND) {
            Ok(part) => part,
            Err(error) => return tracing::warn!(kind = K::KIND, %error, "listing not understood"),
        };
        if let Some(listing) = self.assembly.add(part) {
            // Of a namespace that the watcher does not list the bus is silent.
            if self.serving.is_within(&listing.scope) {
                self.silent_at = silence_from_now();
                self.listed(Source::Bus);
            }
            self.settle(listing);
        }
    }

    fn list_now(&mut self) {
        self.silent_at = Instant::now() + OWN_LISTING_INTERVAL;
        if self.own.is_none() {
            self.own = Some(Box::pin(own_listing(self.kind.clone(), self.serving.clone())));
        }
    }

    fn on_own_listing(&mut self, listing: Option<Listing>) {
        self.own = None;
        match listing {
            Some(listing) => {
                self.assembly.note(listing.version);
                self.listed(Source::Own);
                self.settle(listing);
            }
            None => {
                self.failures += 1;
                self.failing.set(K::KIND, self.failures > TOLERATED);
                self.silent_at = self.silent_at.min(Instant::now() + RETRY);
            }
        }
    }

    fn listed(&mut self, source: Source) {
        self.failures = 0;
        self.failing.set(K::KIND, false);
        self.metrics.listed(K::KIND, source);
    }

    fn settle(&mut self, mut listing: Listing) {
        listing.objects.retain(|id| self.serving.contains(&id.namespace));
        self.settling.push(Box::pin(settle(self.kind.clone(), listing)));
    }
}

/// The first LISTs, for as long as they take. Gives back the namespaces that refuse theirs, if others do not: one that
/// its team has taken away, our Role included, must not keep the others from being served.
async fn fill<K: Watched>(kind: &Kind<K>) -> Vec<String> {
    let places = kind.inner.scope.places();
    let (count, mut left) = (places.len(), places);
    loop {
        let failed = fill_at(kind, left).await;
        if failed.len() < count && failed.iter().all(|(_, error)| is_refusal(error)) {
            return failed.into_iter().filter_map(|(place, _)| place).collect();
        }
        left = failed.into_iter().map(|(place, _)| place).collect();
        sleep(RETRY).await;
    }
}

/// LISTs these places once, and gives back those that failed.
async fn fill_at<K: Watched>(kind: &Kind<K>, places: Vec<Option<String>>) -> Vec<(Option<String>, kube::Error)> {
    let list = |place: Option<String>| async move {
        let error = kind.list(place.as_deref(), Only::All, |_| true).await.err()?;
        tracing::warn!(kind = K::KIND, namespace = place, %error, "first LIST failed; trying again");
        Some((place, error))
    };
    let failed = futures::stream::iter(places).map(list).buffer_unordered(FILL_CONCURRENCY);
    failed.filter_map(async |failed| failed).collect().await
}

/// Waits, LISTs the namespaces again, and gives back those that still fail.
async fn reopen<K: Watched>(kind: Kind<K>, closed: Vec<String>) -> Vec<String> {
    sleep(REOPEN_INTERVAL).await;
    let failed = fill_at(&kind, closed.into_iter().map(Some).collect()).await;
    failed.into_iter().filter_map(|(place, _)| place).collect()
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404))
}

async fn own_listing<K: Watched>(kind: Kind<K>, scope: Scope) -> Option<Listing> {
    match list::metadata::<K>(&kind.inner.client, &scope).await {
        Ok(list::Versions { scope, version, objects, refused }) => {
            for (namespace, error) in refused {
                tracing::warn!(kind = K::KIND, namespace, %error, "own listing failed here; trying again");
            }
            let id = |(namespace, name, uid, resource_version)| ObjectId { namespace, name, uid, resource_version };
            Some(Listing { scope, version, objects: objects.into_iter().map(id).collect() })
        }
        Err(error) => {
            tracing::warn!(kind = K::KIND, %error, "own listing failed; trying again");
            None
        }
    }
}

fn namespace_of<K: Watched>(change: &Change<K>) -> &str {
    match change {
        Change::Applied(object) => object.meta().namespace.as_deref().unwrap_or_default(),
        Change::Deleted(id) => &id.namespace,
    }
}

async fn settle<K: Watched>(kind: Kind<K>, listing: Listing) {
    sleep(SETTLE).await;
    let differing: Vec<Key> = kind.lock().differences(&listing);
    if !differing.is_empty() {
        tracing::info!(kind = K::KIND, count = differing.len(), "listing differs from what is held; asking");
    }
    let get = |key: Key| {
        let kind = &kind;
        async move {
            if let Err(error) = get_guarded(kind, &key).await {
                let (kind, (namespace, name)) = (K::KIND, key);
                tracing::warn!(kind, namespace, name, %error, "GET after a listing failed; the next one repairs it");
            }
        }
    };
    futures::stream::iter(differing).map(get).buffer_unordered(SETTLE_CONCURRENCY).collect::<()>().await;
}

fn silence_from_now() -> Instant {
    Instant::now() + SILENCE + SILENCE_JITTER.mul_f64(rand::random())
}

async fn pending_or<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
