use std::{
    ffi::OsStr,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use tar::{Entry, EntryType, Header, PaxExtensions};

use super::{Error, Limits, Refusal};

/// The longest extension of a header that is read: it is held in memory, and no path is as long.
const MAX_EXTENSION: u64 = 64 * 1024;

/// A member that may be written below the target, wherever that is.
#[derive(Debug)]
pub(crate) struct Member {
    /// Its name as the archive has it.
    pub(crate) name: String,
    /// Its place below the target; empty for the target itself.
    pub(crate) path: PathBuf,
    pub(crate) kind: Kind,
    /// The permissions, without set-id bits, and enough for the owner to read and write.
    pub(crate) mode: u32,
    /// Seconds since 1970.
    pub(crate) modified: u64,
}

/// What a member is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    File,
    Symlink(PathBuf),
    Hardlink(PathBuf),
}

/// What the entries before a member say of it: its own header has too little room.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    sparse: bool,
    size: Option<u64>,
}

/// Visits the members of an archive in their order, each checked, with its content.
///
/// # Errors
/// The first member that is refused, or what `visit` says.
pub(crate) fn each(
    archive: impl Read,
    limits: Limits,
    mut visit: impl FnMut(&Member, &mut dyn Read) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut archive = tar::Archive::new(MultiGzDecoder::new(archive));
    let mut extension = Extension::default();
    let (mut entries, mut bytes) = (0, 0_u64);
    // Raw, since the library would read an extension of any size into memory.
    for entry in archive.entries().map_err(Error::Read)?.raw(true) {
        let mut entry = entry.map_err(Error::Read)?;
        let refused = |entry: &Entry<'_, _>, refusal| {
            let name = extension.path.clone().unwrap_or_else(|| entry.path_bytes().into_owned());
            Error::Member { name: text(&name), refusal }
        };
        entries += 1;
        bytes = bytes.saturating_add(entry.size());
        // Before its content is read, or skipped, which costs as much.
        if entries > limits.members {
            return Err(refused(&entry, Refusal::Members(limits.members)));
        } else if bytes > limits.bytes {
            return Err(refused(&entry, Refusal::Bytes(limits.bytes)));
        }
        if is_extension(entry.header().entry_type()) {
            if entry.size() > MAX_EXTENSION {
                return Err(refused(&entry, Refusal::LongName));
            }
            extension.take_in(&mut entry)?;
            continue;
        }
        let member = member(entry.header(), entry.size(), &extension).map_err(|refusal| refused(&entry, refusal))?;
        extension = Extension::default();
        visit(&member, &mut entry)?;
    }
    if entries == 0 { Err(Error::Empty) } else { Ok(()) }
}

fn is_extension(kind: EntryType) -> bool {
    kind.is_gnu_longname()
        || kind.is_gnu_longlink()
        || kind.is_pax_local_extensions()
        || kind.is_pax_global_extensions()
}

impl Extension {
    fn take_in(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<(), Error> {
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(Error::Read)?;
        let kind = entry.header().entry_type();
        if kind.is_pax_local_extensions() {
            return self.take_in_records(&content);
        }
        while content.last() == Some(&0) {
            content.pop();
        }
        if kind.is_gnu_longname() {
            self.path = Some(content);
        } else if kind.is_gnu_longlink() {
            self.link = Some(content);
        }
        Ok(())
    }

    fn take_in_records(&mut self, content: &[u8]) -> Result<(), Error> {
        for record in PaxExtensions::new(content) {
            let record = record.map_err(Error::Read)?;
            match record.key_bytes() {
                b"path" => self.path = Some(record.value_bytes().to_vec()),
                b"linkpath" => self.link = Some(record.value_bytes().to_vec()),
                b"size" => {
                    self.size = std::str::from_utf8(record.value_bytes()).ok().and_then(|size| size.parse().ok())
                }
                key if key.starts_with(b"GNU.sparse.") => self.sparse = true,
                _ => {}
            }
        }
        Ok(())
    }
}

fn member(header: &Header, size: u64, extension: &Extension) -> Result<Member, Refusal> {
    let name = extension.path.clone().unwrap_or_else(|| header.path_bytes().into_owned());
    // Another size than the header's would be a way to hide members from one of two readers.
    if extension.sparse || extension.size.is_some_and(|stated| stated != size) {
        return Err(Refusal::Sparse);
    }
    let path = below(&name).ok_or(Refusal::Outside)?;
    let link = || extension.link.clone().or_else(|| header.link_name_bytes().map(|link| link.into_owned()));
    let kind = match header.entry_type() {
        // The oldest archives have no other sign of a folder.
        EntryType::Regular if name.ends_with(b"/") => Kind::Folder,
        EntryType::Regular | EntryType::Continuous => Kind::File,
        EntryType::Directory => Kind::Folder,
        EntryType::Symlink => Kind::Symlink(symlink_target(&path, &link().unwrap_or_default())?),
        EntryType::Link => Kind::Hardlink(
            below(&link().unwrap_or_default())
                .filter(|target| target.file_name().is_some())
                .ok_or(Refusal::LinkOutside)?,
        ),
        EntryType::GNUSparse => return Err(Refusal::Sparse),
        _ => return Err(Refusal::Kind),
    };
    if path.as_os_str().is_empty() && kind != Kind::Folder {
        return Err(Refusal::Outside);
    }
    let owner = if kind == Kind::Folder { 0o700 } else { 0o600 };
    let mode = header.mode().unwrap_or(0o644) & 0o777 | owner;
    Ok(Member { name: text(&name), path, kind, mode, modified: header.mtime().unwrap_or_default() })
}

/// The place below the target that a name means; none where it is absolute, has a `..`, or is no path at all.
fn below(name: &[u8]) -> Option<PathBuf> {
    if name.is_empty() || name.contains(&0) {
        return None;
    }
    let mut path = PathBuf::new();
    for component in Path::new(OsStr::from_bytes(name)).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// The target of a symbolic link at `path`. It may start with as many `..` as there are folders above the link, since
/// those are real ones; a `..` behind another link leads nobody knows where, so a later one is refused.
fn symlink_target(path: &Path, target: &[u8]) -> Result<PathBuf, Refusal> {
    let target_path = Path::new(OsStr::from_bytes(target));
    let above = path.components().count().saturating_sub(1);
    let ups = target_path.components().take_while(|component| *component == Component::ParentDir).count();
    let downs_only = target_path
        .components()
        .skip(ups)
        .all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    let is_path = !target.is_empty() && !target.contains(&0);
    (is_path && ups <= above && downs_only).then(|| target_path.to_owned()).ok_or(Refusal::LinkOutside)
}

/// A name for people.
fn text(name: &[u8]) -> String {
    /// As much of a name as a line of the log needs.
    const SHOWN: usize = 200;
    let name = String::from_utf8_lossy(name);
    name[..name.floor_char_boundary(SHOWN)].to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a/b", Some("a/b"))]
    #[case("./a//b/", Some("a/b"))]
    #[case("./", Some(""))]
    #[case("..", None)]
    #[case("a/../b", None)]
    #[case("/etc/passwd", None)]
    #[case("a\0b", None)]
    #[case("", None)]
    fn a_name_is_a_place_below_the_target_or_nothing(#[case] name: &str, #[case] path: Option<&str>) {
        assert_eq!(below(name.as_bytes()), path.map(PathBuf::from));
    }

    #[rstest]
    #[case("link", "file", true)]
    #[case("a/b/link", "../../file", true)]
    #[case("a/link", "..", true)]
    #[case("link", "..", false)]
    #[case("a/link", "../../file", false)]
    #[case("link", "/etc/passwd", false)]
    // `a` may be a link itself, and then `a/..` is not here.
    #[case("link", "a/../b", false)]
    #[case("link", "", false)]
    fn a_link_stays_below_the_target(#[case] path: &str, #[case] target: &str, #[case] stays: bool) {
        assert_eq!(symlink_target(Path::new(path), target.as_bytes()).is_ok(), stays);
    }
}
