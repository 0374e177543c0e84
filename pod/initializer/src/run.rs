use std::{future::pending, io, sync::Arc, time::Duration};

use signalbox_output::{Events, Output, deadline};
use signalbox_types::{
    event::{Lifecycle, LifecycleStatus, Stage},
    names,
};
use tokio::{
    select,
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::{
    config::{Args, Config},
    prepare::{Failure, prepare},
};

/// How long the start of the agent waits for the sinks.
const FLUSH: Duration = Duration::from_secs(5);
/// The same when the pod is being ended.
const FLUSH_AT_SIGNAL: Duration = Duration::from_secs(1);
/// The exit code of a run whose deadline has passed.
const DEADLINE_CODE: i32 = 124;

/// Prepares the run; the exit code.
///
/// # Errors
/// Signals cannot be listened for.
pub(crate) async fn run(args: &Args) -> io::Result<i32> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let env = |name: &str| std::env::var(name).ok();
    let now = deadline::boottime_ms();
    // First of all, so that everything that follows counts.
    let start = deadline::keep_start(&names::beneath(&args.agent_dir, names::STARTED_STAMP_PATH), now).unwrap_or_else(
        |error| {
            tracing::warn!("the start of the run is not kept, its deadline counts from the agent's start: {error}");
            now
        },
    );
    let output = Arc::new(Output::from_env(env));
    let events = Events::new(Arc::clone(&output));
    events.emit(&Lifecycle::new(Stage::Init, LifecycleStatus::Started)).await;

    let steps = async { prepare(args, Config::from_env(env)?, &events).await };
    let result = select! {
        biased;
        _ = term.recv() => Err(Failure::beside("signal", 128 + 15)),
        _ = int.recv() => Err(Failure::beside("signal", 128 + 2)),
        () = after(deadline::remaining(env("AGENT_DEADLINE_MS").as_deref(), start, now)) => {
            tracing::error!("run deadline expired while it was prepared");
            Err(Failure::beside("deadline", DEADLINE_CODE))
        }
        result = steps => result,
    };
    let (event, code) = match result {
        Ok(()) => (Lifecycle::new(Stage::Init, LifecycleStatus::Succeeded), 0),
        Err(failure) => (failure.event(), failure.code),
    };
    events.emit(&event).await;
    output.finish(if code > 128 { FLUSH_AT_SIGNAL } else { FLUSH }).await;
    Ok(code)
}

async fn after(limit: Option<Duration>) {
    match limit {
        // Not even a sleep of no time is over when it is first asked, and by then all may be done.
        Some(Duration::ZERO) => {}
        Some(limit) => sleep(limit).await,
        None => pending().await,
    }
}
