//! The watch of one kind: what it sees is published at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use futures::StreamExt;
use kube::{
    Api,
    core::DeserializeGuard,
    runtime::watcher::{self, Error, Event, watcher},
};
use signalbox_runtime::{bus::Bus, health::Failing, scope::api_at, service::Service, sync::lock, telemetry};
use signalbox_types::{
    Agent, Watched,
    bus::{Change, change_subject},
};
use tracing::Instrument;

use crate::{
    backoff::WatchBackoff,
    metrics::WatchMetrics,
    pace::paced,
    plan::{Known, Step},
};

/// Objects a page of the LIST before a watch: an Agent carries its output.
const PAGE: u32 = 50;

/// What the tasks of one term share.
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) metrics: WatchMetrics,
    /// A random word: parts of listings of two terms never mix.
    pub(crate) epoch: String,
    /// What each watch of Agents knows, for their gauge.
    agents: Mutex<Vec<Arc<Mutex<Known>>>>,
    /// Kinds whose listings fail: one that works must not hide another that does not.
    pub(crate) failing: Failing,
}

impl Shared {
    pub(crate) fn new(service: Service, metrics: WatchMetrics) -> Self {
        let epoch = format!("{:016x}", rand::random::<u64>());
        let failing = Failing::new(service.health.clone());
        Self { service, metrics, epoch, agents: Mutex::default(), failing }
    }

    /// Sets the gauge of Agents in each phase.
    pub(crate) fn count_agents(&self) {
        let mut counts = HashMap::new();
        for known in &*lock(&self.agents) {
            for (phase, count) in lock(known).phases() {
                *counts.entry(phase).or_default() += count;
            }
        }
        self.metrics.set_agents(&counts);
    }
}

/// Watches the kind at one place of the scope for ever.
pub(crate) async fn watch<K: Watched>(shared: &Shared, place: Option<&str>) {
    let known = Arc::<Mutex<Known>>::default();
    if K::KIND == <Agent as Watched>::KIND {
        lock(&shared.agents).push(known.clone());
    }
    let client = paced(shared.service.clients.reader.clone(), &shared.service.namespace);
    let api: Api<DeserializeGuard<K>> = api_at(&client, place);
    let mut config = watcher::Config::default().page_size(PAGE);
    config.label_selector = K::SELECTOR.map(str::to_owned);
    let mut backoff = WatchBackoff::default();
    loop {
        let stream = watcher(api.clone(), config.clone());
        let mut events = std::pin::pin!(stream);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if !matches!(event, Event::Init) {
                        kube::runtime::utils::Backoff::reset(&mut backoff);
                    }
                    let step = lock(&known).observe(event);
                    publish(&shared.service.bus, step).await;
                }
                Err(error) => {
                    shared.metrics.reconnects.inc();
                    let gone = is_gone(&error);
                    let pause = if gone { None } else { backoff.next() };
                    let (kind, namespace) = (K::KIND, place);
                    tracing::warn!(kind, namespace, ?pause, error = &error as &dyn std::error::Error, "watch broke");
                    if let Some(pause) = pause {
                        tokio::time::sleep(pause).await;
                    }
                    // A watch refused with 410 would be asked for again at the same version for ever: start over.
                    if gone {
                        break;
                    }
                }
            }
        }
    }
}

/// The version to go on from is no longer there: as an HTTP status, or as an ERROR event (case 61).
fn is_gone(error: &Error) -> bool {
    match error {
        Error::WatchError(status) => status.code == 410,
        Error::WatchStartFailed(kube::Error::Api(status)) | Error::WatchFailed(kube::Error::Api(status)) => {
            status.code == 410
        }
        _ => false,
    }
}

async fn publish<K: Watched>(bus: &Bus, step: Step<K>) {
    let change = match step {
        Step::Nothing => return,
        Step::Report(invalid) => {
            let (kind, namespace, name) = (K::KIND, invalid.metadata.namespace, invalid.metadata.name);
            return tracing::warn!(kind, namespace, name, error = invalid.error, "object does not decode; left out");
        }
        Step::Publish(change) => change,
    };
    let (namespace, name) = match &change {
        Change::Applied(object) => (object.meta().namespace.clone(), object.meta().name.clone()),
        Change::Deleted(id) => (Some(id.namespace.clone()), Some(id.name.clone())),
    };
    let span = tracing::info_span!("change", kind = K::KIND, namespace, name);
    async {
        match change.encode() {
            Ok(body) => bus.publish(change_subject(K::KIND), telemetry::traceparent().as_deref(), body).await,
            Err(error) => tracing::error!(%error, "change not encoded"),
        }
    }
    .instrument(span)
    .await;
}
