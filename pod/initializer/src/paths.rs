//! Places below the workspace, and programs on a search path.

use std::{
    env::split_paths,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use signalbox_output::workspace;

/// `wanted` (absolute, or below the workspace), where it is strictly below an absolute workspace other than `/`, both
/// as written and on the disk, where a link that a clone has brought may lead away. Its last part may be a link itself.
pub(crate) fn below(workspace: &Path, wanted: &Path) -> Option<PathBuf> {
    workspace::below(workspace, wanted).filter(|place| is_below_on_disk(place, workspace))
}

fn is_below_on_disk(place: &Path, workspace: &Path) -> bool {
    let existing = place.ancestors().skip(1).find(|path| fs::symlink_metadata(path).is_ok());
    match (existing.and_then(|path| path.canonicalize().ok()), workspace.canonicalize()) {
        (Some(existing), Ok(workspace)) => existing.starts_with(workspace),
        // The workspace itself is not there yet, so there is no link in it.
        (Some(_), Err(_)) => fs::symlink_metadata(workspace).is_err(),
        (None, _) => false,
    }
}

/// The program of that name on a search path such as `PATH`.
pub(crate) fn find_program(name: &str, search: &OsStr) -> Option<PathBuf> {
    split_paths(search)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

/// Whether there is a file that can be started.
pub(crate) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
