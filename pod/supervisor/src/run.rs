use std::{io, pin::pin, sync::Arc};

use signalbox_output::{Events, Output, deadline, http::Http};
use signalbox_types::event::{Lifecycle, LifecycleStatus, Stage};
use tokio::{
    join, select,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    bounds::{Clock, Step},
    child::Agent,
    config::{Args, Config, variable},
    conversation,
    ending::DEADLINE,
    files,
    signals::Signals,
    watch::watch,
};

/// Runs the agent to its end; the exit code.
///
/// # Errors
/// Signals cannot be listened for.
pub(crate) async fn run(mut args: Args) -> io::Result<i32> {
    let signals = Signals::listen()?;
    let now = deadline::boottime_ms();
    let start = deadline::read_start(&args.stamp(), now).unwrap_or(now);
    let limit = deadline::remaining(variable("AGENT_DEADLINE_MS").as_deref(), start, now);
    let limit = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut config = Config::from_env(variable);
    if args.is_fresh() {
        tracing::warn!("the conversation {:?} is not there: the agent begins a new one", config.resumes);
        args.forget_session(config.vendor);
        config.resumes.clear();
    }
    let clock = Clock::new(limit, config.grace);
    let output = Arc::new(Output::from_env(variable));
    let events = Events::new(Arc::clone(&output));

    let mut supervisor = Supervisor { config, signals, clock, output, events };
    let event = supervisor.supervise(&args, limit).await.unwrap_or_else(|event| event);
    supervisor.tell(&event).await;
    Ok(event.exit_code.unwrap_or(1))
}

struct Supervisor {
    config: Config,
    signals: Signals,
    clock: Clock,
    output: Arc<Output>,
    events: Events,
}

impl Supervisor {
    /// Starts the CLI and sees it to its end; the last event. An error is that of a run that never began.
    async fn supervise(&mut self, args: &Args, limit: Option<Instant>) -> Result<Lifecycle, Lifecycle> {
        if limit.is_some_and(|limit| limit <= Instant::now()) {
            tracing::error!("run deadline expired before the agent was started");
            return Err(ended(DEADLINE, None));
        }
        let agent = Agent::start(args).map_err(|error| {
            tracing::error!("{error}");
            ended(1, Some(error.reason()))
        })?;
        self.events.emit(&Lifecycle::new(Stage::Agent, LifecycleStatus::Started)).await;
        let Self { config, signals, clock, output, .. } = self;
        let end = watch(agent, config, output, signals, clock, limit).await;
        self.save(end.exit.is_some()).await;
        let (code, reason) = end.code();
        Ok(ended(code, reason))
    }

    /// Reports the watched files and saves the conversation of a CLI that is `gone`.
    async fn save(&mut self, gone: bool) {
        let Self { config, signals, clock, events, .. } = self;
        let http = if config.uploads() { http() } else { None };
        let stop = CancellationToken::new();
        let patience = clock.bound(Step::Event, Instant::now());
        let work = async {
            join!(
                files::raise(config, events, http.as_ref(), patience, &stop),
                conversation::save(config, gone, http.as_ref(), &stop)
            )
        };
        let mut work = pin!(work);
        let mut end = Instant::now() + clock.bound(Step::Save, Instant::now());
        loop {
            select! {
                _ = &mut work => return,
                () = sleep_until(end), if !stop.is_cancelled() => stop.cancel(),
                _ = signals.end() => {
                    clock.signaled(Instant::now());
                    end = end.min(Instant::now() + clock.bound(Step::Save, Instant::now()));
                }
            }
        }
    }

    /// Emits the last event, and gives the sinks time for what is queued.
    async fn tell(&mut self, event: &Lifecycle) {
        let bound = |clock: &Clock, step| clock.bound(step, Instant::now());
        self.events.emit_within(event, bound(&self.clock, Step::Event)).await;
        select! {
            () = self.output.finish(bound(&self.clock, Step::Flush)) => return,
            _ = self.signals.end() => self.clock.signaled(Instant::now()),
        }
        self.output.finish(bound(&self.clock, Step::Flush)).await;
    }
}

fn ended(code: i32, reason: Option<&str>) -> Lifecycle {
    let status = if code == 0 { LifecycleStatus::Succeeded } else { LifecycleStatus::Failed };
    let event = Lifecycle::new(Stage::Agent, status).with_exit_code(code);
    reason.map_or(event.clone(), |reason| event.with_reason(reason))
}

fn http() -> Option<Http> {
    Http::from_env(variable).inspect_err(|error| tracing::warn!("nothing can be uploaded: {error}")).ok()
}
