//! The messages on the bus, and their subjects. Plain NATS carries them: each can be lost, repeated or reordered
//! (`docs/decisions/0001-plain-nats.md`).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{ObjectId, Watched};

/// The version of every message body.
pub const VERSION: u8 = 1;
/// The largest body of one part of a listing, in bytes; NATS refuses a message over 1 MiB.
pub const MAX_LISTING_PART: usize = 512 * 1024;
/// The header with the W3C trace context of a change.
pub const HEADER_TRACEPARENT: &str = "traceparent";

/// The subject of changes of a kind.
pub fn change_subject(kind: &str) -> String {
    format!("signalbox.v1.change.{kind}")
}

/// The subject of listings of a kind.
pub fn listing_subject(kind: &str) -> String {
    format!("signalbox.v1.listing.{kind}")
}

/// The subject on which a Lease that was given up is announced.
pub fn released_subject(lease: &str) -> String {
    format!("signalbox.v1.released.{lease}")
}

/// Why a body was not understood.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not the JSON it should be.
    #[error("message body: {0}")]
    Json(#[from] serde_json::Error),
    /// From a program that speaks another version.
    #[error("message version {0} is not {VERSION}")]
    Version(u8),
    /// On the subject of another kind.
    #[error("message is of kind {0:?}")]
    Kind(String),
}

/// What became of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<K> {
    /// It was created or changed; this is all of it that travels.
    Applied(K),
    /// It is gone; `resource_version` is that of the delete.
    Deleted(ObjectId),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChangeType {
    Applied,
    Deleted,
}

#[derive(Serialize)]
struct ChangeOut<'a, O: Serialize> {
    v: u8,
    r#type: ChangeType,
    kind: &'a str,
    object: O,
}

#[derive(Deserialize)]
struct ChangeIn<'a> {
    v: u8,
    r#type: ChangeType,
    #[serde(borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<K: Watched> Change<K> {
    /// The body of the message.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        match self {
            Self::Applied(object) => {
                serde_json::to_vec(&ChangeOut { v: VERSION, r#type: ChangeType::Applied, kind: K::KIND, object })
            }
            Self::Deleted(object) => {
                serde_json::to_vec(&ChangeOut { v: VERSION, r#type: ChangeType::Deleted, kind: K::KIND, object })
            }
        }
    }

    /// Reads a body.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let message: ChangeIn = serde_json::from_slice(body)?;
        check(message.v, &message.kind, K::KIND)?;
        Ok(match message.r#type {
            ChangeType::Applied => Self::Applied(serde_json::from_str(message.object.get())?),
            ChangeType::Deleted => Self::Deleted(serde_json::from_str(message.object.get())?),
        })
    }
}

/// One part of what a metadata-only LIST found: every object of the scope, by version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListingPart {
    /// The version of the message.
    pub v: u8,
    /// A random word of the watcher's term: parts of two watchers never mix.
    pub epoch: String,
    /// The kind.
    pub kind: String,
    /// The namespaces that were listed; empty means all.
    pub scope: Vec<String>,
    /// The resourceVersion of the LIST's first page.
    pub list_version: u64,
    /// Which part this is, from 0.
    pub part: usize,
    /// How many there are.
    pub parts: usize,
    /// `[namespace, name, uid, resourceVersion]` of each object.
    pub objects: Vec<ListedObject>,
}

/// An object of a listing: `[namespace, name, uid, resourceVersion]`.
pub type ListedObject = (String, String, String, String);

impl ListingPart {
    /// Cuts a listing into parts of at most [`MAX_LISTING_PART`] bytes; an empty listing is one empty part.
    pub fn split(
        kind: &str,
        epoch: &str,
        scope: &[String],
        list_version: u64,
        objects: Vec<ListedObject>,
    ) -> Vec<Self> {
        // Quotes, commas and brackets of one entry; the head of the body is far below the 4 KiB left for it.
        const ENTRY_OVERHEAD: usize = 14;
        let mut groups: Vec<Vec<ListedObject>> = vec![Vec::new()];
        let mut size = 4096;
        for object in objects {
            let entry = object.0.len() + object.1.len() + object.2.len() + object.3.len() + ENTRY_OVERHEAD;
            if size + entry > MAX_LISTING_PART {
                groups.push(Vec::new());
                size = 4096;
            }
            size += entry;
            if let Some(group) = groups.last_mut() {
                group.push(object);
            }
        }
        let parts = groups.len();
        let part = |(part, objects)| Self {
            v: VERSION,
            epoch: epoch.to_owned(),
            kind: kind.to_owned(),
            scope: scope.to_vec(),
            list_version,
            part,
            parts,
            objects,
        };
        groups.into_iter().enumerate().map(part).collect()
    }

    /// The body of the message.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    /// Reads a body that was published for `kind`.
    pub fn decode(body: &[u8], kind: &str) -> Result<Self, DecodeError> {
        let part: Self = serde_json::from_slice(body)?;
        check(part.v, &part.kind, kind)?;
        Ok(part)
    }
}

fn check(version: u8, kind: &str, expected: &str) -> Result<(), DecodeError> {
    if version != VERSION {
        return Err(DecodeError::Version(version));
    }
    if kind != expected {
        return Err(DecodeError::Kind(kind.to_owned()));
    }
    Ok(())
}
