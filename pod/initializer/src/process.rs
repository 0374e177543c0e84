//! Programs of this image that a step needs: package managers and the vendors' installers.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{process::Command, time::timeout};

use crate::redact;

/// The exit code of a program that cannot be started.
const SPAWN_FAILED: i32 = 1;
/// The exit code of a step whose program is missing.
pub(crate) const MISSING: i32 = 2;
/// How long a CLI may take to tell its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(10);
/// What of this program's environment a step gets: not the run's secrets, which it has no use for.
const PASSED_ON: &[&str] = &[
    "HOME",
    "LANG",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// One program with its arguments. No value of a recipe is among them.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    program: &'a Path,
    arguments: Vec<&'a OsStr>,
    search: OsString,
    input: Option<File>,
}

impl<'a> Step<'a> {
    /// A program that finds others on `search`.
    pub(crate) fn new(program: &'a Path, search: &OsStr) -> Self {
        Self { program, arguments: Vec::new(), search: search.to_owned(), input: None }
    }

    /// The same with arguments.
    pub(crate) fn with(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments.extend(arguments.into_iter().map(OsStr::new));
        self
    }

    /// The same with a standard input, which is otherwise empty.
    pub(crate) fn with_input(mut self, input: File) -> Self {
        self.input = Some(input);
        self
    }

    /// Runs it to its end, in the log's own stream.
    ///
    /// # Errors
    /// Its exit code, where that is not 0; 128+n for signal n.
    pub(crate) async fn run(self) -> Result<(), i32> {
        let line = redact::addresses(&self.to_string());
        tracing::info!("running {line}");
        let mut command = self.command();
        let input = self.input.map_or_else(Stdio::null, Stdio::from);
        // Standard output is for events alone.
        command.stdin(input).stdout(io::stderr()).stderr(io::stderr());
        let mut child = command.spawn().map_err(|error| {
            tracing::error!("{line}: {error}");
            if error.kind() == io::ErrorKind::NotFound { MISSING } else { SPAWN_FAILED }
        })?;
        let _group = Group(child.id());
        let code = child.wait().await.map_or(SPAWN_FAILED, code);
        if code == 0 {
            return Ok(());
        }
        tracing::error!("{line}: exit code {code}");
        Err(code)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(&self.arguments).env_clear().process_group(0).kill_on_drop(true);
        command.envs(PASSED_ON.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("PATH", &self.search).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }
}

impl std::fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", argument.display()))
    }
}

/// The version that a CLI gives: the first word that looks like one. None where it does not say in time.
pub(crate) async fn version(program: &Path, search: &OsStr) -> Option<String> {
    let mut command = Step::new(program, search).with(["--version"]).command();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().ok()?;
    let _group = Group(child.id());
    let output = timeout(VERSION_PATIENCE, child.wait_with_output()).await.ok()?.ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().find(|word| is_version(word)).map(str::to_owned)
}

fn is_version(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.') && word.len() <= 64
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(SPAWN_FAILED)
}

/// A step's process group: nothing of it outlives the step, which may be given up at the deadline.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0.and_then(|id| Pid::from_raw(id.cast_signed())) {
            // Nothing is left of most.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2.1.332", true)]
    #[case("0.62.0-nightly.1", true)]
    #[case("(Claude", false)]
    #[case("codex-cli", false)]
    #[case("7", false)]
    fn a_version_looks_like_one(#[case] word: &str, #[case] version: bool) {
        assert_eq!(is_version(word), version);
    }
}
