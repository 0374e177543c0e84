//! Skills and hooks: `docs/contract/agents.md` section 10, "skills" and "hooks". All of it is best effort: a run
//! without a skill is worth more than none.

use std::{
    cell::Cell,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use reqwest::header::HeaderMap;
use serde_json::Value;
use signalbox_vendors::Vendor;
use tokio::task::spawn_blocking;

use crate::{
    archive::{self, LIMITS},
    beneath::Folder,
    copy::{self, Links},
    fetch::{self, Fetcher, Source},
    redact,
};

/// Where skills are, below a clone and below the agent's home.
const SKILLS: &str = ".claude/skills";
/// The largest archive of a skill or of hooks, packed.
const MAX_ARCHIVE: u64 = 256 << 20;
/// The largest settings file.
const MAX_SETTINGS: u64 = 1 << 20;

/// Why a skill, or what goes with it, is not there.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Fetch(#[from] fetch::Error),
    #[error(transparent)]
    Archive(#[from] archive::Error),
    #[error("{0}")]
    Write(#[from] io::Error),
    #[error("it is no JSON object")]
    NoSettings,
}

/// A registry of skills.
pub(crate) struct Registry<'a> {
    source: Source,
    fetcher: &'a Fetcher,
    agent_dir: &'a Path,
    /// It has given no answer, and is asked for nothing more.
    silent: Cell<bool>,
}

/// Copies the skills of the clones, and of the workspace itself, into the agent's home.
pub(crate) fn copy_from_workspace(workspace: &Path, agent_dir: &Path) {
    for from in clones(workspace).into_iter().chain([workspace.to_owned()]) {
        match copy_from(&from, agent_dir) {
            Ok(0) => {}
            Ok(count) => tracing::warn!("skills of {}: {count} links and the like are left out", from.display()),
            Err(error) => tracing::warn!("skills of {} are not copied: {error}", from.display()),
        }
    }
}

/// The folders of the workspace, links left out, by name.
fn clones(workspace: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<_> = folders.map(|entry| entry.path()).collect();
    folders.sort();
    folders
}

fn copy_from(from: &Path, agent_dir: &Path) -> io::Result<u64> {
    let skills = match Folder::open(from).and_then(|folder| folder.find(Path::new(SKILLS))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        skills => skills?,
    };
    copy::tree(&skills, &Folder::open(agent_dir)?.make(Path::new(SKILLS))?, Links::LeaveOut)
}

/// A name that is one part of a path and of an address and nothing else.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain)
}

impl<'a> Registry<'a> {
    /// The registry at `url`, where there is one.
    pub(crate) fn new(url: &str, fetcher: &'a Fetcher, agent_dir: &'a Path) -> Option<Self> {
        if url.is_empty() {
            return None;
        }
        let source = Source::new(url, HeaderMap::new());
        let source = source.inspect_err(|error| tracing::warn!("AGENT_SKILLS_SOURCE is ignored: {error}")).ok()?;
        Some(Self { source, fetcher, agent_dir, silent: Cell::new(false) })
    }

    /// Fetches the settings file and the skills `names`.
    pub(crate) async fn fetch_skills(&self, names: &[String]) {
        self.tell("settings.json", self.settings().await);
        for name in names {
            let file = format!("{name}.tar.gz");
            self.archive(&[&file], SKILLS).await;
        }
    }

    /// Fetches the hooks of a vendor, which win over all that is there.
    pub(crate) async fn fetch_hooks(&self, vendor: Vendor) {
        let file = format!("{vendor}.tar.gz");
        self.archive(&["hooks", &file], "").await;
    }

    async fn settings(&self) -> Result<(), Error> {
        let source = self.source.below(["settings.json"]);
        let file = self.fetcher.fetch(&source, MAX_SETTINGS, self.agent_dir).await?;
        write_settings(file, self.agent_dir)
    }

    /// Fetches one archive to `below` the agent's home, unless the registry is known to be silent.
    async fn archive(&self, path: &[&str], below: &'static str) {
        if !self.silent.get() {
            self.tell(&path.join("/"), self.fetch_archive(path, below).await);
        }
    }

    async fn fetch_archive(&self, path: &[&str], below: &'static str) -> Result<(), Error> {
        let source = self.source.below(path.iter().copied());
        let file = self.fetcher.fetch(&source, MAX_ARCHIVE, self.agent_dir).await?;
        let agent_dir = self.agent_dir.to_owned();
        let unpack = move || -> Result<(), Error> {
            Folder::open(&agent_dir)?.make(Path::new(below))?;
            archive::unpack(file, &agent_dir.join(below), LIMITS, |_| true)?;
            Ok(())
        };
        spawn_blocking(unpack).await.unwrap_or_else(|panic| Err(io::Error::other(panic).into()))
    }

    /// Tells the log what came of one thing.
    fn tell(&self, what: &str, result: Result<(), Error>) {
        let registry = redact::addresses(self.source.url.as_str());
        match result {
            Ok(()) => tracing::info!("{what} of {registry} is in place"),
            Err(Error::Fetch(error)) if error.is_absence() => tracing::info!("{registry} has no {what}"),
            Err(Error::Fetch(error)) if error.is_silence() => {
                tracing::warn!("going on without {what} and the rest of {registry}: {error}");
                self.silent.set(true);
            }
            Err(error) => tracing::warn!("going on without {what} of {registry}: {error}"),
        }
    }
}

fn write_settings(mut file: File, agent_dir: &Path) -> Result<(), Error> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // The CLI would end without a word.
    if !serde_json::from_str::<Value>(&text).is_ok_and(|settings| settings.is_object()) {
        return Err(Error::NoSettings);
    }
    let folder = Folder::open(agent_dir)?.make(Path::new(".claude"))?;
    io::copy(&mut text.as_bytes(), &mut folder.create("settings.json".as_ref(), 0o644)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("review", true)]
    #[case("a.b_c-1", true)]
    #[case("", false)]
    #[case(".hidden", false)]
    #[case("..", false)]
    #[case("a/b", false)]
    #[case("a b", false)]
    #[case("$(id)", false)]
    fn a_skill_s_name_is_plain(#[case] name: &str, #[case] plain: bool) {
        assert_eq!(is_name(name), plain);
    }

    #[test]
    fn the_skills_of_clones_come_first_and_the_workspace_s_own_win() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, agent) = (folder.path().join("ws"), folder.path().join("agent"));
        fs::create_dir(&agent).unwrap();
        for (place, name) in [("a", "one"), ("b", "two"), (".", "two")] {
            let skill = workspace.join(place).join(SKILLS).join(name);
            fs::create_dir_all(&skill).unwrap();
            fs::write(skill.join("SKILL.md"), place).unwrap();
        }
        copy_from_workspace(&workspace, &agent);
        let read = |name: &str| fs::read_to_string(agent.join(SKILLS).join(name).join("SKILL.md")).unwrap();
        assert_eq!((read("one"), read("two")), ("a".to_owned(), ".".to_owned()));
    }

    #[test]
    fn no_link_of_a_clone_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, agent) = (folder.path().join("ws"), folder.path().join("agent"));
        fs::create_dir(&agent).unwrap();
        fs::write(folder.path().join("secret"), "s3cret").unwrap();
        fs::create_dir_all(folder.path().join("skills/stolen")).unwrap();
        fs::create_dir_all(workspace.join("a").join(SKILLS).join("own")).unwrap();
        symlink(folder.path().join("secret"), workspace.join("a").join(SKILLS).join("own/SKILL.md")).unwrap();
        symlink(folder.path(), workspace.join("a").join(SKILLS).join("away")).unwrap();
        fs::create_dir_all(workspace.join("b/.claude")).unwrap();
        symlink(folder.path().join("skills"), workspace.join("b").join(SKILLS)).unwrap();
        copy_from_workspace(&workspace, &agent);
        let skills = agent.join(SKILLS);
        assert!(skills.join("own").is_dir());
        assert!(
            !skills.join("own/SKILL.md").exists() && !skills.join("away").exists() && !skills.join("stolen").exists()
        );
    }
}
