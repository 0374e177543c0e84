//! The queue before a sink: in order, bounded, and never in the way of a run for ever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{self, UnboundedReceiver, UnboundedSender},
    },
    time::{Instant, timeout_at},
};

use crate::sink::Sink;

/// How many bytes wait for one sink: two of the longest lines that the supervisor reads.
const CAPACITY: u32 = 32 * 1024 * 1024;
/// What an event costs beside its bytes, so that millions of empty ones are bounded too.
const OVERHEAD: usize = 256;
/// How long the newest event waits for room before it is dropped: less than the supervisor gives the last lines of an
/// agent that has ended, so that a dead sink never costs standard output.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// An event and the room that it takes until it is delivered or given up.
type Queued = (Bytes, OwnedSemaphorePermit);

/// The queue of a sink; a task of its own delivers from it.
pub(crate) struct Queue {
    /// Kind and place of the sink.
    name: (&'static str, String),
    events: UnboundedSender<Queued>,
    room: Arc<Semaphore>,
    /// Set once an event has waited in vain, until there is room again: a dead sink costs one wait, not one an event.
    congested: AtomicBool,
    dropped: AtomicU64,
    waiting: Arc<AtomicU64>,
}

impl Queue {
    pub(crate) fn new(sink: Sink) -> Self {
        let (events, receiver) = mpsc::unbounded_channel();
        let (name, waiting) = (sink.name(), Arc::new(AtomicU64::new(0)));
        tokio::spawn(deliver_all(sink, receiver, Arc::clone(&waiting)));
        Self {
            name,
            events,
            room: Arc::new(Semaphore::new(CAPACITY as usize)),
            congested: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            waiting,
        }
    }

    /// Puts an event in. Where there is no room it waits until `deadline`, then the event is dropped and counted.
    pub(crate) async fn push(&self, event: Bytes, deadline: Instant) {
        let size = u32::try_from(event.len() + OVERHEAD).unwrap_or(u32::MAX).min(CAPACITY);
        let deadline = if self.congested.load(Ordering::Relaxed) { Instant::now() } else { deadline };
        match timeout_at(deadline, Arc::clone(&self.room).acquire_many_owned(size)).await {
            Ok(Ok(permit)) => {
                self.congested.store(false, Ordering::Relaxed);
                self.waiting.fetch_add(1, Ordering::Relaxed);
                // The task ends only after this sender is gone; a refusal means that the whole runtime is going.
                let _ = self.events.send((event, permit));
            }
            _ => self.drop_one(),
        }
    }

    fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        if !self.congested.swap(true, Ordering::Relaxed) {
            let (kind, place) = &self.name;
            tracing::warn!("{kind} sink is too slow, events are dropped: {place}");
        }
    }

    /// Waits until all is delivered or given up, until `deadline`, and logs what was lost.
    pub(crate) async fn finish(&self, deadline: Instant) {
        // All room is free exactly when nothing waits.
        let delivered = timeout_at(deadline, self.room.acquire_many(CAPACITY)).await;
        let (dropped, waiting) = (self.dropped.load(Ordering::Relaxed), self.waiting.load(Ordering::Relaxed));
        let (kind, place) = &self.name;
        if dropped > 0 {
            tracing::warn!("{kind} sink was too slow, {dropped} events were dropped: {place}");
        }
        if delivered.is_err() {
            tracing::warn!("{kind} sink did not take the last {waiting} events in time: {place}");
        }
    }
}

async fn deliver_all(sink: Sink, mut events: UnboundedReceiver<Queued>, waiting: Arc<AtomicU64>) {
    while let Some((event, permit)) = events.recv().await {
        sink.deliver(event).await;
        waiting.fetch_sub(1, Ordering::Relaxed);
        drop(permit);
    }
}
