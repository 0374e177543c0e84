//! What the initializer does with files beside the clones.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat};
use signalbox_types::names;

/// Whether a file can be made in `home`.
pub(crate) fn is_writable(home: &Path) -> bool {
    let probe = home.join(format!(".writable-{}", std::process::id()));
    let made = OpenOptions::new().write(true).create_new(true).open(&probe);
    // Left behind only where it could be made but not removed; then it is an empty file in the agent's own home.
    let _ = fs::remove_file(&probe);
    made.inspect_err(|error| tracing::error!("HOME {}: {error}", home.display())).is_ok()
}

/// Copies the supervisor from this image to where the agent's container starts it. It appears there whole or not at all.
pub(crate) fn stage_supervisor(staged: &Path, agent_dir: &Path) -> io::Result<()> {
    let mut source = match File::open(staged) {
        Ok(source) => source,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            tracing::warn!("this image has no supervisor at {}", staged.display());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let bin = agent_dir.join("bin");
    fs::create_dir_all(&bin)?;
    let partial = bin.join(".ai-agent-supervisor.partial");
    let mut target = File::create(&partial)?;
    io::copy(&mut source, &mut target)?;
    target.flush()?;
    target.set_permissions(Permissions::from_mode(0o755))?;
    // Closed before it gets its name: a program that is open for writing cannot be started.
    drop(target);
    fs::rename(partial, bin.join("ai-agent-supervisor"))
}

/// Leaves an empty settings file where there is none: the CLI ends without a word where it is missing
/// (`docs/contract/vendor-clis.md` section 2.1).
pub(crate) fn leave_claude_settings(agent_dir: &Path) -> io::Result<()> {
    let folder = agent_dir.join(".claude");
    fs::create_dir_all(&folder)?;
    match OpenOptions::new().write(true).create_new(true).open(folder.join("settings.json")) {
        Ok(mut file) => file.write_all(b"{}\n"),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
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
            stage_supervisor(&staged, folder.path()).unwrap();
            let copy = folder.path().join("bin/ai-agent-supervisor");
            assert_eq!(fs::read_to_string(&copy).unwrap(), text);
            assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o755);
        }
        assert_eq!(fs::read_dir(folder.path().join("bin")).unwrap().count(), 1);
    }

    #[test]
    fn an_image_without_a_supervisor_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        stage_supervisor(&folder.path().join("absent"), folder.path()).unwrap();
        assert!(!folder.path().join("bin").exists());
    }

    #[test]
    fn claude_always_finds_settings_and_those_that_are_there_stay() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join(".claude/settings.json");
        leave_claude_settings(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}\n");
        fs::write(&settings, r#"{"a":1}"#).unwrap();
        leave_claude_settings(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&settings).unwrap(), r#"{"a":1}"#);
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
