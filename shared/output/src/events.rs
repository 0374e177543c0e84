use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use tokio::{
    io::{AsyncWriteExt, stdout},
    time::{Instant, timeout_at},
};

use crate::Output;

/// How long an event waits for standard output and the sinks. A reader that is stuck must not keep a run from its end.
const PATIENCE: Duration = Duration::from_secs(2);

/// The events that a program of a run makes itself, on standard output and to the sinks.
#[derive(Clone)]
pub struct Events {
    output: Arc<Output>,
    /// Set once an event has waited for standard output in vain: the next one does not wait again.
    stuck: Arc<AtomicBool>,
}

impl Events {
    /// Events that also go to the sinks of `output`.
    pub fn new(output: Arc<Output>) -> Self {
        Self { output, stuck: Arc::default() }
    }

    /// Prints an event as one bare line and queues it for the sinks; waits for both for two seconds at most.
    pub async fn emit(&self, event: &impl Serialize) {
        self.emit_within(event, PATIENCE).await;
    }

    /// The same with another bound of the wait.
    pub async fn emit_within(&self, event: &impl Serialize, patience: Duration) {
        let deadline = Instant::now() + patience;
        match serde_json::to_vec(event) {
            Ok(mut line) => {
                line.push(b'\n');
                self.print(&line, deadline).await;
            }
            Err(error) => tracing::warn!("an event cannot be written as JSON: {error}; this is a bug"),
        }
        self.output.event_by(event, deadline).await;
    }

    async fn print(&self, line: &[u8], deadline: Instant) {
        let deadline = if self.stuck.load(Ordering::Relaxed) { Instant::now() } else { deadline };
        let stuck = timeout_at(deadline, print(line)).await.is_err();
        if stuck {
            tracing::warn!("standard output is stuck, an event is not printed");
        }
        self.stuck.store(stuck, Ordering::Relaxed);
    }
}

async fn print(line: &[u8]) {
    let mut stdout = stdout();
    // A closed standard output has no reader to tell.
    let _ = stdout.write_all(line).await;
    let _ = stdout.flush().await;
}
