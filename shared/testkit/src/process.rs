use std::{
    ffi::OsStr,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::process::{Pid, Signal, kill_process};

/// Starts the program, says its pid, and kills it once standard input closes: that is when our process lets go of the
/// pipe or ends in whatever way, a SIGKILL included. Interrupts are not for the wrapper: Ctrl-C reaches it too.
const WRAPPER: &str = r#"
trap '' INT HUP
exec 3<&0
log=$1
shift
"$@" 3<&- </dev/null >>"$log" 2>&1 &
child=$!
echo "$child"
exec 2>/dev/null
{ read -r _ <&3; kill -9 "$child"; } &
watcher=$!
wait "$child"
code=$?
kill "$watcher"
exit "$code"
"#;

/// Removes a directory once standard input closes. Tried for a while, since those who write into it end at the same time.
const JANITOR: &str = r#"
trap '' INT HUP
read -r _
tries=0
until rm -rf "$1" 2>/dev/null || [ "$tries" -ge 50 ]; do
  tries=$((tries + 1))
  sleep 0.1
done
"#;

/// A child process that never outlives ours. Statics are not dropped and a test process may be killed, so its end hangs
/// on a pipe and not on code of ours.
pub struct Process {
    wrapper: Mutex<Child>,
    pid: Pid,
    log: PathBuf,
}

impl Process {
    /// Starts `program`, its output going to `log`.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start<A: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = A>, log: &Path) -> Self {
        let mut wrapper = Command::new("sh")
            .args(["-c", WRAPPER, "wrapper"])
            .arg(log)
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let mut line = String::new();
        BufReader::new(wrapper.stdout.take().expect("piped")).read_line(&mut line).expect("the wrapper says a pid");
        let pid = line.trim().parse().ok().and_then(Pid::from_raw).expect("the wrapper says a pid");
        Self { wrapper: Mutex::new(wrapper), pid, log: log.to_owned() }
    }

    /// Whether it still runs (or is stopped).
    pub fn is_running(&self) -> bool {
        matches!(self.wrapper().try_wait(), Ok(None))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&self) {
        let mut wrapper = self.wrapper();
        drop(wrapper.stdin.take());
        let _ = wrapper.wait();
    }

    /// SIGTERM; it may take its time.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// SIGSTOP: it answers nothing, and its connections stay open.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT, after [`Process::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// The end of its output, for the message of a failed test.
    pub fn log_tail(&self) -> String {
        let text =
            std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        text[text.floor_char_boundary(text.len().saturating_sub(4000))..].to_owned()
    }

    fn signal(&self, signal: Signal) {
        // Under the lock, so that the pid is not one that was waited for and given to another process.
        let mut wrapper = self.wrapper();
        if matches!(wrapper.try_wait(), Ok(None)) {
            let _ = kill_process(self.pid, signal);
        }
    }

    fn wrapper(&self) -> MutexGuard<'_, Child> {
        self.wrapper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A directory that is removed when it is dropped or our process ends, like [`Process`].
pub struct TempDir {
    path: PathBuf,
    janitor: Child,
}

impl TempDir {
    /// A new directory that only we can read.
    ///
    /// # Panics
    /// It cannot be made.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("signalbox-{name}-{:016x}", rand::random::<u64>()));
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&path)
            .expect("a temporary directory");
        let janitor = Command::new("sh")
            .args(["-c", JANITOR, "janitor"])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh starts");
        Self { path, janitor }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file in it and returns its path.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        std::fs::write(&path, text).expect("a file in the temporary directory");
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}
