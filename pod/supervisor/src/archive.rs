//! The archive of a conversation: ustar, gzipped, and the same for the same files. Contract: `docs/contract/agents.md`
//! section 9.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs::{self, File, Metadata, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use rustix::fs::OFlags;
use tar::{Builder, EntryType, Header};

/// The unit of an archive's headers and contents.
const BLOCK: u64 = 512;
/// The unit of a whole archive.
const RECORD: u64 = 20 * BLOCK;
/// The most that goes into an archive, uncompressed: it is held in memory, and the memory is the run's.
const MAX_BYTES: u64 = 512 * 1024 * 1024;

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file cannot be read.
    #[error("{0}: {1}")]
    Read(PathBuf, #[source] io::Error),
    /// A path has no place in a ustar header, or the archive cannot be written.
    #[error("{0}: {1}")]
    Write(PathBuf, #[source] io::Error),
    /// There is too much.
    #[error("the files are larger than {MAX_BYTES} bytes")]
    TooLarge,
}

/// An archive of all folders and regular files of `home` at and below `paths`, named from there; None where there is
/// none. Links, pipes and sockets are left out.
pub(crate) fn of(home: &Path, paths: &[&str]) -> Result<Option<Vec<u8>>, Error> {
    let mut members = BTreeSet::new();
    for path in paths {
        collect(home, PathBuf::from(path), &mut members)?;
    }
    if members.is_empty() {
        return Ok(None);
    }
    let mut archive = Archive { builder: Builder::new(GzEncoder::new(Vec::new(), Compression::default())), bytes: 0 };
    for member in &members {
        archive.append(home, Path::new(member))?;
    }
    archive.finish().map(Some).map_err(|error| Error::Write(home.to_owned(), error))
}

/// Puts `path` and all below it into `members`, which are sorted as bytes.
fn collect(home: &Path, path: PathBuf, members: &mut BTreeSet<OsString>) -> Result<(), Error> {
    let mut pending = vec![path];
    while let Some(path) = pending.pop() {
        let full = home.join(&path);
        let read = |error| Error::Read(full.clone(), error);
        let Some(found) = unless_gone(fs::symlink_metadata(&full)).map_err(read)? else { continue };
        if found.is_dir() {
            for entry in fs::read_dir(&full).map_err(read)? {
                pending.push(path.join(entry.map_err(read)?.file_name()));
            }
        } else if !found.is_file() {
            continue;
        }
        members.insert(path.into_os_string());
    }
    Ok(())
}

fn unless_gone<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

struct Archive {
    builder: Builder<GzEncoder<Vec<u8>>>,
    /// The length so far, uncompressed.
    bytes: u64,
}

impl Archive {
    fn append(&mut self, home: &Path, path: &Path) -> Result<(), Error> {
        let full = home.join(path);
        let read = |error| Error::Read(full.clone(), error);
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let opened = unless_gone(OpenOptions::new().read(true).custom_flags(flags).open(&full)).map_err(read)?;
        let Some(file) = opened else { return Ok(()) };
        let found = file.metadata().map_err(read)?;
        let size = if found.is_file() { found.len() } else { 0 };
        self.bytes = self.bytes.saturating_add(BLOCK).saturating_add(size);
        self.bytes = self.bytes.saturating_add(self.bytes.next_multiple_of(BLOCK) - self.bytes);
        if self.bytes > MAX_BYTES {
            return Err(Error::TooLarge);
        }
        let write = |error| Error::Write(path.to_owned(), error);
        let header = header(path, &found, size).map_err(write)?;
        self.builder.append(&header, content(file, size)).map_err(write)
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        // Two empty blocks end an archive; the rest of the last record is empty as well.
        let length = self.bytes + 2 * BLOCK;
        let mut encoder = self.builder.into_inner()?;
        io::copy(&mut io::repeat(0).take(length.next_multiple_of(RECORD) - length), &mut encoder)?;
        encoder.flush()?;
        encoder.finish()
    }
}

/// As long as the header says, whatever a process that survived the CLI does to the file meanwhile.
fn content(file: File, size: u64) -> impl Read {
    file.take(size).chain(io::repeat(0)).take(size)
}

fn header(path: &Path, found: &Metadata, size: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    if found.is_dir() {
        header.set_entry_type(EntryType::Directory);
        header.set_path(path.join(OsStr::new("")))?;
    } else {
        header.set_entry_type(EntryType::Regular);
        header.set_path(path)?;
    }
    header.set_size(size);
    header.set_mode(found.mode() & 0o7777);
    header.set_mtime(u64::try_from(found.mtime()).unwrap_or_default());
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::symlink,
        process::{Command, Stdio},
    };

    use flate2::read::GzDecoder;

    use super::*;

    /// A home with what belongs into an archive of `.s` and `.f`, and what does not.
    fn home() -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        fs::create_dir_all(at(".s/a/empty")).unwrap();
        fs::create_dir_all(at(".other")).unwrap();
        for (path, text) in
            [(".s/a/1", "one"), (".s/a.jsonl", ""), (".s/z \u{e9}", "last"), (".f", "file"), (".other/x", "no")]
        {
            fs::write(at(path), text).unwrap();
        }
        symlink("/etc/passwd", at(".s/link")).unwrap();
        symlink("a", at(".s/folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at(".s/socket")).unwrap();
        home
    }

    fn unpacked(archive: &[u8]) -> Vec<u8> {
        let mut unpacked = Vec::new();
        GzDecoder::new(archive).read_to_end(&mut unpacked).unwrap();
        unpacked
    }

    fn tar(arguments: &[&str], archive: &[u8]) -> String {
        let mut tar = Command::new("tar");
        let mut tar = tar.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        tar.stdin.take().unwrap().write_all(archive).unwrap();
        let output = tar.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn an_archive_has_folders_and_regular_files_alone_sorted_and_of_root() {
        let archive = of(home().path(), &[".s", ".f", ".absent"]).unwrap().unwrap();
        let unpacked = unpacked(&archive);
        assert_eq!(unpacked.len() as u64, RECORD);
        assert_eq!((&unpacked[257..265], unpacked[156]), (b"ustar\x0000".as_slice(), b'0'));
        let names = tar(&["--quoting-style=literal", "-tzf", "-"], &archive);
        assert_eq!(
            names.lines().collect::<Vec<_>>(),
            [".f", ".s/", ".s/a/", ".s/a.jsonl", ".s/a/1", ".s/a/empty/", ".s/z \u{e9}"]
        );
        let listing = tar(&["--numeric-owner", "-tvzf", "-"], &archive);
        assert!(listing.lines().all(|line| line.contains(" 0/0 ")), "{listing}");
    }

    #[test]
    fn fix_0_10_4_gnu_tar_extracts_it() {
        let (home, target) = (home(), tempfile::tempdir().unwrap());
        let archive = of(home.path(), &[".s", ".f"]).unwrap().unwrap();
        tar(&["-xzf", "-", "-C", target.path().to_str().unwrap()], &archive);
        for (path, text) in [(".s/a/1", "one"), (".s/a.jsonl", ""), (".s/z \u{e9}", "last"), (".f", "file")] {
            assert_eq!(fs::read_to_string(target.path().join(path)).unwrap(), text);
        }
        assert!(target.path().join(".s/a/empty").is_dir() && !target.path().join(".s/link").exists());
    }

    #[test]
    fn the_same_files_give_the_same_archive() {
        let home = home();
        assert_eq!(of(home.path(), &[".s", ".f"]).unwrap(), of(home.path(), &[".f", ".s"]).unwrap());
    }

    #[test]
    fn an_archive_is_filled_up_to_whole_records() {
        let home = tempfile::tempdir().unwrap();
        for size in [0, 511, 512, 513, 8703, 8704, 8705, 50_000] {
            fs::write(home.path().join("f"), vec![b'x'; size]).unwrap();
            let unpacked = unpacked(&of(home.path(), &["f"]).unwrap().unwrap());
            let needed = 3 * BLOCK + (size as u64).next_multiple_of(BLOCK);
            assert_eq!(unpacked.len() as u64, needed.next_multiple_of(RECORD), "{size}");
        }
    }

    #[test]
    fn a_long_path_is_split_and_one_that_cannot_be_is_an_error() {
        let (home, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // 155 bytes of folders, then 100 bytes of name.
        let folders = format!("s/{}/{}", "d".repeat(76), "e".repeat(76));
        assert_eq!(folders.len(), 155);
        fs::create_dir_all(home.path().join(&folders)).unwrap();
        let longest = format!("{folders}/{}", "n".repeat(100));
        fs::write(home.path().join(&longest), "text").unwrap();
        let archive = of(home.path(), &["s"]).unwrap().unwrap();
        tar(&["-xzf", "-", "-C", target.path().to_str().unwrap()], &archive);
        assert_eq!(fs::read_to_string(target.path().join(longest)).unwrap(), "text");

        let longer = format!("s/{}", "n".repeat(101));
        fs::write(home.path().join(&longer), "text").unwrap();
        let error = of(home.path(), &["s"]).unwrap_err();
        assert!(matches!(&error, Error::Write(path, _) if path.to_str() == Some(&longer)), "{error}");
    }

    #[test]
    fn without_any_state_there_is_no_archive() {
        assert_eq!(of(home().path(), &[".absent"]).unwrap(), None);
    }

    #[test]
    fn too_much_is_an_error_before_it_is_read() {
        let home = tempfile::tempdir().unwrap();
        File::create(home.path().join("f")).unwrap().set_len(MAX_BYTES).unwrap();
        assert!(matches!(of(home.path(), &["f"]), Err(Error::TooLarge)));
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_read_is_filled_up() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("f"), "ab").unwrap();
        let mut read = Vec::new();
        content(File::open(folder.path().join("f")).unwrap(), 4).read_to_end(&mut read).unwrap();
        assert_eq!(read, b"ab\0\0");
    }
}
