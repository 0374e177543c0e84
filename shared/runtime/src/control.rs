//! The one control loop: names go in, each object is reconciled by one task at a time, errors back off by object.

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt};
use kube::Resource;
use kube::runtime::{
    controller::{self, Action, applier},
    reflector::{ObjectRef, Store},
};
use signalbox_types::Watched;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{metrics::Metrics, sync::lock};

/// Objects at work at the same time. Each spends its time waiting for the API server, so this is about how many
/// requests one service has open, not about processors.
const CONCURRENCY: u16 = 32;
/// The first pause of an object after an error.
const BACKOFF_BASE: Duration = Duration::from_secs(1);
/// The longest pause of an object after errors.
const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// How long work that has begun may go on once the term is over: a request that is on its way is better heard out, and
/// the Lease must be released within a second of SIGTERM.
const WIND_DOWN: Duration = Duration::from_millis(600);

/// A service's reconcile: it gathers, plans and applies for one object.
pub trait Reconcile: Send + Sync + 'static {
    /// What is reconciled.
    type Object: Watched;
    /// Why one could not be. It is logged and counted, and never stops the others.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Brings one object a step further.
    fn reconcile(&self, object: Arc<Self::Object>) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

/// Where the names of objects that need a look are sent.
pub type Queue<K> = mpsc::UnboundedSender<ObjectRef<K>>;
/// Where they come out.
pub type Queued<K> = mpsc::UnboundedReceiver<ObjectRef<K>>;

/// Runs the loop until `ended`, then hears out what has begun, for 600 ms at most.
pub async fn run<R: Reconcile>(
    reconciler: Arc<R>,
    store: Store<R::Object>,
    mut queue: Queued<R::Object>,
    metrics: Metrics,
    ended: CancellationToken,
) {
    let context = Arc::new(Context { reconciler, metrics, failures: Mutex::default() });
    let names = futures::stream::poll_fn(move |cx| queue.poll_recv(cx))
        .take_until(ended.clone().cancelled_owned())
        .map(Ok::<_, Infallible>);
    let config = controller::Config::default().concurrency(CONCURRENCY);
    let failed = context.clone();
    let results = applier(one::<R>, on_error::<R>, context, store, Box::pin(names), config);
    let drained = results.into_stream().for_each(|result| async {
        match result {
            // It has left the Store since it was queued: nothing is left to do for it.
            Err(controller::Error::ObjectNotFound(gone)) => {
                let gone =
                    ObjectRef::<R::Object>::new(&gone.name).within(gone.namespace.as_deref().unwrap_or_default());
                lock(&failed.failures).remove(&gone);
            }
            Ok(_) | Err(controller::Error::ReconcilerFailed(..)) => {}
            Err(error) => tracing::error!(%error, "control loop"),
        }
    });
    tokio::select! {
        () = drained => {}
        () = async { ended.cancelled().await; tokio::time::sleep(WIND_DOWN).await } => {
            tracing::warn!("term over; work that was still waiting is dropped");
        }
    }
}

struct Context<R: Reconcile> {
    reconciler: Arc<R>,
    metrics: Metrics,
    /// Errors in a row, by object and its uid; gone with the first success, and with the object.
    failures: Mutex<HashMap<ObjectRef<R::Object>, Failures>>,
}

/// A uid, and how many errors in a row.
type Failures = (Option<String>, u32);

fn one<R: Reconcile>(
    object: Arc<R::Object>,
    context: Arc<Context<R>>,
) -> futures::future::BoxFuture<'static, Result<Action, R::Error>> {
    Box::pin(async move {
        let began = Instant::now();
        let result = context.reconciler.reconcile(object.clone()).await;
        context.metrics.observe_reconcile(result.is_ok(), began.elapsed());
        if result.is_ok() {
            lock(&context.failures).remove(&ObjectRef::from_obj(&*object));
        }
        result
    })
}

fn on_error<R: Reconcile>(object: Arc<R::Object>, error: &R::Error, context: Arc<Context<R>>) -> Action {
    let name = ObjectRef::from_obj(&*object);
    let failures = {
        let mut failures = lock(&context.failures);
        let uid = &object.meta().uid;
        let entry = failures.entry(name.clone()).or_default();
        if entry.0 != *uid {
            *entry = (uid.clone(), 0);
        }
        entry.1 += 1;
        entry.1
    };
    let pause = backoff(failures);
    let source = std::error::Error::source(error).map(ToString::to_string);
    let (kind, namespace) = (R::Object::KIND, name.namespace.as_deref());
    tracing::warn!(kind, namespace, name = name.name, failures, ?pause, %error, source, "reconcile failed");
    Action::requeue(pause)
}

/// The pause after that many errors in a row.
fn backoff(failures: u32) -> Duration {
    BACKOFF_BASE.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let pauses: Vec<_> = (1..=8).map(|failures| backoff(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff(u32::MAX), BACKOFF_MAX);
    }
}
