//! Archives (`.tar.gz`), unpacked in process: no image needs `tar`. Where they come from (registries, stores of
//! conversations that earlier agents wrote) they may be hostile, and this program is root, so an archive is read to its
//! end and checked before the first byte of it is written, and nothing is ever written through a link.

mod member;
#[cfg(test)]
mod properties;
mod unpack;

use std::io;

pub(crate) use unpack::{Unpacked, unpack};

/// How much an archive may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most members.
    pub(crate) members: u64,
    /// The most bytes of all members together.
    pub(crate) bytes: u64,
}

/// What the largest honest archive needs, the CLI of a vendor (100 MB, thousands of files), many times over; a bomb is
/// refused before it fills the node's disk.
pub(crate) const LIMITS: Limits = Limits { members: 200_000, bytes: 2 << 30 };

/// Why an archive is refused. Nothing of it is written then, but for [`Error::Write`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("it cannot be read as a .tar.gz: {0}")]
    Read(#[source] io::Error),
    #[error("it is empty")]
    Empty,
    #[error("member {name:?}: {refusal}")]
    Member { name: String, refusal: Refusal },
    #[error("member {name:?} cannot be written: {error}")]
    Write { name: String, error: io::Error },
}

/// What is wrong with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("its name leads outside")]
    Outside,
    #[error("it links to what is, or may be, outside")]
    LinkOutside,
    #[error("it is no file, folder or link")]
    Kind,
    #[error("it is a sparse file")]
    Sparse,
    #[error("its name is too long")]
    LongName,
    #[error("with it the archive has more than {0} members")]
    Members(u64),
    #[error("with it the archive unpacks to more than {0} bytes")]
    Bytes(u64),
}
