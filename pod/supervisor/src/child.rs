//! The CLI's process and all that it starts.

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::Path,
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, set_child_subreaper, wait};
use tokio::net::unix::pipe::Receiver;

use crate::{config::Args, ending::Exit};

/// The running CLI.
pub(crate) struct Agent {
    pid: Pid,
}

/// Why the CLI does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is no such program, on `PATH` or as a path.
    #[error("{0}: not found")]
    NotFound(String),
    /// It cannot be started.
    #[error("{0}: {1}")]
    Spawn(String, #[source] io::Error),
}

impl Error {
    /// The reason in the event.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "not-found",
            Self::Spawn(..) => "spawn",
        }
    }
}

impl Agent {
    /// Starts the CLI as the leader of a process group of its own, with nothing on standard input. Gives it with the
    /// read ends of its standard output and standard error. From now on orphans become ours, to be reaped.
    pub(crate) fn start(args: &Args) -> Result<(Self, Receiver, Receiver), Error> {
        let name = || args.program.to_string_lossy().into_owned();
        let mut command = Command::new(&args.program);
        command.args(&args.arguments).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Refused only by kernels that are too old to run any of this.
        let _ = set_child_subreaper(Some(rustix::process::getpid()));
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if !exists(&args.program) => Error::NotFound(name()),
            _ => Error::Spawn(name(), error),
        })?;
        let agent = Self { pid: Pid::from_child(&child) };
        let receiver = |pipe: Option<OwnedFd>| {
            let pipe = pipe.ok_or_else(|| io::Error::other("no pipe"))?;
            Receiver::from_owned_fd(pipe)
        };
        let stdout = receiver(child.stdout.take().map(OwnedFd::from));
        let stderr = receiver(child.stderr.take().map(OwnedFd::from));
        match (stdout, stderr) {
            (Ok(stdout), Ok(stderr)) => Ok((agent, stdout, stderr)),
            (Err(error), _) | (_, Err(error)) => {
                agent.signal(Signal::KILL);
                Err(Error::Spawn(name(), error))
            }
        }
    }

    /// Sends a signal to the CLI's process group. That it may be empty by now is no error.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Reaps every process that has ended, the orphans that came to us as well; how the CLI ended, if it is among them.
    pub(crate) fn reap(&self) -> Option<Exit> {
        let mut exit = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.pid {
                exit = status.terminating_signal().map(Exit::Signal).or(status.exit_status().map(Exit::Code));
            }
        }
        exit
    }
}

/// Whether a program of that name is there, as a path or on `PATH`. One that is there and could not be started lacks its
/// interpreter or loader, which is not the same trouble.
fn exists(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return Path::new(program).exists();
    }
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}
