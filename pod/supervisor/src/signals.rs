use std::io;

use rustix::process::Signal;
use tokio::{
    select,
    signal::unix::{self, SignalKind, signal},
};

/// The signals that the supervisor gets.
pub(crate) struct Signals {
    term: unix::Signal,
    int: unix::Signal,
    /// A child has ended.
    pub(crate) child: unix::Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// They cannot be listened for.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            child: signal(SignalKind::child())?,
        })
    }

    /// The next signal that asks for the end.
    pub(crate) async fn end(&mut self) -> Signal {
        end(&mut self.term, &mut self.int).await
    }

    /// The next signal of either sort; None says that a child has ended.
    pub(crate) async fn next(&mut self) -> Option<Signal> {
        select! {
            signal = end(&mut self.term, &mut self.int) => Some(signal),
            _ = self.child.recv() => None,
        }
    }
}

async fn end(term: &mut unix::Signal, int: &mut unix::Signal) -> Signal {
    select! {
        _ = term.recv() => Signal::TERM,
        _ = int.recv() => Signal::INT,
    }
}
