//! What decisions are made from: the Store, and what this leader remembers of its own.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Resource, ResourceExt};
use signalbox_agents::{
    admission::{self, Admission, Peer},
    outcome::{self, JobOutcome, PodResult, job_outcome},
    owned_by,
    start::{Start, start},
};
use signalbox_runtime::{store::Kind, sync::lock};
use signalbox_types::{Agent, AgentDefinition, Phase, Station, StationSpec, names, resource_version};

use crate::{
    plan::{JobView, View},
    reservations::{Reservation, Reservations},
};

/// How long an Agent that was refused lets younger ones pass.
const STEP_ASIDE: Duration = Duration::from_secs(60);
/// Between the first and the second LIST of a run's Events; it doubles with each.
const EVENTS_PAUSE: Duration = Duration::from_secs(8);
/// The longest time between two.
const EVENTS_PAUSE_MAX: Duration = Duration::from_secs(300);

/// The Store of a term, and what its leader remembers.
pub(crate) struct World {
    pub(crate) agents: Kind<Agent>,
    pub(crate) stations: Kind<Station>,
    pub(crate) definitions: Kind<AgentDefinition>,
    pub(crate) jobs: Kind<Job>,
    pub(crate) pods: Kind<Pod>,
    reservations: Reservations,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// The versions of Station and definition with which a waiting Agent was found valid: it is not looked at again
    /// until one of them changes.
    validated: HashMap<String, Recipe>,
    /// Agents that were refused, and until when they let younger ones pass.
    aside: HashMap<String, Instant>,
    /// Runs whose Events were asked for: when to ask again, and how long to wait then.
    asked: HashMap<String, (Instant, Duration)>,
    /// The trace that an Agent's change came with, until its Job bears it.
    traces: HashMap<String, String>,
    /// What the pods of a Job said that are gone, by the Job's uid: at a node's shutdown the pod is gone before the Job
    /// has failed (case 76).
    gone: HashMap<String, PodResult>,
}

/// The versions of a Station and of its definition.
pub(crate) type Recipe = (u64, u64);

impl World {
    pub(crate) fn new(
        agents: Kind<Agent>,
        stations: Kind<Station>,
        definitions: Kind<AgentDefinition>,
        jobs: Kind<Job>,
        pods: Kind<Pod>,
    ) -> Self {
        let (reservations, memory) = Default::default();
        Self { agents, stations, definitions, jobs, pods, reservations, memory }
    }

    /// What the Store has to say about an Agent.
    pub(crate) fn view(&self, agent: &Agent) -> View {
        let held = self.job_of(agent);
        let job = match &held {
            None => JobView::Absent,
            Some(job) => match job_outcome(job) {
                JobOutcome::Running => JobView::Running,
                JobOutcome::Succeeded | JobOutcome::Failed { .. } => JobView::Ended,
            },
        };
        let must_wait = agent.phase() == Phase::Pending && job == JobView::Absent && self.must_wait(agent);
        let start_open = job == JobView::Running && held.is_some_and(|held| self.start_is_open(agent, &held));
        View { job, must_wait, start_open }
    }

    /// True while the pod of a run has not started, and while the status says so though it has.
    fn start_is_open(&self, agent: &Agent, job: &Job) -> bool {
        let told = agent.status.as_ref().and_then(|status| status.condition(names::CONDITION_STARTED));
        if told.is_some_and(|condition| condition.status == "False") {
            return true;
        }
        // A pod that is ready has started. Every run is looked at at each listing: the pods of all are not gone through
        // for those that work.
        let ready = job.status.as_ref().is_some_and(|status| status.ready.unwrap_or(0) > 0);
        !ready && self.start_of(job).1 != Start::Started
    }

    /// The newest pod of a Job, and how far its start has come.
    pub(crate) fn start_of(&self, job: &Job) -> (Option<Pod>, Start) {
        let pod = self.newest_pod_of(job);
        let start = pod.as_ref().map_or(Start::Starting { since: None }, start);
        (pod, start)
    }

    /// The newest pod of a Job that the Store has.
    pub(crate) fn newest_pod_of(&self, job: &Job) -> Option<Pod> {
        let pods = self.pods.all_in(&namespace_of(job));
        let of_it = pods.iter().filter(|pod| is_owned_by(&***pod, job));
        outcome::newest(of_it.map(AsRef::as_ref)).cloned()
    }

    /// Whether it is time to ask for the Events of a run that does not start: at first, and ever more seldom.
    pub(crate) fn may_ask_events(&self, uid: &str) -> bool {
        let now = Instant::now();
        let mut memory = self.memory();
        let (due, pause) = memory.asked.get(uid).copied().unwrap_or((now, EVENTS_PAUSE));
        if now < due {
            return false;
        }
        memory.asked.insert(uid.to_owned(), (now + pause, (pause * 2).min(EVENTS_PAUSE_MAX)));
        true
    }

    /// True while a request about that Agent is on its way, or its outcome is unknown.
    pub(crate) fn is_reserved(&self, uid: &str) -> bool {
        self.reservations.decide(uid, |reserved| (reserved(uid), false)).0
    }

    /// Remembers the trace that the change of an Agent came with.
    pub(crate) fn set_trace(&self, uid: &str, traceparent: &str) {
        self.memory().traces.insert(uid.to_owned(), traceparent.to_owned());
    }

    /// The trace of a run: its Job's, else the one its change came with.
    pub(crate) fn trace_of(&self, agent: &Agent) -> Option<String> {
        let job = self.job_of(agent);
        let of_job = job.as_ref().and_then(|job| job.annotations().get(names::ANNOTATION_TRACEPARENT));
        of_job.cloned().or_else(|| self.memory().traces.get(&agent.uid().unwrap_or_default()).cloned())
    }

    /// Remembers what a pod that is gone has said of its run.
    pub(crate) fn set_gone(&self, job_uid: &str, result: PodResult) {
        self.memory().gone.insert(job_uid.to_owned(), result);
    }

    /// What the pod of a Job has said before it went.
    pub(crate) fn gone(&self, job: &Job) -> Option<PodResult> {
        self.memory().gone.get(job.metadata.uid.as_deref()?).copied()
    }

    /// Forgets what the pods of a Job have said.
    pub(crate) fn forget_gone(&self, job_uid: &str) {
        self.memory().gone.remove(job_uid);
    }

    /// The Job of an Agent, by its name and its owner's uid: never by a label, which is shortened.
    pub(crate) fn job_of(&self, agent: &Agent) -> Option<Arc<Job>> {
        self.jobs.get(&namespace_of(agent), &job_name(agent)).filter(|job| is_owned_by(&**job, agent))
    }

    /// The Station of an Agent, as it was last seen.
    pub(crate) fn station_of(&self, agent: &Agent) -> Option<Arc<Station>> {
        self.stations.get(&namespace_of(agent), &agent.spec.station_ref)
    }

    /// The Agent as it is now; the answer is in the Store then.
    pub(crate) async fn look_live(&self, agent: &Agent) -> Result<Option<Agent>, kube::Error> {
        self.agents.live(&namespace_of(agent), &agent.name_any()).await
    }

    /// Asks live whether the Job of that name is there and the Agent's; the answer is in the Store then.
    pub(crate) async fn owns_job(&self, agent: &Agent, name: &str) -> Result<bool, kube::Error> {
        Ok(self.jobs.live(&namespace_of(agent), name).await?.is_some_and(|job| is_owned_by(&job, agent)))
    }

    /// Decides on a slot, and reserves it.
    pub(crate) fn admit(&self, agent: &Agent, station: &StationSpec) -> (Admission, Option<Reservation>) {
        let uid = agent.uid().unwrap_or_default();
        self.reservations.decide(&uid, |reserved| {
            let decision = self.decide(agent, station, reserved);
            // Not for a replacement: it is decided again once the victim is gone, and a slot that is held already would
            // let the Agent pass as one that has begun to start.
            let admitted = matches!(decision, Admission::Admit);
            (decision, admitted)
        })
    }

    /// Remembers that an Agent is valid with these versions of its recipe.
    pub(crate) fn set_validated(&self, agent: &Agent, recipe: Recipe) {
        self.memory().validated.insert(agent.uid().unwrap_or_default(), recipe);
    }

    /// Lets younger Agents pass this one for a while: it was refused.
    pub(crate) fn step_aside(&self, agent: &Agent) {
        self.memory().aside.insert(agent.uid().unwrap_or_default(), Instant::now() + STEP_ASIDE);
    }

    /// Forgets what was remembered of an Agent that no longer waits for a slot.
    pub(crate) fn forget(&self, uid: &str) {
        let mut memory = self.memory();
        memory.validated.remove(uid);
        memory.aside.remove(uid);
        memory.traces.remove(uid);
    }

    /// Forgets an Agent that has ended or is gone.
    pub(crate) fn forget_ended(&self, uid: &str) {
        self.forget(uid);
        self.memory().asked.remove(uid);
    }

    /// True for a waiting Agent that was found valid with the recipe the Store still has, while there is no slot: it
    /// costs no request then.
    fn must_wait(&self, agent: &Agent) -> bool {
        let Some(station) = self.station_of(agent) else { return false };
        let definition = self.definitions.get(&namespace_of(agent), &station.spec.agent_def_ref);
        let Some(definition) = definition else { return false };
        let recipe = (resource_version(&*station), resource_version(&*definition));
        let uid = agent.uid().unwrap_or_default();
        if self.memory().validated.get(&uid) != Some(&recipe) {
            return false;
        }
        let (decision, _) =
            self.reservations.decide(&uid, |reserved| (self.decide(agent, &station.spec, reserved), false));
        matches!(decision, Admission::Wait)
    }

    fn decide(&self, agent: &Agent, station: &StationSpec, reserved: &dyn Fn(&str) -> bool) -> Admission {
        if station.concurrency_limit().is_none() {
            return Admission::Admit;
        }
        let others = self.agents.all_in(&namespace_of(agent));
        let memory = self.memory();
        let now = Instant::now();
        let peers: Vec<_> = others
            .iter()
            .filter(|other| other.spec.station_ref == agent.spec.station_ref && !other.phase().is_terminal())
            .map(|other| {
                let uid = other.uid().unwrap_or_default();
                let live_job = other.phase() == Phase::Pending
                    && self.job_of(other).is_some_and(|job| job_outcome(&job) == JobOutcome::Running);
                let aside = memory.aside.get(&uid).is_some_and(|until| *until > now);
                Peer { agent: other, live_job, reserved: reserved(&uid), admissible: !aside }
            })
            .collect();
        admission::decide(agent, station, &peers)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }
}

/// True if `owner` is the controller of `object`, by uid.
pub(crate) fn is_owned_by(object: &impl Resource<DynamicType = ()>, owner: &impl Resource<DynamicType = ()>) -> bool {
    owned_by(object.meta(), owner.meta().uid.as_deref().unwrap_or_default())
}

/// The namespace of an object: names say which one is meant only within it.
pub(crate) fn namespace_of(object: &impl ResourceExt) -> String {
    object.namespace().unwrap_or_default()
}

/// The name of an Agent's Job: as its status has it, else as it is derived.
pub(crate) fn job_name(agent: &Agent) -> String {
    agent.recorded_job().map_or_else(|| names::job_name(&agent.name_any()), str::to_owned)
}
