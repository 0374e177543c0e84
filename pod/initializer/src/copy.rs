//! Copies of folders, for which the image need not have `cp`.

use std::{io, os::unix::fs::PermissionsExt, path::Path};

use rustix::fs::FileType;

use crate::beneath::Folder;

/// How deep a folder is copied: each level holds two files open.
const MAX_DEPTH: usize = 100;

/// What becomes of symbolic links. None is ever followed: in a clone it may lead to this program's own environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// They are copied as they are.
    Keep,
    /// They are left out.
    LeaveOut,
}

/// Copies all in `from` over what is in `to`; the number of things that were left out.
///
/// # Errors
/// The first that cannot be copied.
pub(crate) fn tree(from: &Folder, to: &Folder, links: Links) -> io::Result<u64> {
    copy(from, to, links, MAX_DEPTH)
}

fn copy(from: &Folder, to: &Folder, links: Links, depth: usize) -> io::Result<u64> {
    if depth == 0 {
        return Err(io::Error::other("folders in folders without end"));
    }
    let mut left_out = 0;
    for (name, kind) in from.entries()? {
        match kind {
            FileType::Directory => {
                let name = Path::new(&name);
                left_out += copy(&from.find(name)?, &to.make(name)?, links, depth - 1)?;
            }
            FileType::RegularFile => {
                let mut source = from.read(&name)?;
                let mode = source.metadata()?.permissions().mode();
                io::copy(&mut source, &mut to.create(&name, mode & 0o777 | 0o600)?)?;
            }
            FileType::Symlink if links == Links::Keep => to.symlink(&name, &from.link_target(&name)?)?,
            _ => left_out += 1,
        }
    }
    Ok(left_out)
}
