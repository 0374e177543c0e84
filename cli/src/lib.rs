//! `kubectl signalbox`, for people: start runs and follow them, and see why they are where they are. `docs/cli.md`.
//!
//! One file a command. Each has a `view`, a pure function from objects to what is shown, and a thin part with the client.
//! Nothing here decides anything about runs: that is the services' business, and their rules are asked in
//! `signalbox-agents`.

mod args;
mod cancel;
mod doctor;
mod explain;
mod fault;
mod fetch;
#[cfg(test)]
mod fixture;
mod follow;
mod line;
mod logs;
mod out;
mod parameters;
mod pods;
mod prune;
mod run;
mod session;
mod text;
mod top;
mod version;

use std::process::ExitCode;

pub use args::Cli;
use args::Command;
use fault::Usage;

/// Exit code of an error.
const FAILED: u8 = 1;
/// Exit code of arguments that make no sense; clap's own.
const MISUSED: u8 = 2;
/// Exit code of a reader that went away, as a shell has it: 128 + SIGPIPE.
const PIPE_CLOSED: u8 = 141;

/// Runs the command and says on standard error why it failed. The exit code is 0, 1 for errors, 2 for usage, or that of
/// the run that was followed.
pub async fn run(cli: Cli) -> ExitCode {
    // An error means that it was done before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed = match dispatch(cli).await {
        Ok(code) => return ExitCode::from(code),
        Err(failed) => failed,
    };
    if out::is_closed(&failed) {
        return ExitCode::from(PIPE_CLOSED);
    }
    eprintln!("error: {}", text::clean_block(&format!("{failed:#}")));
    ExitCode::from(if failed.is::<Usage>() { MISUSED } else { FAILED })
}

async fn dispatch(cli: Cli) -> anyhow::Result<u8> {
    let at = cli.connection;
    match cli.command {
        Command::Run(args) => run::run(&at, args).await,
        Command::Logs(args) => logs::run(&at, args).await,
        Command::Explain(args) => explain::run(&at, args).await,
        Command::Top(args) => top::run(&at, args).await,
        Command::Prune(args) => prune::run(&at, args).await,
        Command::Cancel(args) => cancel::run(&at, args).await,
        Command::Doctor(args) => doctor::run(&at, args).await,
        Command::Completion { shell } => version::completion(shell),
        Command::Version(args) => version::run(&args),
    }
}
