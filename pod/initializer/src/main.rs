//! `ai-agent-init`, the init container of a run: it prepares the agent's home and workspace, then ends, and the agent's
//! own container starts. Contract: `docs/contract/agents.md` section 10.
//!
//! Everything is done in process, since the image holds nothing but static programs. SIGPIPE is ignored from the start,
//! as in every Rust program.

mod config;
mod files;
mod git;
mod prepare;
mod redact;
mod run;

use clap::Parser;
use signalbox_output::log_to_stderr;

/// One worker is enough: what blocks has threads of its own.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args = config::Args::parse();
    log_to_stderr();
    let code = run::run(&args).await.unwrap_or_else(|error| {
        tracing::error!("cannot listen for signals: {error}");
        1
    });
    // Not by returning: that would wait for threads that a deadline or a signal has left behind.
    std::process::exit(code)
}
