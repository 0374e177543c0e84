//! LIST, a page at a time: whole objects in small pages, made slim as they come, and metadata in large ones.

use futures::{StreamExt, stream};
use kube::{
    Api, Client, Error,
    api::{ListParams, PartialObjectMeta},
    core::DeserializeGuard,
};
use signalbox_types::{ObjectId, Watched, bus::ListedObject};

use crate::scope::{Scope, api_at};

/// Objects a page of a full LIST: an Agent carries up to `MAX_OUTPUT_BYTES` of output.
const FULL_PAGE: u32 = 50;
/// Objects a page of a metadata LIST.
const METADATA_PAGE: u32 = 500;
/// Namespaces that are listed at the same time.
const CONCURRENCY: usize = 8;

/// What metadata LISTs found of a scope.
pub struct Versions {
    /// The namespaces that were listed; empty means all.
    pub scope: Vec<String>,
    /// The lowest version of the LISTs, each that of its first page: what is above it may be newer than this.
    pub version: u64,
    /// The objects.
    pub objects: Vec<ListedObject>,
    /// Namespaces that could not be listed, and why. One whose team has taken it away, its Role included, must not keep
    /// the others from being seen.
    pub refused: Vec<(String, Error)>,
}

/// Which objects of a kind.
#[derive(Clone, Copy, Debug)]
pub enum Only<'a> {
    /// All that belong.
    All,
    /// Those that a field selector takes.
    Fields(&'a str),
    /// Those that a label selector takes.
    Labels(&'a str),
}

/// LISTs the objects of the kind at one place of a scope that belong and that `only` takes, slim. One that does not
/// decode is logged and left out: it must not keep the others from being seen (case 58).
pub async fn full<K: Watched>(client: &Client, place: Option<&str>, only: Only<'_>) -> Result<Vec<K>, Error> {
    let api: Api<DeserializeGuard<K>> = api_at(client, place);
    let mut params = selected::<K>(FULL_PAGE);
    match only {
        Only::All => {}
        Only::Fields(fields) => params.field_selector = Some(fields.to_owned()),
        Only::Labels(labels) => {
            let both = params.label_selector.iter().map(String::as_str).chain([labels]).collect::<Vec<_>>().join(",");
            params.label_selector = Some(both);
        }
    }
    let mut found = Vec::new();
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            Err(error) => {
                recover(error, &mut params, K::KIND)?;
                if params.continue_token.is_none() {
                    found.clear();
                }
                continue;
            }
        };
        found.extend(page.items.into_iter().filter_map(|item| decoded(item.0)));
        match next(page.metadata.continue_) {
            None => return Ok(found),
            token => params.continue_token = token,
        }
    }
}

/// LISTs the versions of every object of the kind in the scope: quorum reads, so each is true of one moment.
///
/// # Errors
/// Nothing could be listed; where a part of a scope was, the rest is told in the answer.
pub async fn metadata<K: Watched>(client: &Client, scope: &Scope) -> Result<Versions, Error> {
    let mut found = Versions { scope: Vec::new(), version: u64::MAX, objects: Vec::new(), refused: Vec::new() };
    let list = |place: Option<String>| async move {
        let answer = metadata_at::<K>(client, place.as_deref()).await;
        (place, answer)
    };
    let mut answers = stream::iter(scope.places()).map(list).buffered(CONCURRENCY);
    let mut any = false;
    while let Some((place, answer)) = answers.next().await {
        match (answer, place) {
            (Ok((version, objects)), place) => {
                any = true;
                found.version = found.version.min(version);
                found.objects.extend(objects);
                found.scope.extend(place);
            }
            (Err(error), Some(namespace)) => found.refused.push((namespace, error)),
            (Err(error), None) => return Err(error),
        }
    }
    if !any && let Some((_, error)) = found.refused.pop() {
        return Err(error);
    }
    Ok(found)
}

async fn metadata_at<K: Watched>(client: &Client, place: Option<&str>) -> Result<(u64, Vec<ListedObject>), Error> {
    let api: Api<K> = api_at(client, place);
    let mut params = selected::<K>(METADATA_PAGE);
    let (mut version, mut objects) = (0, Vec::new());
    loop {
        let page = match api.list_metadata(&params).await {
            Ok(page) => page,
            Err(error) => {
                recover(error, &mut params, K::KIND)?;
                if params.continue_token.is_none() {
                    objects.clear();
                }
                continue;
            }
        };
        if params.continue_token.is_none() {
            version = number(page.metadata.resource_version.as_deref());
        }
        objects.extend(page.items.into_iter().filter_map(listed));
        match next(page.metadata.continue_) {
            None => return Ok((version, objects)),
            token => params.continue_token = token,
        }
    }
}

/// Restarts a LIST whose continue token has expired and halves a page that did not come through; else gives the error
/// back.
fn recover(error: Error, params: &mut ListParams, kind: &str) -> Result<(), Error> {
    if let Error::Api(status) = &error {
        if status.code == 410 && params.continue_token.is_some() {
            params.continue_token = None;
            return Ok(());
        }
        return Err(error);
    }
    // Anything below the API's own answer may be a page over the body limit.
    match params.limit {
        Some(limit) if limit > 1 => {
            tracing::warn!(kind, limit, %error, "page did not come through; trying half of it");
            params.limit = Some(limit / 2);
            Ok(())
        }
        _ => Err(error),
    }
}

fn selected<K: Watched>(page: u32) -> ListParams {
    let params = ListParams::default().limit(page);
    match K::SELECTOR {
        Some(selector) => params.labels(selector),
        None => params,
    }
}

fn decoded<K: Watched>(item: Result<K, kube::core::error_boundary::InvalidObject>) -> Option<K> {
    match item {
        Ok(mut object) => {
            object.slim();
            Some(object)
        }
        Err(invalid) => {
            let (kind, namespace, name) = (K::KIND, invalid.metadata.namespace, invalid.metadata.name);
            tracing::warn!(kind, namespace, name, error = invalid.error, "object does not decode; left out");
            None
        }
    }
}

fn listed<K: Watched>(item: PartialObjectMeta<K>) -> Option<ListedObject> {
    let ObjectId { namespace, name, uid, resource_version } = ObjectId::of(&item)?;
    Some((namespace, name, uid, resource_version))
}

fn number(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn next(token: Option<String>) -> Option<String> {
    token.filter(|token| !token.is_empty())
}
