//! A run of the supervisor over a shell script.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const OK: &str = r#"{"type":"result","is_error":false}"#;
pub const BAD: &str = r#"{"type":"result","is_error":true}"#;

pub struct Supervisor {
    folder: TempDir,
    command: Command,
}

/// What a run has left behind.
pub struct Ended {
    pub code: i32,
    /// Standard output, line by line.
    pub lines: Vec<Vec<u8>>,
    /// Standard error.
    pub log: String,
    pub took: Duration,
}

impl Supervisor {
    /// Over `sh -c script`, whose arguments `$1` and `$2` are a good and a bad result.
    pub fn over(script: &str) -> Self {
        Self::of(&["sh", "-c", script, "sh", OK, BAD])
    }

    pub fn of(argv: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ai-agent-supervisor"));
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("AGENT_MODEL", "exec");
        command.arg("--agent-dir").arg(folder.path()).arg("--").args(argv);
        Self { folder, command }
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// As if Claude Code ran.
    pub fn claude(self) -> Self {
        self.env("AGENT_MODEL", "claude-opus-5-5")
    }

    pub fn grace(self, milliseconds: u64) -> Self {
        self.env("AGENT_EXIT_GRACE_MS", &milliseconds.to_string())
    }

    pub fn deadline(self, milliseconds: u64) -> Self {
        self.env("AGENT_DEADLINE_MS", &milliseconds.to_string())
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn run(self) -> Ended {
        self.run_at(|_, _| ())
    }

    /// Runs it and sends it `signal` as soon as the script prints `ready`.
    pub fn run_with(self, signal: Signal) -> Ended {
        self.run_at(|line, pid| {
            if line == b"ready" {
                kill_process(pid, signal).unwrap();
            }
        })
    }

    /// Runs it and calls `at` with each line that it prints.
    pub fn run_at(mut self, at: impl Fn(&[u8], Pid)) -> Ended {
        let log = self.folder.path().join("log");
        let start = Instant::now();
        let mut child = self.command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let lines = BufReader::new(child.stdout.take().unwrap()).split(b'\n').map(Result::unwrap);
        let lines = lines.inspect(|line| at(line, pid)).collect();
        let status = child.wait().unwrap();
        let code = status.code().unwrap_or_else(|| -status.signal().unwrap());
        let log = String::from_utf8_lossy(&fs::read(log).unwrap()).into_owned();
        Ended { code, lines, log, took: start.elapsed() }
    }
}

impl Ended {
    /// What the script printed: all but the events of the supervisor, which come first and last.
    pub fn printed(&self) -> Vec<String> {
        let own = &self.lines[1..self.lines.len() - 1];
        own.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    pub fn last(&self) -> Value {
        serde_json::from_slice(self.lines.last().unwrap()).unwrap()
    }

    /// The run started and ended with that code, and the last event says so.
    pub fn assert_ended(&self, code: i32) {
        let started = json!({"kind": "lifecycle", "phase": "agent", "status": "started"});
        assert_eq!(serde_json::from_slice::<Value>(&self.lines[0]).unwrap(), started);
        self.assert_last(code, &json!({}));
    }

    pub fn assert_last(&self, code: i32, more: &Value) {
        let status = if code == 0 { "succeeded" } else { "failed" };
        let mut event = json!({"kind": "lifecycle", "phase": "agent", "status": status, "exitCode": code});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!((self.code, self.last()), (code, event), "{}", self.log);
    }

    pub fn assert_took(&self, from: u64, to: u64) {
        let took = self.took.as_millis();
        assert!((u128::from(from)..u128::from(to)).contains(&took), "took {took} ms, not {from}..{to}; {}", self.log);
    }
}

/// Waits until the process is gone, a zombie counting as gone.
pub fn assert_gone(pid: &str) {
    let end = Instant::now() + Duration::from_secs(5);
    let alive = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    };
    while alive() {
        assert!(Instant::now() < end, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}
