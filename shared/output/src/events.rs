use std::{sync::Arc, time::Duration};

use signalbox_types::event::Lifecycle;
use tokio::{
    io::{AsyncWriteExt, stdout},
    time::timeout,
};

use crate::Output;

/// How long an event waits for standard output. A reader that is stuck must not keep a run from its end.
const STDOUT_PATIENCE: Duration = Duration::from_secs(2);

/// The lifecycle events of a program of a run, on standard output and to the sinks.
#[derive(Clone)]
pub struct Events(Arc<Output>);

impl Events {
    /// Events that also go to the sinks of `output`.
    pub const fn new(output: Arc<Output>) -> Self {
        Self(output)
    }

    /// Prints an event as one bare line and queues it for the sinks.
    pub async fn emit(&self, event: &Lifecycle) {
        match serde_json::to_vec(event) {
            Ok(mut line) => {
                line.push(b'\n');
                if timeout(STDOUT_PATIENCE, print(&line)).await.is_err() {
                    tracing::warn!("standard output is stuck, an event is not printed");
                }
            }
            Err(error) => tracing::warn!("an event cannot be written as JSON: {error}; this is a bug"),
        }
        self.0.event(event).await;
    }
}

async fn print(line: &[u8]) {
    let mut stdout = stdout();
    // A closed standard output has no reader to tell.
    let _ = stdout.write_all(line).await;
    let _ = stdout.flush().await;
}
