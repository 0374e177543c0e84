//! A stretch of leadership, as the work in it sees it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// One stretch of leadership; cheap to clone. It is over at the latest when the Lease is not surely ours any more.
#[derive(Clone, Debug)]
pub struct Term {
    epoch: i32,
    token: CancellationToken,
    deadline: Arc<Mutex<Instant>>,
}

impl Term {
    pub(super) fn new(epoch: i32, deadline: Instant) -> Self {
        Self { epoch, token: CancellationToken::new(), deadline: Arc::new(Mutex::new(deadline)) }
    }

    /// A term for tests and tools that need no election: it lasts until `token` is cancelled.
    pub fn unlimited(token: CancellationToken) -> Self {
        let far = Instant::now() + Duration::from_secs(365 * 24 * 3600);
        Self { token, ..Self::new(0, far) }
    }

    /// How often the Lease had changed hands when this term began. It grows from holder to holder; two terms of one
    /// process in a row share it.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Completes when the term is over.
    pub fn ended(&self) -> WaitForCancellationFuture<'_> {
        self.token.cancelled()
    }

    /// Cancelled when the term is over; cancelling it ends nothing but what the caller made of it.
    pub fn token(&self) -> CancellationToken {
        self.token.child_token()
    }

    /// Whether the Lease stays ours for longer than `time` from now: ask before every write, with the time that the
    /// write may take. Counted by the clock from before the last renewal was sent, so that it also holds in a process
    /// that was stopped and has not run its timers yet.
    pub fn holds_for(&self, time: Duration) -> bool {
        !self.token.is_cancelled() && Instant::now() + time < self.deadline()
    }

    pub(super) fn deadline(&self) -> Instant {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn extend(&self, deadline: Instant) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }

    pub(super) fn end(&self) {
        self.token.cancel();
    }
}
