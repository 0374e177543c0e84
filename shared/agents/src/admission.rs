//! When a run may start: `docs/contract/agents.md` section 5.

use signalbox_types::{Agent, ConcurrencyPolicy, ObjectId, Phase, StationSpec, names::FINALIZER_BATCH};

/// An Agent of a Station as an admission sees it.
#[derive(Clone, Copy, Debug)]
pub struct Peer<'a> {
    /// The Agent.
    pub agent: &'a Agent,
    /// It owns a Job that has not ended.
    pub live_job: bool,
    /// Its admission is under way.
    pub reserved: bool,
    /// It would start now if there were room: nothing but room keeps it Pending.
    pub admissible: bool,
}

impl Peer<'_> {
    fn is_counted(&self) -> bool {
        !self.agent.is_terminating()
    }

    /// True for a run that is on its way to Running and holds its slot already.
    fn is_starting(&self) -> bool {
        let claims = self.agent.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER_BATCH);
        self.agent.phase() == Phase::Pending && (self.live_job || self.reserved || claims)
    }

    fn is_waiting(&self) -> bool {
        self.agent.phase() == Phase::Pending && self.admissible && !self.is_starting()
    }
}

/// What becomes of a Pending run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may start.
    Admit,
    /// It waits for a run that ends, or for an older one that starts.
    Wait,
    /// `victim` has to go first. Then decide again without it: more than one may be in the way where the policy was
    /// changed while several ran.
    Replace {
        /// The running Agent to delete, in the version that was looked at.
        victim: ObjectId,
    },
}

/// Decides whether the Pending `agent` may start, given the other Agents of its Station.
///
/// Running Agents hold a slot, and so do Pending ones that have begun to start. One that has begun goes on, whoever
/// else holds slots: its Job or batch exists. Else it starts if fewer older waiting ones stand before it than slots are
/// free. Under Replace the older ones go first too, each replaced by the next: so the newest run is the one that stays,
/// in whatever order the Agents are looked at, and each replacement uses up one waiting run.
///
/// Agents of other Stations, `agent` itself and Agents that are being deleted may be among `peers`; they are not
/// counted.
pub fn decide(agent: &Agent, station: &StationSpec, peers: &[Peer<'_>]) -> Admission {
    let Some(limit) = station.concurrency_limit() else { return Admission::Admit };
    let own = Peer { agent, live_job: false, reserved: false, admissible: true };
    let is_own = |peer: &Peer<'_>| peer.agent.metadata.uid == agent.metadata.uid;
    if own.is_starting() || peers.iter().any(|peer| is_own(peer) && peer.is_starting()) {
        return Admission::Admit;
    }
    let others: Vec<&Peer<'_>> = peers
        .iter()
        .filter(|peer| !is_own(peer) && peer.is_counted())
        .filter(|peer| peer.agent.metadata.namespace == agent.metadata.namespace)
        .filter(|peer| peer.agent.spec.station_ref == agent.spec.station_ref)
        .collect();

    let running: Vec<&Agent> = others.iter().map(|peer| peer.agent).filter(|agent| is_running(agent)).collect();
    let starting = others.iter().filter(|peer| peer.is_starting()).count();
    let older = others.iter().filter(|peer| peer.is_waiting() && age(peer.agent) < age(agent)).count();
    if older < limit.saturating_sub(running.len() + starting) {
        return Admission::Admit;
    }
    // A slot that a starting run holds cannot be freed yet, and an older waiting run is to be replaced, not overtaken.
    if station.concurrency_policy != ConcurrencyPolicy::Replace || starting > 0 || older > 0 {
        return Admission::Wait;
    }
    match running.into_iter().min_by_key(|agent| start(agent)).and_then(ObjectId::of) {
        Some(victim) => Admission::Replace { victim },
        None => Admission::Wait,
    }
}

fn is_running(agent: &Agent) -> bool {
    agent.phase() == Phase::Running
}

/// Sorts the oldest first. Creation times are whole seconds, so the name decides often.
fn age(agent: &Agent) -> impl Ord + use<'_> {
    (agent.metadata.creation_timestamp.as_ref(), agent.metadata.name.as_deref())
}

/// Sorts the earliest started first; an absent time is the earliest.
fn start(agent: &Agent) -> impl Ord + use<'_> {
    (agent.status.as_ref().and_then(|status| status.started_at), agent.metadata.name.as_deref())
}
