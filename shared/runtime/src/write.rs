//! Writes of a leader: each is sent once, with a time limit, and only while the Lease is ours for longer than that
//! (`docs/decisions/0006-mutations-without-retries.md`).

use std::future::Future;

use kube::{
    Api, Client,
    api::{DeleteParams, Preconditions},
    core::Status,
};
use signalbox_types::{ObjectId, Watched};

use crate::{client::WRITE_LIMIT, lease::Term, store::Kind};

/// Why a write was not carried out, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The term is over, or nearly: another may lead before the answer would come. Nothing was sent.
    #[error("{0} not sent: no longer the leader")]
    NotLeader(&'static str),
    /// The API server said no: it was not carried out.
    #[error("{what} refused: {} ({})", status.message, status.code)]
    Refused {
        /// The write.
        what: &'static str,
        /// The API server's word.
        status: Box<Status>,
    },
    /// No answer, or one that leaves open whether it was carried out.
    #[error("{0}: outcome unknown")]
    Unknown(&'static str, #[source] kube::Error),
}

impl WriteError {
    /// The HTTP status of a refusal.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(status.code),
            Self::NotLeader(_) | Self::Unknown(..) => None,
        }
    }
}

/// The only holder of a client that writes, for one term.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    term: Term,
}

impl Writer {
    /// A writer for one term. `client` must send each request once.
    pub const fn new(client: Client, term: Term) -> Self {
        Self { client, term }
    }

    /// The API of a kind in a namespace; what it is asked to write goes through [`Self::send`].
    pub fn api<K: Watched>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Carries out `write` if the Lease lasts, and says what became of it. A definite refusal is a 4xx; everything else
    /// may have been carried out.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn send<T>(
        &self,
        what: &'static str,
        write: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, WriteError> {
        if !self.term.holds_for(WRITE_LIMIT) {
            return Err(WriteError::NotLeader(what));
        }
        match write.await {
            Ok(done) => Ok(done),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                Err(WriteError::Refused { what, status })
            }
            Err(error) => Err(WriteError::Unknown(what, error)),
        }
    }

    /// Deletes the object of that id, if it is still in that version, and puts the answer into the Store. False where it
    /// was gone already.
    ///
    /// # Errors
    /// See [`WriteError`]; 409 where it has changed. The object as it is now is in the Store then.
    pub async fn delete<K: Watched>(&self, kind: &Kind<K>, id: &ObjectId) -> Result<bool, WriteError> {
        let preconditions =
            Preconditions { uid: Some(id.uid.clone()), resource_version: Some(id.resource_version.clone()) };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let question = kind.ask();
        match self.send("delete", self.api::<K>(&id.namespace).delete(&id.name, &params)).await {
            Ok(answer) => {
                // Without a finalizer it is gone; with one it is terminating, and the answer says so.
                answer
                    .map_left(|terminating| question.answer(terminating))
                    .map_right(|_| question.absent(&id.namespace, &id.name));
                Ok(true)
            }
            Err(error) if error.code() == Some(404) => {
                question.absent(&id.namespace, &id.name);
                Ok(false)
            }
            Err(error) => {
                self.look_again(kind, &id.namespace, &id.name).await;
                Err(error)
            }
        }
    }

    /// Puts the object as it is now into the Store, after a write that was refused or whose outcome is unknown.
    pub async fn look_again<K: Watched>(&self, kind: &Kind<K>, namespace: &str, name: &str) {
        if let Err(error) = kind.live(namespace, name).await {
            tracing::warn!(kind = K::KIND, namespace, name, %error, "GET after a write failed; the next listing repairs it");
        }
    }
}
