//! The input files of a run (`AGENT_FILES`): `docs/contract/agents.md` section 10, "files".

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use signalbox_output::headers;
use signalbox_types::InputFile;
use tempfile::NamedTempFile;

use crate::{
    fetch::{self, Fetcher, Source},
    paths,
};

/// The largest input file. It has to fit beside the clones on the node's disk.
const MAX_FILE: u64 = 1 << 30;

/// Why an input file is not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("it is not below the workspace")]
    Outside,
    #[error("there is a link or a folder at its place")]
    Taken,
    #[error("it cannot be fetched: {0}")]
    Fetch(#[from] fetch::Error),
    #[error("it cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// Fetches one file to its place below `workspace`. It is there as a whole or not at all.
///
/// # Errors
/// Whatever it is, the run must not start: it would work on something else.
pub(crate) async fn fetch(
    file: &InputFile,
    workspace: &Path,
    fetcher: &Fetcher,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(), Error> {
    let place = place(&file.path, workspace)?;
    let folder = place.parent().ok_or(Error::Outside)?;
    let headers = headers::from_env(env, &file.headers_secret, &format!("input file {:?}", file.path));
    let source = Source::new(&file.url, headers)?;
    fs::create_dir_all(folder)?;
    let partial = NamedTempFile::new_in(folder)?;
    fetcher.fetch_into(&source, MAX_FILE, partial.as_file()).await?;
    partial.as_file().set_permissions(Permissions::from_mode(0o644))?;
    partial.persist(&place).map_err(|error| error.error)?;
    Ok(())
}

/// Where a file goes, both as written and on the disk, where a link that a clone has brought may lead away.
fn place(path: &str, workspace: &Path) -> Result<PathBuf, Error> {
    let place = paths::below(workspace, Path::new(path)).ok_or(Error::Outside)?;
    match fs::symlink_metadata(&place) {
        Ok(found) if !found.is_file() => Err(Error::Taken),
        Ok(_) => Ok(place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(place),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("data/a.csv", true)]
    #[case::absolute_below("WS/data/a.csv", true)]
    #[case::through_a_link_that_stays("stays/a.csv", true)]
    #[case::there_already("file", true)]
    #[case::outside("../a.csv", false)]
    #[case::absolute("/etc/passwd", false)]
    #[case::the_workspace(".", false)]
    #[case::nothing("", false)]
    #[case::through_a_link_that_leads_away("leads-away/a.csv", false)]
    #[case::a_link("link", false)]
    #[case::a_link_to_nothing("dangling", false)]
    #[case::a_folder("data", false)]
    fn case_82_a_file_goes_below_the_workspace_and_never_over_a_link(#[case] path: &str, #[case] taken: bool) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("ws");
        fs::create_dir_all(workspace.join("data")).unwrap();
        fs::write(workspace.join("file"), "").unwrap();
        symlink(workspace.join("data"), workspace.join("stays")).unwrap();
        symlink(folder.path(), workspace.join("leads-away")).unwrap();
        symlink(workspace.join("file"), workspace.join("link")).unwrap();
        symlink("absent", workspace.join("dangling")).unwrap();
        let path = path.replace("WS", workspace.to_str().unwrap());
        assert_eq!(place(&path, &workspace).is_ok(), taken);
    }
}
