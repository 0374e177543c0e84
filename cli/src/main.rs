//! `kubectl signalbox`: see `docs/cli.md`.

use std::process::ExitCode;

use clap::Parser;
use signalbox_cli::Cli;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    signalbox_cli::run(Cli::parse()).await
}
