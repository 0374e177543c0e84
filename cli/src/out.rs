//! Where text goes. Nothing panics when the reader is gone: `kubectl signalbox logs x | head` is an ordinary thing to do.

use std::io::{self, ErrorKind, Write, stderr, stdout};

use serde::Serialize;

use crate::args::Format;

/// Which stream progress goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Writes and flushes: whoever reads along sees it now.
pub(crate) fn bytes(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

impl Stream {
    /// Writes text as it is.
    pub(crate) fn write(self, text: &str) -> io::Result<()> {
        match self {
            Self::Stdout => bytes(&mut stdout().lock(), text.as_bytes()),
            Self::Stderr => bytes(&mut stderr().lock(), text.as_bytes()),
        }
    }

    /// Writes a line.
    pub(crate) fn say(self, text: &str) -> io::Result<()> {
        self.write(&format!("{text}\n"))
    }
}

/// A line on standard output.
pub(crate) fn say(text: &str) -> io::Result<()> {
    Stream::Stdout.say(text)
}

/// A line on standard error.
pub(crate) fn note(text: &str) -> io::Result<()> {
    Stream::Stderr.say(text)
}

/// An object on standard output.
pub(crate) fn object(format: Format, object: &impl Serialize) -> anyhow::Result<()> {
    match format {
        Format::Json => say(&serde_json::to_string_pretty(object)?)?,
        Format::Yaml => Stream::Stdout.write(&serde_saphyr::to_string(object)?)?,
    }
    Ok(())
}

/// True for the error of a reader that is gone.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
