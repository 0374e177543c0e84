//! The watch of one kind: what it sees is published at once.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::{
    Api,
    core::DeserializeGuard,
    runtime::watcher::{self, Error, Event, watcher},
};
use signalbox_runtime::{bus::Bus, health::Failing, service::Service, sync::lock, telemetry};
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
pub(crate) struct Scope {
    pub(crate) service: Service,
    pub(crate) metrics: WatchMetrics,
    /// A random word: parts of listings of two terms never mix.
    pub(crate) epoch: String,
    /// What is known of Agents, for their gauge.
    agents: Arc<Mutex<Known>>,
    /// Kinds whose listings fail: one that works must not hide another that does not.
    pub(crate) failing: Failing,
}

impl Scope {
    pub(crate) fn new(service: Service, metrics: WatchMetrics) -> Self {
        let epoch = format!("{:016x}", rand::random::<u64>());
        let failing = Failing::new(service.health.clone());
        Self { service, metrics, epoch, agents: Arc::default(), failing }
    }

    /// Sets the gauge of Agents in each phase.
    pub(crate) fn count_agents(&self) {
        self.metrics.set_agents(&lock(&self.agents).phases());
    }
}

/// Watches the kind for ever.
pub(crate) async fn watch<K: Watched>(scope: &Scope) {
    let is_agents = K::KIND == <Agent as Watched>::KIND;
    let known = if is_agents { scope.agents.clone() } else { Arc::default() };
    let namespace = &scope.service.namespace;
    let api: Api<DeserializeGuard<K>> =
        Api::namespaced(paced(scope.service.clients.reader.clone(), namespace), namespace);
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
                    publish(&scope.service.bus, step).await;
                }
                Err(error) => {
                    scope.metrics.reconnects.inc();
                    let gone = is_gone(&error);
                    let pause = if gone { None } else { backoff.next() };
                    tracing::warn!(kind = K::KIND, ?pause, error = &error as &dyn std::error::Error, "watch broke");
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
            let name = invalid.metadata.name.unwrap_or_default();
            return tracing::warn!(kind = K::KIND, name, error = invalid.error, "object does not decode; left out");
        }
        Step::Publish(change) => change,
    };
    let name = match &change {
        Change::Applied(object) => object.meta().name.clone().unwrap_or_default(),
        Change::Deleted(id) => id.name.clone(),
    };
    let span = tracing::info_span!("change", kind = K::KIND, name);
    async {
        match change.encode() {
            Ok(body) => bus.publish(change_subject(K::KIND), telemetry::traceparent().as_deref(), body).await,
            Err(error) => tracing::error!(%error, "change not encoded"),
        }
    }
    .instrument(span)
    .await;
}
