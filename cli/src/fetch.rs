//! Reading: what may be absent or not ours to see is told apart from what went wrong.

use std::fmt::Debug;

use futures::{StreamExt, pin_mut};
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Resource,
    runtime::{watcher, watcher::Event},
};
use serde::de::DeserializeOwned;
use signalbox_types::Watched;

use crate::fault::Ask;

/// Objects a page: a finished Agent carries up to 256 KiB of output.
pub(crate) const PAGE: u32 = 50;

/// What came of a look at an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen<T> {
    Found(T),
    Missing,
    /// The caller may not see it.
    Denied,
}

impl<T> Seen<T> {
    pub(crate) const fn found(&self) -> Option<&T> {
        match self {
            Self::Found(value) => Some(value),
            Self::Missing | Self::Denied => None,
        }
    }

    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Found(value) => Seen::Found(f(value)),
            Self::Missing => Seen::Missing,
            Self::Denied => Seen::Denied,
        }
    }
}

/// Sorts the answer of a request.
pub(crate) fn seen<T>(answer: kube::Result<T>, ask: &Ask<'_>) -> anyhow::Result<Seen<T>> {
    match answer {
        Ok(value) => Ok(Seen::Found(value)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Seen::Missing),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Seen::Denied),
        Err(error) => Err(ask.failed(error)),
    }
}

/// An object, if it is there and ours to see.
pub(crate) async fn get<K>(api: &Api<K>, name: &str, object: &str) -> anyhow::Result<Seen<K>>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    seen(api.get(name).await, &Ask { verb: "get", object, if_missing: "" })
}

/// All objects of a kind that `config` chooses, slim and a page at a time.
pub(crate) async fn list<K: Watched>(api: Api<K>, config: watcher::Config) -> Result<Vec<K>, watcher::Error> {
    // The beginning of a watch is a paged LIST; no watch is begun, since the stream is dropped before.
    let events = watcher(api, config.page_size(PAGE)).map(|event| event.map(|event| event.modify(Watched::slim)));
    pin_mut!(events);
    let mut found = Vec::new();
    while let Some(event) = events.next().await {
        match event? {
            Event::InitApply(object) => found.push(object),
            Event::InitDone => break,
            Event::Init | Event::Apply(_) | Event::Delete(_) => {}
        }
    }
    Ok(found)
}

/// [`list`], where being refused is an answer.
pub(crate) async fn list_seen<K: Watched>(
    api: Api<K>,
    config: watcher::Config,
    objects: &str,
) -> anyhow::Result<Seen<Vec<K>>> {
    match list(api, config).await {
        Ok(found) => Ok(Seen::Found(found)),
        Err(error) => match crate::fault::watch_status(&error) {
            Some(403) => Ok(Seen::Denied),
            Some(404) => Ok(Seen::Missing),
            _ => Err(Ask { verb: "list", object: objects, if_missing: "" }.watch_failed(error)),
        },
    }
}

/// [`list`] for a command that cannot do without.
pub(crate) async fn list_all<K: Watched>(api: Api<K>, objects: &str) -> anyhow::Result<Vec<K>> {
    let ask = Ask { verb: "list", object: objects, if_missing: "`kubectl signalbox doctor` says what is missing" };
    list(api, watcher::Config::default()).await.map_err(|error| ask.watch_failed(error))
}
