//! The orderly end: SIGTERM or SIGINT stops the work, the Lease is released, traces are flushed, and the process is gone
//! within a second.

use std::{process::exit, time::Duration};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long an orderly end takes at most. Its parts are bounded so that they fit: the end of the work
/// ([`crate::lease::END_LIMIT`]), the release ([`crate::lease::RELEASE_LIMIT`]) and the flush of traces
/// ([`crate::telemetry::FLUSH_LIMIT`]).
pub const LIMIT: Duration = Duration::from_secs(1);
/// When a process that has not ended is ended with code 1. Twice the limit: a slow machine is no hang.
const WATCHDOG: Duration = Duration::from_secs(2);

/// A token that is cancelled by the first SIGTERM or SIGINT. A second signal ends the process at once with code 1, and
/// so does a shutdown that hangs: an own end is better than waiting for the kubelet's SIGKILL half a minute later.
///
/// # Errors
/// The handlers cannot be installed.
pub fn on_signals() -> std::io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::spawn(watch(token.clone(), terminate, interrupt));
    Ok(token)
}

async fn watch(token: CancellationToken, mut terminate: Signal, mut interrupt: Signal) {
    let name = next(&mut terminate, &mut interrupt).await;
    tracing::info!(signal = name, "shutting down");
    token.cancel();
    tokio::select! {
        name = next(&mut terminate, &mut interrupt) => tracing::warn!(signal = name, "second signal: ending at once"),
        () = tokio::time::sleep(WATCHDOG) => tracing::error!("shutdown hangs: ending at once"),
    }
    exit(1)
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
