//! The Store: what a leader knows of Kubernetes, one [`Kind`] a kind, new each term.
//!
//! NATS carries changes and listings to it; both can be lost, repeated or reordered. What is irrevocable is decided on
//! live reads, and every live read goes into the Store as well.

mod assembly;
mod feed;
mod feeds;
#[cfg(test)]
mod properties;
mod table;

use std::sync::{Arc, Mutex, MutexGuard};

use kube::{Api, Client, Error, core::DeserializeGuard, runtime::reflector};
use signalbox_types::Watched;
use tokio::sync::mpsc;

pub use self::{
    assembly::Assembly,
    feed::{Feed, FeedMetrics},
    feeds::{Feeds, Told},
    table::{Ask, Key, Listing, Table, Transition, key_of},
};
use crate::{
    list::{self, Only},
    scope::Scope,
    sync::lock,
};

/// What a Store tells of a kind.
#[derive(Debug)]
pub enum Notice<K> {
    /// An object came, went, or became another.
    Changed(Transition<K>),
    /// A listing was compared and what differed was asked for: time to reconcile all that is not settled.
    Listed,
}

/// What is held of one kind; cheap to clone.
pub struct Kind<K: Watched> {
    inner: Arc<Inner<K>>,
}

impl<K: Watched> Clone for Kind<K> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K: Watched> {
    table: Mutex<Table<K>>,
    reader: reflector::Store<K>,
    client: Client,
    scope: Scope,
    // Unbounded, because answers go in from synchronous code that must not wait; what reads it only maps names.
    notices: mpsc::UnboundedSender<Notice<K>>,
}

impl<K: Watched> Kind<K> {
    /// An empty store of the kind for the namespaces of `scope`, and what it will tell.
    pub fn new(client: Client, scope: Scope) -> (Self, mpsc::UnboundedReceiver<Notice<K>>) {
        let (notices, told) = mpsc::unbounded_channel();
        let table = Table::default();
        let reader = table.reader();
        (Self { inner: Arc::new(Inner { table: Mutex::new(table), reader, client, scope, notices }) }, told)
    }

    /// The object as it was last seen.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.lock().get(&(namespace.to_owned(), name.to_owned()))
    }

    /// All objects of all namespaces as they were last seen.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.inner.reader.state()
    }

    /// All objects of one namespace as they were last seen.
    pub fn all_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let mut all = self.all();
        all.retain(|object| is_in(&**object, namespace));
        all
    }

    /// The map as kube's control loop reads it.
    pub fn reader(&self) -> reflector::Store<K> {
        self.inner.reader.clone()
    }

    /// The API of the kind in a namespace, for reads that the Store has no use for.
    pub fn api(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.inner.client.clone(), namespace)
    }

    /// GETs the object, whole; a slim copy of the answer goes into the Store. One that does not decode counts as an
    /// error of its own, not as absent.
    pub async fn live(&self, namespace: &str, name: &str) -> Result<Option<K>, Error> {
        let question = self.ask();
        let answer = self.api(namespace).get_opt(name).await?;
        match &answer {
            Some(object) => question.answer(object.clone()),
            None => question.absent(namespace, name),
        }
        Ok(answer)
    }

    /// LISTs the objects of the namespace that `only` takes into the Store. `listed` is the same condition on an object
    /// that is held.
    pub async fn live_list(&self, namespace: &str, only: Only<'_>, listed: impl Fn(&K) -> bool) -> Result<(), Error> {
        self.list(Some(namespace), only, listed).await
    }

    /// The same at one place of a scope.
    async fn list(&self, place: Option<&str>, only: Only<'_>, listed: impl Fn(&K) -> bool) -> Result<(), Error> {
        let question = self.ask();
        let objects = list::full(&self.inner.client, place, only).await?;
        let listed = |held: &K| place.is_none_or(|namespace| is_in(held, namespace)) && listed(held);
        let transitions = self.lock().answer_list(question.ask, objects, listed);
        transitions.into_iter().for_each(|transition| self.tell(Some(transition)));
        Ok(())
    }

    /// Opens a question: what the Store held at this moment is what the answer replaces. Ask before the request is
    /// sent.
    pub fn ask(&self) -> Question<K> {
        Question { ask: self.lock().ask(), kind: self.clone() }
    }

    fn change(&self, change: signalbox_types::bus::Change<K>, trace: Option<String>) {
        let transition = self.lock().change(change);
        self.tell(transition.map(|transition| Transition { trace, ..transition }));
    }

    fn tell(&self, transition: Option<Transition<K>>) {
        if let Some(transition) = transition {
            // Nobody listens once the term is over.
            let _ = self.inner.notices.send(Notice::Changed(transition));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table<K>> {
        lock(&self.inner.table)
    }
}

/// A question to the API server that is open; dropping it closes it.
pub struct Question<K: Watched> {
    ask: Ask,
    kind: Kind<K>,
}

impl<K: Watched> Question<K> {
    /// The object is this: the answer to a GET, or to an own write.
    pub fn answer(&self, object: K) {
        let transition = self.kind.lock().answer(self.ask, object);
        self.kind.tell(transition);
    }

    /// There is no object of that name.
    pub fn absent(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let transition = self.kind.lock().answer_absent(self.ask, &key);
        self.kind.tell(transition);
    }
}

impl<K: Watched> Drop for Question<K> {
    fn drop(&mut self) {
        self.kind.lock().close(self.ask);
    }
}

/// GETs an object as the feed does it: one that does not decode is told and treated as absent.
async fn get_guarded<K: Watched>(kind: &Kind<K>, key: &Key) -> Result<(), Error> {
    let (namespace, name) = key;
    let api: Api<DeserializeGuard<K>> = Api::namespaced(kind.inner.client.clone(), namespace);
    let question = kind.ask();
    match api.get_opt(name).await? {
        Some(DeserializeGuard(Ok(object))) => question.answer(object),
        Some(DeserializeGuard(Err(invalid))) => {
            let (kind, error) = (K::KIND, invalid.error);
            tracing::warn!(kind, namespace, name, error, "object does not decode; left out");
            question.absent(namespace, name);
        }
        None => question.absent(namespace, name),
    }
    Ok(())
}

fn is_in<K: Watched>(object: &K, namespace: &str) -> bool {
    object.meta().namespace.as_deref() == Some(namespace)
}
