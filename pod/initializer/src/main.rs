//! `ai-agent-init`, the init container of a run: it prepares the agent's home and workspace, then ends, and the agent's
//! own container starts. Contract: `docs/contract/agents.md` section 10.
//!
//! Everything but a vendor's own installer is done in process, since the image holds nothing but static programs.
//! SIGPIPE is ignored from the start, as in every Rust program.

mod archive;
mod beneath;
mod cli;
mod config;
mod conversation;
mod copy;
mod fetch;
mod files;
mod git;
mod inputs;
mod packages;
mod paths;
mod prepare;
mod process;
mod redact;
mod run;
mod settings;
mod skills;

use clap::Parser;
use signalbox_output::log_to_stderr;

/// One worker is enough: what blocks has threads of its own.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args = config::Args::parse();
    let code = match &args.command {
        Some(config::Command::GitCredential(asked)) => git::broker::helper(asked).await,
        None => prepare_the_run(&args).await,
    };
    // Not by returning: that would wait for threads that a deadline or a signal has left behind.
    std::process::exit(code)
}

async fn prepare_the_run(args: &config::Args) -> i32 {
    log_to_stderr();
    run::run(args).await.unwrap_or_else(|error| {
        tracing::error!("cannot listen for signals: {error}");
        1
    })
}
