//! The conversation that a run goes on with: `docs/contract/agents.md` section 10, "conversation".

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use signalbox_output::headers;
use tokio::task::spawn_blocking;

use crate::{
    archive::{self, LIMITS, Unpacked},
    fetch::{self, Fetcher, Source},
    redact,
};

/// The largest archive of a conversation, packed.
const MAX_ARCHIVE: u64 = 512 << 20;

/// The conversation that a recipe, or the prompt of a session, asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// The store.
    pub(crate) source: String,
    /// Which one.
    pub(crate) id: String,
    /// The variable that holds the request's headers, a whole line each. It may have dashes, which no shell can read.
    pub(crate) auth: String,
    /// What of it is restored, below `HOME`.
    pub(crate) state: &'static [&'static str],
    /// True where the run makes no sense without: a session is resumed.
    pub(crate) required: bool,
}

/// Why a conversation is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("it cannot be fetched: {0}")]
    Fetch(#[from] fetch::Error),
    #[error("its archive is refused: {0}")]
    Archive(#[from] archive::Error),
    #[error("its archive has nothing of this vendor's")]
    Nothing,
}

impl Conversation {
    /// Restores it, and says whether it is there; any failure is in the log.
    ///
    /// # Errors
    /// It is required and is not there.
    pub(crate) async fn restore(
        &self,
        home: &Path,
        fetcher: &Fetcher,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<bool, Error> {
        let store = redact::addresses(&self.source);
        match self.fetch_and_unpack(home, fetcher, env).await {
            Ok(unpacked) => {
                let Unpacked { written, left_out } = unpacked;
                tracing::info!("conversation {:?} of {store}: {written} members, {left_out} left out", self.id);
                Ok(true)
            }
            Err(error) if self.required => {
                tracing::error!("conversation {:?} of {store}: {error}", self.id);
                Err(error)
            }
            Err(Error::Fetch(error)) if error.is_absence() => {
                tracing::info!("{store} has no conversation {:?}: it begins with this run", self.id);
                Ok(false)
            }
            Err(error) => {
                tracing::warn!("going on without conversation {:?} of {store}: {error}", self.id);
                Ok(false)
            }
        }
    }

    async fn fetch_and_unpack(
        &self,
        home: &Path,
        fetcher: &Fetcher,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Unpacked, Error> {
        let headers = headers::from_env(env, &self.auth, "the conversation's store");
        let source = Source::new(&self.source, headers)?.below([self.id.as_str()]);
        let archive = fetcher.fetch(&source, MAX_ARCHIVE, home).await?;
        let (home, state) = (home.to_owned(), self.state);
        let unpacked = spawn_blocking(move || unpack(archive, home, state)).await;
        let unpacked = unpacked.unwrap_or_else(|panic| Err(archive::Error::Read(io::Error::other(panic))))?;
        if unpacked.written == 0 { Err(Error::Nothing) } else { Ok(unpacked) }
    }
}

/// Settings, hooks and programs of an earlier run have no place in this one, so nothing but the state is taken.
fn unpack(archive: File, home: PathBuf, state: &[&str]) -> Result<Unpacked, archive::Error> {
    archive::unpack(archive, &home, LIMITS, |path| state.iter().any(|state| path.starts_with(state)))
}
