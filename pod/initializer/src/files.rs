//! The programs that the agent's volume carries, and whom the volumes belong to.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat};
use signalbox_types::names;

/// The supervisor's name.
pub(crate) const SUPERVISOR: &str = "ai-agent-supervisor";
/// This program's own name.
pub(crate) const INITIALIZER: &str = "ai-agent-init";

/// Whether a file can be made in `home`.
pub(crate) fn is_writable(home: &Path) -> bool {
    let probe = home.join(format!(".writable-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    // Left behind only where it could be made but not removed; then it is an empty file in the agent's own home.
    let _ = fs::remove_file(&probe);
    made.inspect_err(|error| tracing::error!("HOME {}: {error}", home.display())).is_ok()
}

/// Copies a program from this image to where the agent's container starts it. It appears there whole or not at all.
pub(crate) fn stage(program: &Path, agent_dir: &Path, name: &str) -> io::Result<()> {
    let mut source = match File::open(program) {
        Ok(source) => source,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            tracing::warn!("this image has no {}", program.display());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let bin = agent_dir.join("bin");
    fs::create_dir_all(&bin)?;
    let partial = bin.join(format!(".{name}.partial"));
    let mut target = File::create(&partial)?;
    io::copy(&mut source, &mut target)?;
    target.flush()?;
    target.set_permissions(Permissions::from_mode(0o755))?;
    // Closed before it gets its name: a program that is open for writing cannot be started.
    drop(target);
    fs::rename(partial, bin.join(name))
}

/// Gives all below `roots` to the agent's user, if we are root and may. Links are given, never followed.
pub(crate) fn give_to_agent(roots: &[PathBuf]) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (uid, gid) = (Some(Uid::from_raw(names::RUN_UID)), Some(Gid::from_raw(names::RUN_UID)));
    let mut pending = roots.to_vec();
    while let Some(path) = pending.pop() {
        let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        chownat(CWD, &path, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| at(error.into()))?;
        if fs::symlink_metadata(&path).map_err(at)?.is_dir() {
            for entry in fs::read_dir(&path).map_err(at)? {
                pending.push(entry.map_err(at)?.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn the_supervisor_is_replaced_as_a_whole_and_can_be_started() {
        let folder = tempfile::tempdir().unwrap();
        let staged = folder.path().join("staged");
        for text in ["one", "two"] {
            fs::write(&staged, text).unwrap();
            stage(&staged, folder.path(), SUPERVISOR).unwrap();
            let copy = folder.path().join("bin/ai-agent-supervisor");
            assert_eq!(fs::read_to_string(&copy).unwrap(), text);
            assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o755);
        }
        assert_eq!(fs::read_dir(folder.path().join("bin")).unwrap().count(), 1);
    }

    #[test]
    fn an_image_without_a_supervisor_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        stage(&folder.path().join("absent"), folder.path(), SUPERVISOR).unwrap();
        assert!(!folder.path().join("bin").exists());
    }

    #[test]
    fn only_root_gives_files_away_and_never_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
        fs::create_dir_all(inside.join("deep")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(inside.join("deep/file"), "").unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        give_to_agent(std::slice::from_ref(&inside)).unwrap();

        let own = fs::metadata(&outside).unwrap().uid();
        let expected = if own == 0 { names::RUN_UID } else { own };
        for path in [inside.join("deep/file"), inside.join("deep"), inside.join("link"), inside] {
            assert_eq!(fs::symlink_metadata(&path).unwrap().uid(), expected, "{}", path.display());
        }
    }
}
