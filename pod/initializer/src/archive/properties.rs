//! Whatever an archive says, nothing is written outside its target.

use std::{
    fs,
    io::{Cursor, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use proptest::{collection::vec, prelude::*, sample::select};
use tar::{EntryType, Header};

use super::{Limits, unpack};

const LIMITS: Limits = Limits { members: 100, bytes: 1 << 20 };

#[derive(Clone, Debug)]
struct Hostile {
    kind: EntryType,
    name: String,
    link: String,
    /// The size that the header gives, which the content need not have.
    size: u64,
    content: Vec<u8>,
}

/// Few parts, so that members meet each other and what is there: `link` and `up` lead out of the target. Most are
/// harmless: an archive with one bad name is refused as a whole, and then nothing is tried.
fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![12 => select(vec!["a", "a", "b", "link", "up", "file"]), 1 => select(vec!["..", ".", ""])];
    (0..12, vec(part, 1..4))
        .prop_map(|(root, parts)| format!("{}{}", if root == 0 { "/" } else { "" }, parts.join("/")))
}

/// What a link says, which is more often bad.
fn target() -> impl Strategy<Value = String> {
    prop_oneof![2 => path(), 1 => select(vec!["..", "../..", "a/..", "link/..", "up", "../outside/victim"]).prop_map(str::to_owned)]
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let rare = [EntryType::Char, EntryType::Fifo, EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader];
    let kind = prop_oneof![
        6 => Just(EntryType::Regular),
        2 => Just(EntryType::Directory),
        4 => Just(EntryType::Symlink),
        3 => Just(EntryType::Link),
        1 => select(rare.to_vec()),
    ];
    let size = prop_oneof![40 => 0..20_u64, 1 => Just(u64::from(u32::MAX))];
    (kind, path(), target(), size, path()).prop_map(|(kind, name, link, size, text)| {
        let content = match kind {
            EntryType::XHeader => record("path", &text),
            EntryType::GNULongName | EntryType::GNULongLink => text.into_bytes(),
            // Mostly what the header says, so that what follows is read as members.
            _ => vec![b'x'; usize::try_from(size.min(20)).unwrap()],
        };
        let size = if content.len() < 20 && size > 20 { size } else { content.len() as u64 };
        Hostile { kind, name, link, size, content }
    })
}

/// A line of a pax header, which begins with its own length: <https://pubs.opengroup.org/onlinepubs/9799919799/>.
fn record(key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let digits = if rest.len() + 1 < 10 { 1 } else { 2 };
    format!("{}{rest}", rest.len() + digits).into_bytes()
}

fn packed(members: &[Hostile]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for member in members {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..member.name.len()].copy_from_slice(member.name.as_bytes());
        header.as_old_mut().linkname[..member.link.len()].copy_from_slice(member.link.as_bytes());
        header.set_entry_type(member.kind);
        header.set_size(member.size);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_cksum();
        encoder.write_all(header.as_bytes()).unwrap();
        encoder.write_all(&member.content).unwrap();
        encoder.write_all(&vec![0; member.content.len().next_multiple_of(512) - member.content.len()]).unwrap();
    }
    encoder.write_all(&[0; 1024]).unwrap();
    encoder.finish().unwrap()
}

/// A folder with the target in it, and all that must stay as it is.
struct World {
    root: tempfile::TempDir,
}

impl World {
    /// `with_links`: what is in the target leads out of it.
    fn new(with_links: bool) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("outside/a")).unwrap();
        fs::create_dir_all(root.path().join("target/a")).unwrap();
        fs::write(root.path().join("outside/victim"), "kept").unwrap();
        fs::write(root.path().join("target/file"), "old").unwrap();
        if with_links {
            symlink(root.path().join("outside"), root.path().join("target/link")).unwrap();
            symlink("..", root.path().join("target/up")).unwrap();
            symlink("../../outside/victim", root.path().join("target/a/link")).unwrap();
        }
        Self { root }
    }

    fn target(&self) -> PathBuf {
        self.root.path().join("target")
    }

    /// All beside the target, with its content and its number of names.
    fn beside(&self) -> Vec<(PathBuf, String, u64)> {
        use std::os::unix::fs::MetadataExt;
        let mut found = Vec::new();
        let mut pending = vec![self.root.path().to_owned()];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let about = fs::symlink_metadata(&path).unwrap();
                if about.is_dir() && path != self.target() {
                    pending.push(path.clone());
                }
                let links = if path == self.target() { 0 } else { about.nlink() };
                found.push((path.clone(), fs::read_to_string(&path).unwrap_or_default(), links));
            }
        }
        found.sort();
        found
    }
}

fn each_link(folder: &Path, see: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_symlink() {
            see(&path);
        } else if about.is_dir() {
            each_link(&path, see);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_ever_written_outside_the_target(members in vec(hostile(), 1..6)) {
        let world = World::new(true);
        let before = world.beside();
        let result = unpack(Cursor::new(packed(&members)), &world.target(), LIMITS, |_| true);
        prop_assert_eq!(world.beside(), before, "{:?}", result);
    }

    #[test]
    fn no_link_of_an_archive_leads_out_of_the_target(members in vec(hostile(), 1..6)) {
        let world = World::new(false);
        let _ = unpack(Cursor::new(packed(&members)), &world.target(), LIMITS, |_| true);
        let target = world.target().canonicalize().unwrap();
        let mut away = Vec::new();
        each_link(&target, &mut |link| match link.canonicalize() {
            Ok(place) if !place.starts_with(&target) => away.push(link.to_owned()),
            _ => {}
        });
        prop_assert!(away.is_empty(), "{:?}", away);
    }

    #[test]
    fn no_bytes_at_all_make_it_panic_or_write_elsewhere(bytes in vec(any::<u8>(), 0..2000)) {
        let world = World::new(true);
        let before = world.beside();
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&bytes).unwrap();
        let _ = unpack(Cursor::new(packed.finish().unwrap()), &world.target(), LIMITS, |_| true);
        let _ = unpack(Cursor::new(bytes), &world.target(), LIMITS, |_| true);
        prop_assert_eq!(world.beside(), before);
    }
}
