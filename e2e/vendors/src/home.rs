//! A home and a workspace as the initializer leaves them, for a CLI outside of a pod.

use std::{
    fs, io,
    os::unix::fs::chown,
    path::{Path, PathBuf},
};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use signalbox_testkit::vendors::READ_FILE;
use signalbox_types::{PermissionMode, names};
use signalbox_vendors::{Vendor, claude, codex, gemini, state_paths};
use tempfile::TempDir;

use crate::cases::Case;

/// The user of run pods.
pub(crate) const AGENT: u32 = 1000;

/// Folders of one case; they go with it.
pub(crate) struct Home {
    root: TempDir,
    /// In place of `/agent`.
    pub(crate) agent: PathBuf,
    /// In place of `/workspace`.
    pub(crate) workspace: PathBuf,
    /// In place of `/tmp`.
    pub(crate) tmp: PathBuf,
}

impl Home {
    /// The folders with what the CLI's settings have to be, `url` being the address of its vendor.
    ///
    /// # Errors
    /// Something cannot be written.
    pub(crate) fn new(case: &Case, url: &str) -> anyhow::Result<Self> {
        let root = tempfile::tempdir()?;
        let folder = |name: &str| root.path().join(name);
        let home = Self { agent: folder("agent"), workspace: folder("workspace"), tmp: folder("tmp"), root };
        for folder in [&home.agent, &home.workspace, &home.tmp] {
            fs::create_dir(folder)?;
        }
        fs::write(home.workspace.join(READ_FILE), "a note\n")?;
        home.configure(case, url)?;
        Ok(home)
    }

    /// The same with what is needed to resume a session and nothing else of the home.
    ///
    /// # Errors
    /// Something cannot be moved or written.
    pub(crate) fn afresh(&self, case: &Case, url: &str) -> anyhow::Result<()> {
        let old = self.root.path().join("old");
        fs::rename(&self.agent, &old)?;
        for path in state_paths(case.vendor) {
            let to = self.agent.join(path);
            fs::create_dir_all(to.parent().context("a path in the home")?)?;
            fs::rename(old.join(path), &to).with_context(|| (*path).to_owned())?;
        }
        self.configure(case, url)
    }

    /// A path of the contract as it is here; anything else as it is.
    pub(crate) fn here(&self, text: &str) -> String {
        let places = [(names::AGENT_HOME, &self.agent), (names::WORKSPACE, &self.workspace)];
        let found = places.into_iter().find_map(|(contract, here)| {
            let rest = text.strip_prefix(contract)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", here.display()))
        });
        found.unwrap_or_else(|| text.to_owned())
    }

    fn configure(&self, case: &Case, url: &str) -> anyhow::Result<()> {
        for (path, text) in &case.files {
            self.write(&self.agent.join(path), &text.replace("URL", url))?;
        }
        match case.vendor {
            Vendor::Claude => self.complete(claude::SETTINGS_PATH, |text| Ok(text.unwrap_or_else(|| "{}\n".into())))?,
            Vendor::Codex => self.complete(codex::CONFIG_PATH, |text| {
                Ok(codex::complete_config(&text.unwrap_or_default(), Some(url))?)
            })?,
            Vendor::Gemini => self.configure_gemini(case, url)?,
            Vendor::Opencode | Vendor::Exec => {}
        }
        give(self.root.path()).context("the folders cannot be given to the agent's user")
    }

    fn configure_gemini(&self, case: &Case, url: &str) -> anyhow::Result<()> {
        self.complete(gemini::EXPERIMENTS_PATH, |_| Ok(gemini::EXPERIMENTS.to_owned()))?;
        if case.recipe.permission_mode == PermissionMode::Bypass {
            self.complete(gemini::BYPASS_POLICY_PATH, |_| Ok(gemini::BYPASS_POLICY.to_owned()))?;
        }
        self.complete(gemini::SETTINGS_PATH, |text| {
            let existing = text.map_or(Ok(serde_json::Value::Null), |text| serde_json::from_str(&text))?;
            Ok(gemini::complete_settings(existing, &case.recipe.resources.mcp_servers, Some(url)).to_string())
        })
    }

    fn complete(&self, path: &str, text: impl FnOnce(Option<String>) -> anyhow::Result<String>) -> anyhow::Result<()> {
        let path = PathBuf::from(self.here(path));
        self.write(&path, &text(fs::read_to_string(&path).ok())?)
    }

    fn write(&self, path: &Path, text: &str) -> anyhow::Result<()> {
        fs::create_dir_all(path.parent().context("a file in a folder")?)?;
        fs::write(path, text).with_context(|| path.display().to_string())
    }
}

impl Drop for Home {
    /// Ends what a CLI has left running: its tools have sessions of their own, so no process group has them all.
    fn drop(&mut self) {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let is_here = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(self.root.path()));
            if let Some(pid) = pid.filter(|_| is_here) {
                // One that has just ended by itself is no loss.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Gives a folder with all in it to the user of run pods. Whoever is not root runs the CLI as himself.
fn give(path: &Path) -> io::Result<()> {
    if !is_root() {
        return Ok(());
    }
    chown(path, Some(AGENT), Some(AGENT))?;
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            if !path.is_symlink() {
                give(&path)?;
            }
        }
    }
    Ok(())
}

/// Whether we can run the CLIs as another user. claude refuses to be root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
