//! The program as a process.

use std::{
    path::Path,
    process::{ExitStatus, Output, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use signalbox_testkit::wait_for;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};

/// How long anything here may take; only a failure takes it.
pub const LIMIT: Duration = Duration::from_secs(30);
/// The program.
pub const EXE: &str = env!("CARGO_BIN_EXE_kubectl-signalbox");

/// The program with its arguments, away from the settings of whoever runs the tests.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(EXE);
    command.args(args).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs it to its end.
pub async fn run(args: &[&str]) -> Ran {
    let output = tokio::time::timeout(LIMIT, command(args).output()).await.expect("it ends").unwrap();
    Ran::of(&output)
}

/// What a program that has ended has said.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// The standard output of a program that succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// The standard error of a program that failed with `code`.
    #[track_caller]
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.stderr
    }
}

/// The program while it runs.
pub struct Running {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl Running {
    pub fn start(kubeconfig: &Path, namespace: &str, args: &[&str]) -> Self {
        let kubeconfig = kubeconfig.to_str().unwrap();
        let mut command = command(&[args, &["-n", namespace, "--kubeconfig", kubeconfig]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = collect(child.stdout.take().unwrap());
        let stderr = collect(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    pub fn stdout(&self) -> String {
        self.stdout.lock().unwrap().clone()
    }

    pub fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until standard output has the text.
    pub async fn shows(&self, text: &str) {
        self.has(text, Self::stdout).await;
    }

    /// Waits until standard error has the text.
    pub async fn notes(&self, text: &str) {
        self.has(text, Self::stderr).await;
    }

    async fn has(&self, text: &str, stream: impl Fn(&Self) -> String) {
        wait_for(&format!("the program says {text:?}"), LIMIT, || async {
            let said = stream(self);
            if said.contains(text) { Ok(()) } else { Err((self.stdout(), self.stderr())) }
        })
        .await;
    }

    /// What Ctrl-C does where the program is alone in the foreground.
    pub fn interrupt(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, Signal::INT).unwrap();
    }

    /// Waits for its end.
    pub async fn end(mut self) -> Ran {
        let status: ExitStatus = match tokio::time::timeout(LIMIT, self.child.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("it does not end; stdout: {}\nstderr: {}", self.stdout(), self.stderr()),
        };
        // The pipes are read to their ends by then or soon.
        let readers = [self.stdout.clone(), self.stderr.clone()];
        let (stdout, stderr) = (readers[0].clone(), readers[1].clone());
        drop((self, readers));
        wait_for("its output is read", LIMIT, || async {
            if Arc::strong_count(&stdout) == 1 && Arc::strong_count(&stderr) == 1 { Ok(()) } else { Err("not yet") }
        })
        .await;
        let text = |text: Arc<Mutex<String>>| text.lock().unwrap().clone();
        Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

fn collect(mut from: impl AsyncRead + Unpin + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let to = text.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            to.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    });
    text
}
