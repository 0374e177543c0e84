//! Leader election on one Lease a service: `docs/contract/agents.md` section 8.
//!
//! Every write is a compare-and-swap on the resourceVersion. Time is measured on the local monotonic clock from local
//! observation, so a wrong wall clock, ours or the holder's, changes nothing. A leader stops by itself before another
//! may begin, even when its requests hang or its process was stopped ([`Term::holds_for`]). Still nothing relies on the
//! Lease alone to be correct: it saves two leaders from doing the same work.

use std::{
    future::{Future, pending},
    pin::pin,
    time::Duration,
};

use futures::{Stream, StreamExt};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{health::Health, metrics::Metrics};

mod decision;
mod term;

pub use decision::{Decision, Observation, Record, decide};
pub use term::Term;

/// How long a Lease that is not renewed stays its holder's.
pub const DURATION: Duration = Duration::from_secs(15);
/// How often every replica looks at the Lease, and the leader renews it.
pub const TICK: Duration = Duration::from_secs(5);
/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// A leader stops this long before its Lease ends: for clocks of different speed and timers that come late.
const MARGIN: Duration = Duration::from_secs(1);
/// How soon after a tick a `released` message brings the next: anyone may send one, and each costs a GET.
const NUDGE_PAUSE: Duration = Duration::from_millis(200);
/// How long the work may take to end on SIGTERM before the Lease is left to expire instead of being released.
pub const END_LIMIT: Duration = Duration::from_millis(650);
/// When the release has to be through, from SIGTERM.
pub const RELEASE_LIMIT: Duration = Duration::from_millis(900);
/// How long the work may take to end after a lost term, its requests in flight included, before it is aborted.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Which Lease, and who wants it.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// The name of the Lease: `signalbox-<service>`.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The identity of this process: [`identity`].
    pub identity: String,
}

/// The identity of a process: its pod's name, `_`, and a random word, so that a pod that starts again under its old name
/// is not taken for its predecessor.
pub fn identity(pod_name: &str) -> String {
    format!("{pod_name}_{:08x}", rand::random::<u32>())
}

/// Why [`Elector::run`] ended although nobody asked it to. The process should end too, and start afresh.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The work returned while its term went on.
    #[error("the leader's work ended before its term")]
    LeadEnded,
    /// The work panicked.
    #[error("the leader's work panicked: {0}")]
    LeadPanicked(tokio::task::JoinError),
    /// The work goes on although its term is over, and cannot be aborted.
    #[error("the leader's work does not end with its term")]
    LeadStuck,
}

/// Why a request about the Lease failed.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error(transparent)]
    Kube(#[from] kube::Error),
    #[error("no answer within {REQUEST_LIMIT:?}")]
    Elapsed(#[from] tokio::time::error::Elapsed),
}

/// What a term's work is held by.
struct Held {
    term: Term,
    work: JoinHandle<()>,
}

/// What a tick came to.
enum Tick {
    /// The Lease is ours until the deadline.
    Ours { epoch: i32, deadline: Instant },
    /// It is not ours, and why.
    NotOurs(&'static str),
}

/// What happens next.
enum Next {
    Shutdown,
    WorkEnded(Result<(), tokio::task::JoinError>),
    Expired,
    Tick(Tick),
}

/// Takes part in the election for one Lease.
pub struct Elector {
    api: Api<Lease>,
    config: LeaseConfig,
    metrics: Option<Metrics>,
    observed: Option<Observation>,
}

impl Elector {
    /// A candidate. `client` has to be one that never sends a request twice ([`crate::client::Clients::writer`]).
    pub fn new(client: kube::Client, config: LeaseConfig) -> Self {
        Self { api: Api::namespaced(client, &config.namespace), config, metrics: None, observed: None }
    }

    /// The same, writing `controller_is_leader`.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Stands for election until `shutdown`, and calls `lead` for each term that is won.
    ///
    /// `lead` runs as a task of its own and must end soon after its term does; the next term begins only then. `nudge`
    /// says that the Lease was released, so that a standby looks at once. `on_released` runs after the Lease was given
    /// up at shutdown: within [`RELEASE_LIMIT`] of it, all told.
    ///
    /// # Errors
    /// See [`LeaseError`]: the work went wrong, and the process should end.
    pub async fn run<N, L, F, R>(
        mut self,
        shutdown: CancellationToken,
        nudge: N,
        health: Health,
        on_released: R,
        mut lead: L,
    ) -> Result<(), LeaseError>
    where
        N: Stream<Item = ()>,
        L: FnMut(Term) -> F,
        F: Future<Output = ()> + Send + 'static,
        R: AsyncFnOnce(),
    {
        let mut nudge = pin!(nudge.fuse());
        let mut held: Option<Held> = None;
        let mut due = Instant::now();
        self.set_leader(false);
        loop {
            let next = self.next(&shutdown, nudge.as_mut(), &health, &mut held, &mut due).await;
            let lost = match next {
                Next::Shutdown => return self.give_up(held, on_released).await,
                Next::WorkEnded(result) => {
                    held.iter().for_each(|held| held.term.end());
                    self.set_leader(false);
                    let _ = timeout(RELEASE_LIMIT, self.release(on_released)).await;
                    return Err(result.map_or_else(LeaseError::LeadPanicked, |()| LeaseError::LeadEnded));
                }
                Next::Expired => "not renewed in time",
                Next::Tick(Tick::NotOurs(reason)) => reason,
                Next::Tick(Tick::Ours { epoch, deadline }) => {
                    match &held {
                        Some(held) => held.term.extend(deadline),
                        None => held = Some(self.begin(epoch, deadline, &mut lead)),
                    }
                    continue;
                }
            };
            if let Some(held) = held.take() {
                self.step_down(held, lost, &shutdown).await?;
                due = Instant::now();
            }
        }
    }

    /// Waits for what comes first. A tick is part of the wait, so that a request that hangs delays nothing else.
    async fn next<N: Stream<Item = ()>>(
        &mut self,
        shutdown: &CancellationToken,
        mut nudge: std::pin::Pin<&mut futures::stream::Fuse<N>>,
        health: &Health,
        held: &mut Option<Held>,
        due: &mut Instant,
    ) -> Next {
        let leads = held.is_some();
        let (expiry, work) = match held {
            Some(held) => (Some(held.term.deadline()), Some(&mut held.work)),
            None => (None, None),
        };
        // Reckoned from the last tick, so that many nudges bring no more than one.
        let nudged = due.checked_sub(TICK - NUDGE_PAUSE).unwrap_or(*due);
        let tick = async {
            loop {
                tokio::select! {
                    () = sleep_until(*due) => break,
                    Some(()) = nudge.next(), if !leads => {
                        *due = nudged;
                    }
                }
            }
            *due = Instant::now() + TICK;
            self.tick(health, leads).await
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Next::Shutdown,
            result = async { match work { Some(work) => work.await, None => pending().await } } => Next::WorkEnded(result),
            () = async { match expiry { Some(at) => sleep_until(at).await, None => pending().await } } => Next::Expired,
            tick = tick => Next::Tick(tick),
        }
    }

    /// GET, fold, decide, act.
    async fn tick(&mut self, health: &Health, leads: bool) -> Tick {
        let name = self.config.name.clone();
        let read = timeout(REQUEST_LIMIT, self.api.get_opt(&name)).await;
        let record = match read.map_err(RequestError::from).and_then(|read| Ok(read?)) {
            Ok(lease) => lease.map(Record::of),
            Err(error) => {
                health.set_api_reachable(false);
                tracing::warn!(lease = %name, %error, "Lease cannot be read");
                return Tick::NotOurs("the API server does not answer");
            }
        };
        health.set_api_reachable(true);
        let now = Instant::now();
        let observation = Observation::fold(self.observed.take(), record, now);
        let decision = decide(&observation, &self.config.identity, now);
        self.observed = Some(observation);
        match decision {
            Decision::StandBy => Tick::NotOurs("another replica holds the Lease"),
            // Gone or freed by somebody else while we led: that term is over, and the next tick may begin another.
            Decision::Create | Decision::TakeOver(_) if leads => Tick::NotOurs("the Lease was taken away"),
            Decision::Create => self.write(self.create(), "create").await,
            Decision::Renew(record) => self.write(self.patch(renewal(&record)), "renew").await,
            Decision::TakeOver(record) => {
                self.write(self.patch(takeover(&record, &self.config.identity)), "take over").await
            }
        }
    }

    /// Sends a write. Our time with the Lease counts from before it was sent.
    async fn write(&self, request: impl Future<Output = kube::Result<Lease>>, what: &'static str) -> Tick {
        let deadline = Instant::now() + DURATION - MARGIN;
        let answer = timeout(REQUEST_LIMIT, request).await;
        match answer.map_err(RequestError::from).and_then(|answer| Ok(answer?)) {
            // The process may have been stopped while it waited for this answer.
            Ok(_) if Instant::now() >= deadline => Tick::NotOurs("the answer came after the term"),
            Ok(lease) => Tick::Ours { epoch: Record::of(lease).transitions, deadline },
            Err(error) => {
                tracing::info!(lease = %self.config.name, what, %error, "Lease not written");
                Tick::NotOurs("the Lease could not be written")
            }
        }
    }

    async fn create(&self) -> kube::Result<Lease> {
        let now = MicroTime(jiff::Timestamp::now());
        let spec = LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: Some(DURATION.as_secs() as i32),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(0),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta { name: Some(self.config.name.clone()), ..ObjectMeta::default() };
        self.api.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await
    }

    async fn patch(&self, body: Value) -> kube::Result<Lease> {
        self.api.patch(&self.config.name, &PatchParams::default(), &Patch::Merge(body)).await
    }

    fn begin<F>(&self, epoch: i32, deadline: Instant, lead: &mut impl FnMut(Term) -> F) -> Held
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tracing::info!(lease = %self.config.name, identity = %self.config.identity, epoch, "leading");
        self.set_leader(true);
        let term = Term::new(epoch, deadline);
        Held { work: tokio::spawn(lead(term.clone())), term }
    }

    /// Ends a term and waits until its work has ended. What is still in flight is heard out, for a while; less so once
    /// the process is to end.
    async fn step_down(&self, mut held: Held, reason: &str, shutdown: &CancellationToken) -> Result<(), LeaseError> {
        held.term.end();
        self.set_leader(false);
        tracing::warn!(lease = %self.config.name, epoch = held.term.epoch(), reason, "leading no more");
        let ended = tokio::select! {
            ended = &mut held.work => ended,
            () = async { shutdown.cancelled().await; sleep(END_LIMIT).await } => return Err(LeaseError::LeadStuck),
            () = sleep(DRAIN_LIMIT) => {
                tracing::error!(lease = %self.config.name, "work outlives its term: aborting it");
                held.work.abort();
                timeout(MARGIN, &mut held.work).await.map_err(|_| LeaseError::LeadStuck)?
            }
        };
        match ended {
            Err(error) if error.is_panic() => Err(LeaseError::LeadPanicked(error)),
            _ => Ok(()),
        }
    }

    /// The orderly end: the work first, then the Lease. Work that does not end keeps it until it expires.
    async fn give_up(&self, held: Option<Held>, on_released: impl AsyncFnOnce()) -> Result<(), LeaseError> {
        let limit = Instant::now() + RELEASE_LIMIT;
        let recorded = self.observed.as_ref().and_then(|observed| observed.record.as_ref());
        let ended = match held {
            Some(mut held) => {
                held.term.end();
                self.set_leader(false);
                timeout(END_LIMIT, &mut held.work).await.map_err(|_| LeaseError::LeadStuck)?
            }
            // A term that was lost to a failed renewal leaves a Lease that still names us.
            None if recorded.is_some_and(|record| record.holder == self.config.identity) => Ok(()),
            None => return Ok(()),
        };
        if timeout_at(limit, self.release(on_released)).await.is_err() {
            tracing::warn!(lease = %self.config.name, "Lease not released in time: it expires by itself");
        }
        ended.map_err(LeaseError::LeadPanicked)
    }

    /// Gives the Lease up if it is ours. Read first: a renewal may have been cut off half-way.
    async fn release(&self, on_released: impl AsyncFnOnce()) {
        let released = async {
            let Some(record) = self.api.get_opt(&self.config.name).await?.map(Record::of) else { return Ok(false) };
            if record.holder != self.config.identity {
                return Ok(false);
            }
            self.patch(given_up(&record)).await.map(|_| true)
        };
        match released.await {
            Ok(true) => {
                tracing::info!(lease = %self.config.name, "Lease released");
                on_released().await;
            }
            Ok(false) => {}
            Err(error) => {
                let error: kube::Error = error;
                tracing::warn!(lease = %self.config.name, %error, "Lease not released: it expires by itself");
            }
        }
    }

    fn set_leader(&self, leads: bool) {
        if let Some(metrics) = &self.metrics {
            metrics.set_leader(leads);
        }
    }
}

fn now() -> MicroTime {
    MicroTime(jiff::Timestamp::now())
}

fn renewal(record: &Record) -> Value {
    json!({"metadata": {"resourceVersion": record.version}, "spec": {"renewTime": now()}})
}

fn takeover(record: &Record, identity: &str) -> Value {
    let now = now();
    json!({
        "metadata": {"resourceVersion": record.version},
        "spec": {
            "holderIdentity": identity,
            "leaseDurationSeconds": DURATION.as_secs(),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": record.transitions.saturating_add(1),
        },
    })
}

fn given_up(record: &Record) -> Value {
    json!({"metadata": {"resourceVersion": record.version}, "spec": {"holderIdentity": "", "renewTime": now()}})
}
