//! The save of a conversation, so that a later run can go on with it: `docs/contract/agents.md` section 9.

use signalbox_output::http::Http;
use tokio::task::{JoinError, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::{
    archive,
    config::{Config, Conversation},
    upload,
};

/// Why a conversation is not saved.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// What is written by a CLI that still runs may be torn, a database above all.
    #[error("the agent's process could not be ended")]
    StillThere,
    #[error(transparent)]
    Archive(#[from] archive::Error),
    #[error("the archive was not finished: {0}")]
    Task(#[from] JoinError),
    #[error(transparent)]
    Upload(#[from] upload::Error),
    #[error("there was no time left")]
    TooLate,
}

/// Sends the state of the CLI, which is `gone`, where the recipe asks for it. A failure is logged, never more. Nothing is
/// sent once `stop` is cancelled.
pub(crate) async fn save(config: &Config, gone: bool, http: Option<&Http>, stop: &CancellationToken) {
    let Some(conversation) = &config.conversation else { return };
    let saved = stop.run_until_cancelled(try_save(conversation, gone, http)).await;
    match saved.unwrap_or(Err(Error::TooLate)) {
        Ok(Some(bytes)) => tracing::info!("the conversation is saved, {bytes} bytes"),
        Ok(None) => tracing::info!("there is no conversation to save"),
        Err(error) => tracing::warn!("the conversation is not saved: {error}"),
    }
}

async fn try_save(conversation: &Conversation, gone: bool, http: Option<&Http>) -> Result<Option<usize>, Error> {
    if !gone {
        return Err(Error::StillThere);
    }
    let (home, paths) = (conversation.home.clone(), conversation.paths);
    let Some(archive) = spawn_blocking(move || archive::of(&home, paths)).await?? else { return Ok(None) };
    let bytes = archive.len();
    upload::conversation(conversation, http, archive.into()).await?;
    Ok(Some(bytes))
}
