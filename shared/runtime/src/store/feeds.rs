use futures::future::{BoxFuture, FutureExt, try_join_all};
use signalbox_types::Watched;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Feed, FeedMetrics, Kind, Notice};
use crate::{bus::BusError, health::Failing, service::Service};

/// What a Store tells of one kind.
pub type Told<K> = mpsc::UnboundedReceiver<Notice<K>>;

/// The feeds of all kinds that a service holds, for one term.
pub struct Feeds<'a> {
    service: &'a Service,
    metrics: FeedMetrics,
    failing: Failing,
    runs: Vec<BoxFuture<'static, Result<(), BusError>>>,
    filled_tx: mpsc::UnboundedSender<()>,
    filled: mpsc::UnboundedReceiver<()>,
}

impl<'a> Feeds<'a> {
    /// None yet.
    pub fn new(service: &'a Service, metrics: FeedMetrics) -> Self {
        let (filled_tx, filled) = mpsc::unbounded_channel();
        let failing = Failing::new(service.health.clone());
        Self { service, metrics, failing, runs: Vec::new(), filled_tx, filled }
    }

    /// Adds a kind; it is empty until the feeds run.
    pub fn hold<K: Watched>(&mut self) -> (Kind<K>, Told<K>) {
        let (kind, told) = Kind::new(self.service.clients.reader.clone(), self.service.scope.clone());
        // Until it is listed a leader is not ready: it does not act on half a picture.
        self.failing.set(K::KIND, true);
        let feed = Feed::new(kind.clone(), self.service.bus.clone(), self.metrics.clone(), self.failing.clone());
        let filled = self.filled_tx.clone();
        let run = feed.run(move || {
            // Nobody waits once the term is over.
            let _ = filled.send(());
        });
        self.runs.push(run.boxed());
        (kind, told)
    }

    /// Feeds all kinds for as long as it is polled, and runs `then` once each has had its first LIST. A term that has
    /// `ended` before that ends this too.
    pub async fn run(mut self, ended: CancellationToken, then: impl Future<Output = ()>) -> Result<(), BusError> {
        let kinds = self.runs.len();
        let work = async {
            let filled = async {
                for _ in 0..kinds {
                    self.filled.recv().await;
                }
            };
            if ended.run_until_cancelled(filled).await.is_some() {
                then.await;
            }
        };
        tokio::select! {
            fed = try_join_all(self.runs) => fed.map(|_| ()),
            () = work => Ok(()),
        }
    }
}
