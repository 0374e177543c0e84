//! Events on the objects of a service: best effort, and never in the way. A queue that is full drops them with a count.
//! They follow the write that they tell of, so that each is told at most once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Reporter},
};
use tokio::{sync::mpsc, time::timeout};

/// Events that may wait to be sent.
const QUEUE: usize = 256;
/// How long one may take: behind an API server that hangs, the rest of the queue is worth more.
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// The longest note, in bytes: <https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/>.
const MAX_NOTE: usize = 1024;
/// The longest name of a reporting instance, from the same page.
const MAX_INSTANCE: usize = 128;

/// Tells Events; cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<(Event, ObjectReference)>,
    dropped: Arc<AtomicU64>,
}

impl Recorder {
    /// A recorder for `service`, of which this process is `identity`. Its task ends with its last clone.
    pub fn new(client: Client, service: &str, identity: &str) -> Self {
        let (queue, queued) = mpsc::channel(QUEUE);
        let instance = identity[..identity.floor_char_boundary(MAX_INSTANCE)].to_owned();
        let reporter = Reporter { controller: format!("signalbox-{service}"), instance: Some(instance) };
        let dropped = Arc::<AtomicU64>::default();
        tokio::spawn(send(kube::runtime::events::Recorder::new(client, reporter), queued, dropped.clone()));
        Self { queue, dropped }
    }

    /// Tells of something that went as it should.
    pub fn normal<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, note: &str) {
        self.record(EventType::Normal, object, reason, note);
    }

    /// Tells of something that did not.
    pub fn warning<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, note: &str) {
        self.record(EventType::Warning, object, reason, note);
    }

    fn record<K: Resource<DynamicType = ()>>(&self, type_: EventType, object: &K, reason: &str, note: &str) {
        let note = Some(note[..note.floor_char_boundary(MAX_NOTE)].to_owned()).filter(|note| !note.is_empty());
        let event = Event { type_, reason: reason.to_owned(), note, action: reason.to_owned(), secondary: None };
        if self.queue.try_send((event, object.object_ref(&()))).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn send(
    recorder: kube::runtime::events::Recorder,
    mut queued: mpsc::Receiver<(Event, ObjectReference)>,
    dropped: Arc<AtomicU64>,
) {
    while let Some((event, object)) = queued.recv().await {
        match timeout(SEND_LIMIT, recorder.publish(&event, &object)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(reason = event.reason, name = object.name, %error, "Event not told"),
            Err(_) => tracing::warn!(reason = event.reason, name = object.name, "Event not told in time"),
        }
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            tracing::warn!(lost, "Events dropped: the queue was full");
        }
    }
}
