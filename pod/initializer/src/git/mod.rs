//! The repositories of a recipe, cloned in process: `docs/contract/agents.md` section 10, "git".

pub(crate) mod broker;
mod clone;
mod place;
mod token;

use std::path::Path;

use signalbox_types::Repo;

use self::token::Access;
use crate::redact;

/// The exit code of git when it cannot clone.
pub(crate) const CLONE_FAILED: i32 = 128;
/// The exit code of git when it cannot check a name out, and of `rm` when it cannot remove.
const STEP_FAILED: i32 = 1;

/// Why a repository is not there.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("what is at its destination cannot be removed: {0}")]
    Remove(#[source] std::io::Error),
    #[error("clone failed: {0}")]
    Clone(String),
    #[error("{0:?} is no branch, tag or commit of it")]
    UnknownRef(String),
    #[error("checkout failed: {0}")]
    Checkout(String),
    #[error("the way to push to it later cannot be written: {0}")]
    Persist(String),
}

impl Error {
    const fn code(&self) -> i32 {
        match self {
            Self::Remove(_) | Self::UnknownRef(_) => STEP_FAILED,
            Self::Clone(_) | Self::Checkout(_) | Self::Persist(_) => CLONE_FAILED,
        }
    }
}

/// Where repositories come from beside their own addresses.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// Where `owner/name` is.
    pub(crate) github: String,
    /// What gives tokens for repositories there.
    pub(crate) broker: Option<broker::Broker>,
}

/// Clones one repository below `workspace`. One whose destination is not strictly below it is skipped.
///
/// # Errors
/// The exit code of the step that failed, as git itself has it; the cause is in the log.
pub(crate) fn fetch(
    repo: &Repo,
    workspace: &Path,
    sources: &Sources,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(), i32> {
    let url = place::url(&repo.url, &sources.github);
    let Some(destination) = place::destination(repo, workspace) else {
        tracing::warn!("repository {:?} is skipped: its destination is not below the workspace", repo.name);
        return Ok(());
    };
    tracing::info!("repository {:?}: cloning {} into {}", repo.name, redact::addresses(&url), destination.display());
    let access = token::of(&repo.token_secret, &url, env).map(Access::Token).or_else(|| sources.lease(&url));
    let cloned = place::clear(&destination)
        .map_err(Error::Remove)
        .and_then(|()| clone::clone(&url, &destination, &repo.reference, access));
    cloned.map_err(|error| {
        tracing::error!("repository {:?}: {}", repo.name, redact::addresses(&error.to_string()));
        error.code()
    })
}

impl Sources {
    /// A broker gives tokens for plain repositories at GitHub alone.
    fn lease(&self, url: &str) -> Option<Access> {
        let name = place::name_at(&self.github, url)?;
        Some(Access::Broker(self.broker.as_ref()?.lease(name, &self.github)))
    }
}
