use std::io;

use tracing::level_filters::LevelFilter;

/// Sends the log of this program to standard error, a line a message without time: the container's log has one, and it
/// is people who read it, between the lines of the agent.
pub fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(LevelFilter::INFO)
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .init();
}
