//! Work below one folder that never leaves it: every step is taken from the open folder before it, and none through a
//! link. What is below may be hostile (a clone, an archive), and this program is root.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt,
            fs::{OpenOptionsExt, PermissionsExt},
        },
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, fstat, linkat, mkdirat, openat, readlinkat, statat, symlinkat, unlinkat},
    io::Errno,
};

/// The mode of folders that nobody says anything about.
const FOLDER_MODE: u32 = 0o755;

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Opens a folder of our own: links on the way to it are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = (OFlags::DIRECTORY | OFlags::CLOEXEC).bits().cast_signed();
        std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map(|file| Self(file.into()))
    }

    /// The folder at `path` below this one; missing ones are made.
    pub(crate) fn make(&self, path: &Path) -> io::Result<Self> {
        self.walk(path, |folder, name| match mkdirat(&folder.0, name, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) | Err(Errno::EXIST) => folder.enter(name),
            Err(error) => Err(error.into()),
        })
    }

    /// The folder at `path` below this one, where it is.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Self> {
        self.walk(path, Self::enter)
    }

    fn walk(&self, path: &Path, step: impl Fn(&Self, &OsStr) -> io::Result<Self>) -> io::Result<Self> {
        let mut folder = Self(self.0.try_clone()?);
        for component in path.components() {
            let Component::Normal(name) = component else { return Err(Errno::INVAL.into()) };
            folder = step(&folder, name)?;
        }
        Ok(folder)
    }

    fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.0, name, flags, Mode::empty()).map(Self).map_err(|error| match error {
            Errno::LOOP | Errno::NOTDIR => io::Error::new(io::ErrorKind::NotADirectory, "it is a link or no folder"),
            error => error.into(),
        })
    }

    /// Sets the mode of this folder.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    /// Makes a new file; what is at its place, a link too, is removed before, unless it is a folder.
    pub(crate) fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        self.remove(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?);
        // Whatever the umask.
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(file)
    }

    /// Makes a symbolic link, in place of what is there unless it is a folder.
    pub(crate) fn symlink(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        self.remove(name)?;
        Ok(symlinkat(target, &self.0, name)?)
    }

    /// Where a symbolic link leads, in its own words.
    pub(crate) fn link_target(&self, name: &OsStr) -> io::Result<PathBuf> {
        let target = readlinkat(&self.0, name, Vec::new())?;
        Ok(OsStr::from_bytes(target.to_bytes()).into())
    }

    /// Makes `name` another name of the regular file `source` in `folder`.
    pub(crate) fn link(&self, name: &OsStr, folder: &Self, source: &OsStr) -> io::Result<()> {
        if !FileType::from_raw_mode(statat(&folder.0, source, AtFlags::SYMLINK_NOFOLLOW)?.st_mode).is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "what it links to is no regular file"));
        }
        self.remove(name)?;
        Ok(linkat(&folder.0, source, &self.0, name, AtFlags::empty())?)
    }

    /// Removes a file or a link, where there is one.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file; a link, a pipe and a device are none.
    pub(crate) fn read(&self, name: &OsStr) -> io::Result<File> {
        // Non-blocking, or a pipe without a writer would hold the run up.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.0, name, flags, Mode::empty())?);
        if !FileType::from_raw_mode(fstat(&file)?.st_mode).is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok(file)
    }

    /// What is in this folder, by name.
    pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.0)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                let found = statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW)?;
                entries.push((name, FileType::from_raw_mode(found.st_mode)));
            }
        }
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn no_step_goes_through_a_link_or_up() {
        let outer = tempfile::tempdir().unwrap();
        let (inside, outside) = (outer.path().join("in"), outer.path().join("out"));
        fs::create_dir_all(&inside).unwrap();
        fs::create_dir_all(outside.join("deep")).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        for path in ["link", "link/deep", "..", "a/../b", "/etc", "."] {
            assert!(folder.find(Path::new(path)).is_err(), "{path}");
            assert!(folder.make(Path::new(path)).is_err(), "{path}");
        }
        folder.make(Path::new("a/b")).unwrap();
        assert!(inside.join("a/b").is_dir() && folder.find(Path::new("a/b")).is_ok());
    }

    #[test]
    fn a_link_at_a_file_s_place_is_replaced_and_its_target_stays() {
        let outer = tempfile::tempdir().unwrap();
        let victim = outer.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        let inside = outer.path().join("in");
        fs::create_dir(&inside).unwrap();
        symlink(&victim, inside.join("file")).unwrap();
        let folder = Folder::open(&inside).unwrap();
        assert!(folder.read("file".as_ref()).is_err());
        folder.create("file".as_ref(), 0o640).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        assert_eq!(fs::read_to_string(inside.join("file")).unwrap(), "new");
        assert_eq!(fs::metadata(inside.join("file")).unwrap().permissions().mode() & 0o7777, 0o640);
    }

    #[test]
    fn a_pipe_is_not_read_and_holds_nobody_up() {
        let outer = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo").arg(outer.path().join("pipe")).status().unwrap();
        assert!(made.success());
        let folder = Folder::open(outer.path()).unwrap();
        assert!(folder.read("pipe".as_ref()).is_err());
        let names: Vec<_> = folder.entries().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["pipe"]);
    }
}
