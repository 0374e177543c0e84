//! A run of the initializer in folders of its own.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Init {
    folder: TempDir,
    command: Command,
}

/// What a run has left behind.
pub struct Ended {
    pub code: i32,
    pub events: Vec<Value>,
    pub log: String,
}

impl Init {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["agent", "workspace"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("staged"), "supervisor").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ai-agent-init"));
        command.env_clear();
        command.arg("--agent-dir").arg(folder.path().join("agent"));
        command.arg("--staged-supervisor").arg(folder.path().join("staged"));
        command.env("HOME", folder.path().join("agent")).env("WORKSPACE_DIR", folder.path().join("workspace"));
        command.env("AGENT_MODEL", "exec");
        Self { folder, command }
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// A hidden argument.
    pub fn arg(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(name).arg(value);
        self
    }

    /// A place beside home and workspace.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    pub fn repos(self, repos: &Value) -> Self {
        self.env("AGENT_REPOS", &repos.to_string())
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    pub fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    pub fn run(&mut self) -> Ended {
        self.run_until(|_, _| ())
    }

    /// Runs it; `at` sees each event as it comes, and the process id.
    pub fn run_until(&mut self, at: impl Fn(&Value, rustix::process::Pid)) -> Ended {
        let log = self.folder.path().join("log");
        let mut child = self.command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let events = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).inspect(|event| at(event, pid));
        let events = events.collect();
        let status = child.wait().unwrap();
        let code = status.code().unwrap_or_else(|| -status.signal().unwrap());
        Ended { code, events, log: fs::read_to_string(log).unwrap() }
    }
}

impl Ended {
    /// The tools that said that they run, in order.
    pub fn tools(&self) -> Vec<&str> {
        let running = self.events.iter().filter(|event| event["status"] == "running");
        running.map(|event| event["tool"].as_str().unwrap()).collect()
    }

    pub fn last(&self) -> &Value {
        self.events.last().unwrap()
    }

    pub fn assert_succeeded(&self) {
        let succeeded = json!({"kind": "lifecycle", "phase": "init", "status": "succeeded"});
        assert_eq!((self.code, self.last()), (0, &succeeded), "{}", self.log);
    }

    pub fn assert_failed(&self, code: i32, what: &Value) {
        let mut failed = json!({"kind": "lifecycle", "phase": "init", "status": "failed", "exitCode": code});
        failed.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
        assert_eq!((self.code, self.last()), (code, &failed), "{}", self.log);
    }
}

/// Runs git in `folder` without any configuration but the folder's own, and gives its output, or its log where it fails.
pub fn git(folder: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    // The clones belong to the agent's user where the tests run as root.
    let author = ["-c", "safe.directory=*", "-c", "user.name=t", "-c", "user.email=t@t.invalid"];
    command.current_dir(folder).args(author).args(["-c", "init.defaultBranch=main"]).args(arguments);
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_TERMINAL_PROMPT", "0");
    command.env_remove("GH_TOKEN").envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}
