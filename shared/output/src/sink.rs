//! Where events go: `docs/contract/agents.md` section 12.4.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use rustix::fs::OFlags;
use tokio::task::spawn_blocking;

use crate::{http::Endpoint, retry::Retry};

/// A sink with the rules of its kind.
pub(crate) enum Sink {
    /// Events are posted.
    Http(Box<Endpoint>, Retry),
    /// Events are appended.
    File(FileSink),
}

impl Sink {
    /// Kind and place, for the log.
    pub(crate) fn name(&self) -> (&'static str, String) {
        match self {
            Self::Http(endpoint, _) => ("http", endpoint.name()),
            Self::File(file) => ("file", file.path.display().to_string()),
        }
    }

    /// Delivers an event or gives it up with a log line.
    pub(crate) async fn deliver(&self, event: Bytes) {
        match self {
            Self::Http(endpoint, retry) => {
                if let Err(problem) = endpoint.deliver(event, *retry, |_| true).await {
                    tracing::warn!("http sink failed after retries: {} ({problem})", endpoint.name());
                }
            }
            Self::File(file) => file.deliver(event).await,
        }
    }
}

/// A file that gets a line an event.
pub(crate) struct FileSink {
    path: Arc<PathBuf>,
    /// Set once a line could not be written, until one can: a full disk costs one log line, not one an event.
    failing: AtomicBool,
}

impl FileSink {
    /// Makes the file where it can be made already: an initializer that made it later, as root, might do so after it has
    /// given all files to the agent's user. What hinders it is told with the first event.
    pub(crate) fn new(path: PathBuf) -> Self {
        let _ = open(&path);
        Self { path: Arc::new(path), failing: AtomicBool::new(false) }
    }

    async fn deliver(&self, event: Bytes) {
        let path = Arc::clone(&self.path);
        let written = spawn_blocking(move || append(&path, &event)).await.map_err(io::Error::other).flatten();
        match written {
            Ok(()) => self.failing.store(false, Ordering::Relaxed),
            Err(error) if !self.failing.swap(true, Ordering::Relaxed) => {
                tracing::warn!("file sink failed: {} ({error})", self.path.display());
            }
            Err(_) => {}
        }
    }
}

/// Opened for each event: the agent may move or remove the file, and then a new one begins.
fn append(path: &PathBuf, event: &[u8]) -> io::Result<()> {
    // One write, so that lines of two programs do not mix.
    open(path)?.write_all(&[event, b"\n"].concat())
}

/// A link is not followed, as it may come from a clone and this be root; a pipe without reader is not waited for.
fn open(path: &PathBuf) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().append(true).create(true).custom_flags(flags.cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}
