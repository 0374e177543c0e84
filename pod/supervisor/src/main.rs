//! `ai-agent-supervisor`, the first process of an agent's container: it starts the agent's CLI, passes on what that
//! prints, and ends with its code, whatever the CLI does. Contract: `docs/contract/agents.md` section 9, and
//! `docs/contract/vendor-clis.md` section 3, which wins where the two differ.
//!
//! It runs inside arbitrary images and depends on nothing from them. SIGPIPE is ignored from the start, as in every Rust
//! program, and not for what it starts.

mod archive;
mod bounds;
mod child;
mod config;
mod conversation;
mod ending;
mod files;
mod pump;
mod run;
mod signals;
mod upload;
mod watch;

use signalbox_output::log_to_stderr;

/// One worker is enough: what blocks has threads of its own.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let code = match config::Args::parse(std::env::args_os().skip(1)) {
        Some(args) => {
            log_to_stderr();
            run::run(args).await.unwrap_or_else(|error| {
                tracing::error!("cannot listen for signals: {error}");
                1
            })
        }
        None => {
            eprintln!("{}", config::USAGE);
            2
        }
    };
    // Not by returning: that would wait for readers that a grandchild of the CLI may keep for ever.
    std::process::exit(code)
}
