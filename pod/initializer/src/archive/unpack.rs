use std::{
    fs::FileTimes,
    io::{self, BufReader, Read, Seek},
    path::Path,
    time::{Duration, SystemTime},
};

use super::{
    Error, Limits,
    member::{Kind, Member, each},
};
use crate::beneath::Folder;

/// What came of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// The members that were written.
    pub(crate) written: u64,
    /// The members that were not wanted.
    pub(crate) left_out: u64,
}

/// Unpacks those members of `archive` that are `wanted` by their place into `target`, which is there. Files and links
/// that stand in a member's place are replaced, folders are kept.
///
/// # Errors
/// The first thing that is wrong with it. Nothing is written then, unless the disk itself is in the way: a link or a
/// folder at a member's place, or an error of the disk's.
pub(crate) fn unpack(
    mut archive: impl Read + Seek,
    target: &Path,
    limits: Limits,
    wanted: impl Fn(&Path) -> bool,
) -> Result<Unpacked, Error> {
    each(BufReader::new(&mut archive), limits, |_, _| Ok(()))?;
    archive.rewind().map_err(Error::Read)?;
    let target = Folder::open(target).map_err(|error| Error::Write { name: ".".to_owned(), error })?;
    let mut unpacked = Unpacked::default();
    each(BufReader::new(archive), limits, |member, content| {
        if !wanted(&member.path) {
            unpacked.left_out += 1;
            return Ok(());
        }
        unpacked.written += 1;
        write(&target, member, content).map_err(|error| Error::Write { name: member.name.clone(), error })
    })?;
    Ok(unpacked)
}

fn write(target: &Folder, member: &Member, content: &mut dyn Read) -> io::Result<()> {
    let Some((folder, name)) = member.path.parent().zip(member.path.file_name()) else { return Ok(()) };
    if member.kind == Kind::Folder {
        return target.make(&member.path)?.set_mode(member.mode);
    }
    let folder = target.make(folder)?;
    match &member.kind {
        Kind::Folder => Ok(()),
        Kind::Symlink(to) => folder.symlink(name, to),
        Kind::Hardlink(to) => {
            let (above, source) = to.parent().zip(to.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
            folder.link(name, &target.find(above)?, source)
        }
        Kind::File => {
            let mut file = folder.create(name, member.mode)?;
            io::copy(content, &mut file)?;
            // CLIs look for the latest session by its time; one that cannot be told is now.
            let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(member.modified));
            modified.map_or(Ok(()), |time| file.set_times(FileTimes::new().set_modified(time)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{Cursor, Write},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use flate2::{Compression, write::GzEncoder};
    use rstest::rstest;
    use tar::{Builder, EntryType, Header};
    use tempfile::TempDir;

    use super::*;
    use crate::archive::{LIMITS, Refusal};

    fn packed(fill: impl FnOnce(&mut Builder<GzEncoder<Vec<u8>>>)) -> Cursor<Vec<u8>> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        fill(&mut builder);
        Cursor::new(builder.into_inner().unwrap().finish().unwrap())
    }

    /// A header that says anything, as no honest program writes it.
    fn header(kind: EntryType, name: &str, link: &str, size: u64) -> Header {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o4755);
        header.set_mtime(1_000_000_000);
        header.set_cksum();
        header
    }

    fn one(kind: EntryType, name: &str, link: &str) -> Cursor<Vec<u8>> {
        packed(|builder| {
            builder.append(&header(EntryType::Regular, "first", "", 1), &b"x"[..]).unwrap();
            builder.append(&header(kind, name, link, 0), io::empty()).unwrap();
        })
    }

    fn all(archive: Cursor<Vec<u8>>, target: &TempDir) -> Result<Unpacked, Error> {
        unpack(archive, target.path(), LIMITS, |_| true)
    }

    #[test]
    fn files_folders_and_links_are_there_with_their_times_and_without_set_id_bits() {
        let target = tempfile::tempdir().unwrap();
        let archive = packed(|builder| {
            builder.append(&header(EntryType::Directory, "a/", "", 0), io::empty()).unwrap();
            builder.append(&header(EntryType::Regular, "a/file", "", 5), &b"hello"[..]).unwrap();
            builder.append(&header(EntryType::Symlink, "a/soft", "../b/hard", 0), io::empty()).unwrap();
            builder.append(&header(EntryType::Link, "b/hard", "a/file", 0), io::empty()).unwrap();
            let mut long = Header::new_gnu();
            long.set_size(1);
            long.set_mode(0o600);
            builder.append_data(&mut long, format!("{}/x", "n".repeat(150)), &b"l"[..]).unwrap();
        });
        assert_eq!(all(archive, &target).unwrap(), Unpacked { written: 5, left_out: 0 });
        for path in ["a/file", "a/soft", "b/hard"] {
            assert_eq!(fs::read_to_string(target.path().join(path)).unwrap(), "hello", "{path}");
        }
        let file = fs::metadata(target.path().join("a/file")).unwrap();
        assert_eq!(file.permissions().mode() & 0o7777, 0o755);
        assert_eq!(file.modified().unwrap(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        assert!(target.path().join("n".repeat(150)).join("x").is_file());
    }

    #[rstest]
    #[case::up(EntryType::Regular, "../x", "", Refusal::Outside)]
    #[case::up_later(EntryType::Regular, "a/../../x", "", Refusal::Outside)]
    #[case::absolute(EntryType::Regular, "/tmp/x", "", Refusal::Outside)]
    #[case::absolute_folder(EntryType::Directory, "/tmp/x/", "", Refusal::Outside)]
    #[case::soft_link_up(EntryType::Symlink, "x", "../y", Refusal::LinkOutside)]
    #[case::soft_link_away(EntryType::Symlink, "x", "/etc", Refusal::LinkOutside)]
    #[case::soft_link_over_another(EntryType::Symlink, "x", "y/../..", Refusal::LinkOutside)]
    #[case::hard_link_away(EntryType::Link, "x", "/etc/passwd", Refusal::LinkOutside)]
    #[case::hard_link_up(EntryType::Link, "x", "../y", Refusal::LinkOutside)]
    #[case::hard_link_nowhere(EntryType::Link, "x", ".", Refusal::LinkOutside)]
    #[case::character_device(EntryType::Char, "x", "", Refusal::Kind)]
    #[case::block_device(EntryType::Block, "x", "", Refusal::Kind)]
    #[case::pipe(EntryType::Fifo, "x", "", Refusal::Kind)]
    #[case::sparse(EntryType::GNUSparse, "x", "", Refusal::Sparse)]
    fn a_hostile_member_is_named_and_nothing_of_its_archive_is_written(
        #[case] kind: EntryType,
        #[case] name: &str,
        #[case] link: &str,
        #[case] expected: Refusal,
    ) {
        let target = tempfile::tempdir().unwrap();
        let error = all(one(kind, name, link), &target).unwrap_err();
        let is_expected =
            matches!(&error, Error::Member { name: found, refusal } if found == name && *refusal == expected);
        assert!(is_expected, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
    }

    #[test]
    fn ten_gigabytes_of_zeros_are_refused_by_name_before_they_are_read() {
        // The header alone: whoever looked behind it would find the end and say so.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(header(EntryType::Regular, "zeros", "", 0).as_bytes()).unwrap();
        encoder.write_all(header(EntryType::Regular, "bomb", "", 10 << 30).as_bytes()).unwrap();
        let archive = Cursor::new(encoder.finish().unwrap());
        let target = tempfile::tempdir().unwrap();
        let error = all(archive, &target).unwrap_err();
        assert_eq!(error.to_string(), "member \"bomb\": with it the archive unpacks to more than 2147483648 bytes");
    }

    #[test]
    fn many_members_that_are_small_each_are_refused_together() {
        let archive = || {
            packed(|builder| {
                for number in 0..4 {
                    let header = header(EntryType::Regular, &format!("m{number}"), "", 10);
                    builder.append(&header, &[0; 10][..]).unwrap();
                }
            })
        };
        let target = tempfile::tempdir().unwrap();
        let refused = |limits| match unpack(archive(), target.path(), limits, |_| true).unwrap_err() {
            Error::Member { name, refusal } => (name, refusal),
            error => panic!("{error}"),
        };
        assert_eq!(refused(Limits { members: 3, bytes: 100 }), ("m3".to_owned(), Refusal::Members(3)));
        assert_eq!(refused(Limits { members: 9, bytes: 29 }), ("m2".to_owned(), Refusal::Bytes(29)));
        assert!(unpack(archive(), target.path(), Limits { members: 4, bytes: 40 }, |_| true).is_ok());
    }

    #[rstest]
    #[case::gnu(EntryType::GNULongName)]
    #[case::gnu_link(EntryType::GNULongLink)]
    #[case::pax(EntryType::XHeader)]
    #[case::pax_global(EntryType::XGlobalHeader)]
    fn a_name_of_a_gigabyte_is_never_held_in_memory(#[case] kind: EntryType) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(header(kind, "long", "", 1 << 30).as_bytes()).unwrap();
        let archive = Cursor::new(encoder.finish().unwrap());
        let error = all(archive, &tempfile::tempdir().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Member { refusal: Refusal::LongName, .. }), "{error}");
    }

    #[test]
    fn a_name_in_an_extension_is_checked_like_any_other() {
        let archive = packed(|builder| {
            builder.append_pax_extensions([("path", &b"../../x"[..])]).unwrap();
            builder.append(&header(EntryType::Regular, "harmless", "", 0), io::empty()).unwrap();
        });
        let error = all(archive, &tempfile::tempdir().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Member { refusal: Refusal::Outside, .. }), "{error}");
    }

    #[test]
    fn a_size_that_only_one_reader_would_see_is_refused() {
        let archive = packed(|builder| {
            builder.append_pax_extensions([("size", &b"4096"[..])]).unwrap();
            builder.append(&header(EntryType::Regular, "two-faced", "", 0), io::empty()).unwrap();
        });
        let error = all(archive, &tempfile::tempdir().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Member { refusal: Refusal::Sparse, .. }), "{error}");
    }

    #[test]
    fn a_link_that_is_there_is_never_gone_through_but_replaced() {
        let outer = tempfile::tempdir().unwrap();
        let (target, outside) = (outer.path().join("target"), outer.path().join("outside"));
        fs::create_dir(&target).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "kept").unwrap();
        symlink(&outside, target.join("folder")).unwrap();
        symlink(outside.join("file"), target.join("first")).unwrap();
        let error = unpack(one(EntryType::Regular, "folder/x", ""), &target, LIMITS, |_| true).unwrap_err();
        assert!(matches!(&error, Error::Write { name, .. } if name == "folder/x"), "{error}");
        assert_eq!(fs::read_to_string(target.join("first")).unwrap(), "x");
        assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "kept");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn a_link_of_the_archive_itself_is_not_gone_through_either() {
        let target = tempfile::tempdir().unwrap();
        let archive = packed(|builder| {
            builder.append(&header(EntryType::Directory, "real/", "", 0), io::empty()).unwrap();
            builder.append(&header(EntryType::Symlink, "link", "real", 0), io::empty()).unwrap();
            builder.append(&header(EntryType::Regular, "link/x", "", 0), io::empty()).unwrap();
        });
        assert!(matches!(all(archive, &target).unwrap_err(), Error::Write { name, .. } if name == "link/x"));
        assert!(!target.path().join("real/x").exists());
    }

    #[test]
    fn a_hard_link_to_a_soft_link_is_none() {
        let target = tempfile::tempdir().unwrap();
        let archive = packed(|builder| {
            builder.append(&header(EntryType::Symlink, "a/b/soft", "../../x", 0), io::empty()).unwrap();
            // At the top, the link's own words would lead outside.
            builder.append(&header(EntryType::Link, "hard", "a/b/soft", 0), io::empty()).unwrap();
        });
        assert!(matches!(all(archive, &target).unwrap_err(), Error::Write { name, .. } if name == "hard"));
    }

    #[rstest]
    #[case::not_gzip(b"plain text".to_vec())]
    #[case::nothing(vec![])]
    #[case::cut_off({ let whole = one(EntryType::Regular, "y", "").into_inner(); whole[..whole.len() / 2].to_vec() })]
    fn what_is_no_archive_is_refused(#[case] bytes: Vec<u8>) {
        let target = tempfile::tempdir().unwrap();
        assert!(all(Cursor::new(bytes), &target).is_err());
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_archive_of_nothing_but_zeros_is_empty() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&[0; 1 << 20]).unwrap();
        let error = all(Cursor::new(encoder.finish().unwrap()), &tempfile::tempdir().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Empty), "{error}");
    }

    #[test]
    fn only_what_is_wanted_is_written() {
        let target = tempfile::tempdir().unwrap();
        let wanted = |path: &Path| path.starts_with("keep");
        let archive = packed(|builder| {
            for name in ["keep/a", "other/b", "keepsake"] {
                builder.append(&header(EntryType::Regular, name, "", 0), io::empty()).unwrap();
            }
        });
        let unpacked = unpack(archive, target.path(), LIMITS, wanted).unwrap();
        assert_eq!(unpacked, Unpacked { written: 1, left_out: 2 });
        assert!(target.path().join("keep/a").exists() && !target.path().join("other").exists());
    }

    #[test]
    fn fix_0_10_4_an_archive_that_gnu_tar_made_is_unpacked() {
        let source = tempfile::tempdir().unwrap();
        let name = format!(".claude/projects/{}/{}.jsonl", "p".repeat(90), "s".repeat(60));
        fs::create_dir_all(source.path().join(&name).parent().unwrap()).unwrap();
        fs::write(source.path().join(&name), "line\n").unwrap();
        for format in ["gnu", "posix", "ustar"] {
            let file = source.path().join("archive.tar.gz");
            let mut tar = std::process::Command::new("tar");
            tar.arg("-C").arg(source.path()).arg(format!("--format={format}"));
            assert!(tar.arg("-czf").arg(&file).arg(".claude").status().unwrap().success());
            let target = tempfile::tempdir().unwrap();
            unpack(fs::File::open(&file).unwrap(), target.path(), LIMITS, |_| true).unwrap();
            assert_eq!(fs::read_to_string(target.path().join(&name)).unwrap(), "line\n", "{format}");
        }
    }
}
