//! Errors as people read them: what was tried, on which object, what came of it, and the way out.

use anyhow::anyhow;
use kube::{Error, runtime::watcher};

/// Arguments that make no sense: exit code 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What was asked of the API server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    /// The verb, as RBAC has it.
    pub(crate) verb: &'a str,
    /// The object, with its namespace.
    pub(crate) object: &'a str,
    /// What to do where it is not there.
    pub(crate) if_missing: &'a str,
}

impl Ask<'_> {
    /// The error of a request, told.
    pub(crate) fn failed(&self, error: Error) -> anyhow::Error {
        let Self { verb, object, if_missing } = self;
        match error {
            Error::Api(status) if status.code == 404 && !is_kind_missing(&status.message) => {
                anyhow!("{object} is not there; {if_missing}")
            }
            Error::Api(status) if status.code == 404 => {
                anyhow!(
                    "{object}: the cluster does not know this kind; `kubectl signalbox doctor` says what is missing"
                )
            }
            Error::Api(status) if status.code == 403 => anyhow!(
                "you may not {verb} {object}: {}; ask for a Role that lets you (`kubectl signalbox doctor` lists what \
                 the commands need)",
                status.message
            ),
            Error::Api(status) if status.code == 401 => anyhow!(
                "{object}: the API server does not accept your credentials; log in again, or choose another --context"
            ),
            Error::Api(status) if status.code == 409 => anyhow!("{object}: {}", status.message),
            Error::Api(status) => anyhow!("cannot {verb} {object}: {}", status.message),
            Error::Service(_) | Error::HyperError(_) => anyhow!(
                "cannot {verb} {object}: the API server does not answer ({}); check the network, --context and \
                 --kubeconfig",
                chain(&error)
            ),
            Error::Auth(_) => {
                anyhow!("{object}: no credentials: {}; `docs/cli.md` says which kinds work", chain(&error))
            }
            Error::SerdeError(_) => anyhow!(
                "{object}: the answer is not understood ({}); is this program of the version of the installation?",
                chain(&error)
            ),
            error => anyhow!("cannot {verb} {object}: {}", chain(&error)),
        }
    }

    /// The error of a watch, told.
    pub(crate) fn watch_failed(&self, error: watcher::Error) -> anyhow::Error {
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => self.failed(error),
            watcher::Error::WatchError(status) => self.failed(Error::Api(status)),
            watcher::Error::NoResourceVersion => anyhow!("{}: the answer has no version", self.object),
        }
    }
}

/// The status of an API server's refusal in a watch error.
pub(crate) fn watch_status(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(Error::Api(status))
        | watcher::Error::WatchStartFailed(Error::Api(status))
        | watcher::Error::WatchFailed(Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// A 404 of the path and not of an object: the group or the kind is not served.
fn is_kind_missing(message: &str) -> bool {
    message.contains("could not find the requested resource") || message.contains("page not found")
}

/// An error with its causes, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !texts.last().is_some_and(|last| last.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}
