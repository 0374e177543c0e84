use std::{future::pending, io, sync::Arc, time::Duration};

use bytes::Bytes;
use rustix::process::Signal;
use signalbox_output::{Events, Output, deadline};
use signalbox_types::event::{Lifecycle, LifecycleStatus, Stage};
use signalbox_vendors::{Ending, Seen};
use tokio::{
    io::{stderr, stdout},
    net::unix::pipe::Receiver,
    select,
    signal::unix::{self, SignalKind, signal},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    child::Agent,
    config::{Args, Config},
    ending::{End, Exit, Forced},
    pump,
};

/// How long the end waits for what the CLI has printed last; a grandchild may hold its pipes for ever.
const DRAIN: Duration = Duration::from_millis(2000);
/// How long it waits then for a line that is being printed.
const STOP: Duration = Duration::from_millis(500);
/// How long the end of a run waits for the sinks.
const FLUSH: Duration = Duration::from_secs(30);
/// The same when the pod is being ended, and when the deadline has passed: the kubelet acts ten seconds after it.
const FLUSH_IN_HASTE: Duration = Duration::from_secs(2);
/// How many lines the CLI may be ahead of the search for its end.
const LINES_AHEAD: usize = 4;

/// The signals that the supervisor gets.
struct Signals {
    term: unix::Signal,
    int: unix::Signal,
    child: unix::Signal,
}

/// Runs the agent to its end; the exit code.
///
/// # Errors
/// Signals cannot be listened for.
pub(crate) async fn run(args: Args) -> io::Result<i32> {
    let signals = Signals {
        term: signal(SignalKind::terminate())?,
        int: signal(SignalKind::interrupt())?,
        child: signal(SignalKind::child())?,
    };
    let env = |name: &str| std::env::var(name).ok();
    let now = deadline::boottime_ms();
    let start = deadline::read_start(&args.stamp(), now).unwrap_or(now);
    let limit = deadline::remaining(env("AGENT_DEADLINE_MS").as_deref(), start, now);
    let limit = limit.and_then(|limit| Instant::now().checked_add(limit));
    let output = Arc::new(Output::from_env(env));
    let events = Events::new(Arc::clone(&output));

    let config = Config::from_env(env);
    let (event, code, flush) = match supervise(&args, &config, signals, limit, &output, &events).await {
        Ok(end) => {
            let (code, reason) = end.code();
            let haste = end.passed_on.is_some() || end.forced == Some(Forced::Deadline);
            let flush = if haste { FLUSH_IN_HASTE } else { until(limit).clamp(FLUSH_IN_HASTE, FLUSH) };
            (ended(code, reason), code, flush)
        }
        Err(event) => (event.clone(), event.exit_code.unwrap_or(1), FLUSH_IN_HASTE),
    };
    events.emit(&event).await;
    output.finish(flush).await;
    Ok(code)
}

fn ended(code: i32, reason: Option<&str>) -> Lifecycle {
    let status = if code == 0 { LifecycleStatus::Succeeded } else { LifecycleStatus::Failed };
    let event = Lifecycle::new(Stage::Agent, status).with_exit_code(code);
    reason.map_or(event.clone(), |reason| event.with_reason(reason))
}

fn until(limit: Option<Instant>) -> Duration {
    limit.map_or(Duration::MAX, |limit| limit.saturating_duration_since(Instant::now()))
}

/// Starts the CLI, sees it to its end, and ends all that it has left. An error is the event of a run that never began.
async fn supervise(
    args: &Args,
    config: &Config,
    signals: Signals,
    limit: Option<Instant>,
    output: &Arc<Output>,
    events: &Events,
) -> Result<End, Lifecycle> {
    if let Some(what) = config.refused {
        return Err(ended(2, Some(&format!("not supported by this version: {what}"))));
    }
    if let Some(what) = config.ignored {
        tracing::warn!("not supported by this version, the run goes on without: {what}");
    }
    if until(limit).is_zero() {
        tracing::error!("run deadline expired before the agent was started");
        return Err(ended(124, None));
    }
    let (agent, out, err) = Agent::start(args).map_err(|error| {
        tracing::error!("{error}");
        ended(1, Some(error.reason()))
    })?;
    events.emit(&Lifecycle::new(Stage::Agent, LifecycleStatus::Started)).await;
    let (lines, pumps) = Pumps::start(out, err, config, output);
    let mut run = Run { agent, config, lines, ending: Ending::new(config.vendor), forced: None, passed_on: None };
    let exit = run.watch(signals, limit).await;
    run.drain(pumps).await;
    Ok(End {
        exit,
        forced: run.forced,
        passed_on: run.passed_on,
        verdict: run.ending.verdict(),
        needs_result: run.ending.needs_terminal_line(),
    })
}

/// The tasks that empty the CLI's pipes.
struct Pumps {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl Pumps {
    fn start(out: Receiver, err: Receiver, config: &Config, output: &Arc<Output>) -> (mpsc::Receiver<Bytes>, Self) {
        let (sender, lines) = mpsc::channel(LINES_AHEAD);
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(pump::stdout(out, stdout(), sender, Arc::clone(output), config.vendor, stop.clone()));
        tasks.spawn(pump::stderr(err, stderr(), stop.clone()));
        (lines, Self { tasks, stop })
    }

    /// Waits for the end of both pipes.
    async fn end_by(&mut self, deadline: Instant) {
        while let Ok(Some(_)) = timeout_at(deadline, self.tasks.join_next()).await {}
    }
}

/// The run of one CLI.
struct Run<'a> {
    agent: Agent,
    config: &'a Config,
    lines: mpsc::Receiver<Bytes>,
    ending: Ending,
    forced: Option<Forced>,
    passed_on: Option<i32>,
}

/// What comes when the time is up.
#[derive(Clone, Copy)]
enum Next {
    /// SIGTERM, since there was a result.
    Term(Instant),
    /// SIGKILL.
    Kill(Instant),
    /// No more waiting.
    GiveUp(Instant),
}

impl Run<'_> {
    /// Waits until the CLI has exited, by itself or by force; None if even SIGKILL has not ended it.
    async fn watch(&mut self, mut signals: Signals, limit: Option<Instant>) -> Option<Exit> {
        let mut next: Option<Next> = None;
        loop {
            select! {
                _ = signals.child.recv() => if let Some(exit) = self.agent.reap() { return Some(exit) },
                _ = signals.term.recv() => self.pass_on(Signal::TERM),
                _ = signals.int.recv() => self.pass_on(Signal::INT),
                () = at(limit), if self.forced.is_none() => next = Some(self.meet_deadline()),
                () = at(next.map(Next::time)) => match next {
                    Some(Next::Term(_)) => next = Some(self.force(Forced::Grace, self.config.grace)),
                    Some(Next::Kill(_)) => {
                        self.agent.signal(Signal::KILL);
                        next = Some(Next::GiveUp(Instant::now() + self.grace()));
                    }
                    Some(Next::GiveUp(_)) | None => return None,
                },
                Some(line) = self.lines.recv() => {
                    let went_on = self.observe(&line);
                    if went_on && self.forced.is_none() {
                        next = Some(Next::Term(Instant::now() + self.config.grace));
                    }
                }
            }
        }
    }

    /// Takes a line in; whether the grace begins, for the first time or again.
    fn observe(&mut self, line: &[u8]) -> bool {
        match self.ending.observe(&String::from_utf8_lossy(line)) {
            Seen::Terminal { .. } | Seen::Resumed => true,
            Seen::Nothing => false,
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        self.passed_on = Some(signal.as_raw());
        self.agent.signal(signal);
    }

    /// At the deadline a CLI that had its result is forced down early, and one that had none has failed.
    fn meet_deadline(&mut self) -> Next {
        let forced = if self.ending.verdict().is_some() { Forced::Grace } else { Forced::Deadline };
        tracing::error!("run deadline expired, the agent is being ended");
        self.force(forced, self.config.grace_at_deadline())
    }

    fn force(&mut self, forced: Forced, grace: Duration) -> Next {
        self.forced = Some(forced);
        self.agent.signal(Signal::TERM);
        Next::Kill(Instant::now() + grace)
    }

    fn grace(&self) -> Duration {
        if self.forced == Some(Forced::Deadline) { self.config.grace_at_deadline() } else { self.config.grace }
    }

    /// Takes in what the CLI has printed last, for a bounded time, then ends whatever is left in its process group: no
    /// tool or worker of the CLI survives it.
    async fn drain(&mut self, mut pumps: Pumps) {
        let deadline = Instant::now() + DRAIN;
        // Looked at as well, since a grandchild that prints without a pause always has a line ready.
        while Instant::now() < deadline {
            match timeout_at(deadline, self.lines.recv()).await {
                Ok(Some(line)) => self.observe(&line),
                Ok(None) | Err(_) => break,
            };
        }
        pumps.end_by(deadline).await;
        self.agent.signal(Signal::KILL);
        // So that no line comes after the last event, and none is cut.
        self.lines.close();
        pumps.stop.cancel();
        pumps.end_by(Instant::now() + STOP).await;
    }
}

impl Next {
    const fn time(self) -> Instant {
        match self {
            Self::Term(time) | Self::Kill(time) | Self::GiveUp(time) => time,
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
