use std::{future::pending, sync::Arc};

use bytes::Bytes;
use rustix::process::Signal;
use signalbox_output::Output;
use signalbox_vendors::{Ending, Seen};
use tokio::{
    io::{stderr, stdout},
    net::unix::pipe::Receiver,
    select,
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    bounds::{Clock, Step},
    child::Agent,
    config::Config,
    ending::{End, Exit, Forced},
    pump,
    signals::Signals,
};

/// How many lines the CLI may be ahead of the search for its end.
const LINES_AHEAD: usize = 4;

/// Sees a CLI that has been started to its end, and ends all that it has left.
pub(crate) async fn watch(
    (agent, out, err): (Agent, Receiver, Receiver),
    config: &Config,
    output: &Arc<Output>,
    signals: &mut Signals,
    clock: &mut Clock,
    limit: Option<Instant>,
) -> End {
    let (lines, pumps) = Pumps::start(out, err, config, output);
    let ending = Ending::new(config.vendor).resuming(&config.resumes);
    let mut run = Run { agent, config, clock, lines, ending, forced: None, passed_on: None };
    let exit = run.wait(signals, limit).await;
    run.drain(pumps).await;
    End {
        exit,
        forced: run.forced,
        passed_on: run.passed_on,
        verdict: run.ending.verdict(),
        reason: run.ending.reason(),
        needs_result: run.ending.needs_terminal_line(),
    }
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
    clock: &'a mut Clock,
    lines: mpsc::Receiver<Bytes>,
    ending: Ending,
    forced: Option<Forced>,
    passed_on: Option<i32>,
}

/// What comes when the time is up.
#[derive(Clone, Copy)]
enum Next {
    /// The end of the CLI's silence, by SIGTERM.
    Stall(Instant),
    /// SIGTERM, since there was a result.
    Term(Instant),
    /// SIGKILL.
    Kill(Instant),
    /// No more waiting.
    GiveUp(Instant),
}

impl Run<'_> {
    /// Waits until the CLI has exited, by itself or by force; None if even SIGKILL has not ended it.
    async fn wait(&mut self, signals: &mut Signals, limit: Option<Instant>) -> Option<Exit> {
        let mut next = self.silence();
        loop {
            select! {
                signal = signals.next() => match signal {
                    Some(signal) => self.pass_on(signal),
                    None => if let Some(exit) = self.agent.reap() { return Some(exit) },
                },
                () = at(limit), if self.forced.is_none() => next = Some(self.meet_deadline()),
                () = at(next.map(Next::time)) => match next {
                    // A line that came just now is not taken for silence because it was not looked at yet.
                    Some(Next::Stall(_)) => next = match self.lines.try_recv() {
                        Ok(line) => self.after(&line, next),
                        Err(_) => Some(self.meet_silence()),
                    },
                    Some(Next::Term(_)) => next = Some(self.force(Forced::Grace)),
                    Some(Next::Kill(_)) => {
                        self.agent.signal(Signal::KILL);
                        next = Some(Next::GiveUp(self.end_of(Step::Kill)));
                    }
                    Some(Next::GiveUp(_)) | None => return None,
                },
                Some(line) = self.lines.recv() => next = self.after(&line, next),
            }
        }
    }

    /// Takes a line in; what comes next then.
    fn after(&mut self, line: &[u8], next: Option<Next>) -> Option<Next> {
        match (self.observe(line), self.forced) {
            (_, Some(_)) => next,
            // The grace begins, for the first time or again.
            (true, None) => Some(Next::Term(Instant::now() + self.config.grace)),
            (false, None) if matches!(next, Some(Next::Stall(_))) => self.silence(),
            (false, None) => next,
        }
    }

    /// Takes a line in; whether the CLI is to exit within its grace from now on.
    fn observe(&mut self, line: &[u8]) -> bool {
        match self.ending.observe(&String::from_utf8_lossy(line)) {
            Seen::Terminal { .. } | Seen::Resumed => true,
            Seen::Nothing => false,
        }
    }

    /// The silence that begins now, where it has a limit.
    fn silence(&self) -> Option<Next> {
        self.config.stall.and_then(|stall| Instant::now().checked_add(stall)).map(Next::Stall)
    }

    fn pass_on(&mut self, signal: Signal) {
        self.passed_on = Some(signal.as_raw());
        self.clock.signaled(Instant::now());
        self.agent.signal(signal);
    }

    /// At the deadline a CLI that had its result is forced down early, and one that had none has failed.
    fn meet_deadline(&mut self) -> Next {
        tracing::error!("run deadline expired, the agent is being ended");
        self.force(if self.ending.has_result() { Forced::Grace } else { Forced::Deadline })
    }

    fn meet_silence(&mut self) -> Next {
        let stall = self.config.stall.unwrap_or_default();
        tracing::error!("no line on standard output for {} s, the agent is being ended", stall.as_secs_f64());
        self.force(Forced::Stall)
    }

    fn force(&mut self, forced: Forced) -> Next {
        self.forced = Some(forced);
        self.agent.signal(Signal::TERM);
        Next::Kill(self.end_of(Step::Term))
    }

    fn end_of(&self, step: Step) -> Instant {
        let now = Instant::now();
        now + self.clock.bound(step, now)
    }

    /// Takes in what the CLI has printed last, for a bounded time, then ends whatever is left in its process group: no
    /// tool or worker of the CLI survives it.
    async fn drain(&mut self, mut pumps: Pumps) {
        let deadline = self.end_of(Step::Drain);
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
        pumps.end_by(self.end_of(Step::Stop)).await;
    }
}

impl Next {
    const fn time(self) -> Instant {
        match self {
            Self::Stall(time) | Self::Term(time) | Self::Kill(time) | Self::GiveUp(time) => time,
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
