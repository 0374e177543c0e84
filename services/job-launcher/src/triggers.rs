//! Which Agents need a look after what has changed.

use std::sync::Arc;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Resource, ResourceExt, runtime::reflector::ObjectRef};
use signalbox_agents::outcome;
use signalbox_runtime::{
    control::Queue,
    store::{Notice, Told, Transition},
};
use signalbox_types::{Agent, AgentDefinition, ConcurrencyPolicy, Phase, Station, Watched};

use crate::world::{World, namespace_of};

/// Waiting Agents of a limited Station that are looked at when a slot may be free, beyond the limit itself: the next
/// listing looks at all of them.
const EXTRA_WAITING: usize = 8;

/// Turns what the Store tells into names for the control loop.
pub(crate) struct Triggers {
    world: Arc<World>,
    queue: Queue<Agent>,
}

impl Triggers {
    pub(crate) fn new(world: Arc<World>, queue: Queue<Agent>) -> Self {
        Self { world, queue }
    }

    /// Runs until the Store is gone.
    pub(crate) async fn run(
        self,
        mut agents: Told<Agent>,
        mut stations: Told<Station>,
        mut definitions: Told<AgentDefinition>,
        mut jobs: Told<Job>,
        mut pods: Told<Pod>,
    ) {
        loop {
            tokio::select! {
                Some(notice) = agents.recv() => self.told(notice, |change| self.agent(change)),
                Some(notice) = stations.recv() => self.told(notice, |change| self.station(change)),
                Some(notice) = definitions.recv() => self.told(notice, |change| self.definition(change)),
                Some(notice) = jobs.recv() => self.told(notice, |change| self.job(change)),
                Some(notice) = pods.recv() => self.told(notice, |change| self.pod(change)),
                else => return,
            }
        }
    }

    /// After a listing every Agent that is not settled is looked at: this is what finds whatever a message should have
    /// told.
    fn told<K: Watched>(&self, notice: Notice<K>, changed: impl FnOnce(&Transition<K>)) {
        match notice {
            Notice::Changed(transition) => changed(&transition),
            Notice::Listed if K::KIND == <Agent as Watched>::KIND || K::KIND == <Job as Watched>::KIND => {
                let all = self.world.agents.all();
                all.iter().filter(|agent| !agent.is_settled()).for_each(|agent| self.look_at(agent));
            }
            Notice::Listed => {}
        }
    }

    fn agent(&self, change: &Transition<Agent>) {
        if let Some(agent) = &change.new {
            if let Some(trace) = change.trace.as_deref().filter(|_| agent.phase() == Phase::Pending) {
                self.world.set_trace(&agent.uid().unwrap_or_default(), trace);
            }
            self.look_at(agent);
        }
        let Some(old) = &change.old else { return };
        let namespace = namespace_of(&**old);
        let gone = change.new.as_ref().is_none_or(|new| new.is_terminating() || new.metadata.uid != old.metadata.uid);
        let ended = gone || change.new.as_ref().is_some_and(|new| new.phase().is_terminal());
        // A slot is free, or an older waiting one no longer stands before the others.
        if ended && !old.phase().is_terminal() {
            self.waiting_on(&namespace, &old.spec.station_ref);
        }
        // Under Replace a newer one waits for this one to run before it takes its place.
        let started = change.new.as_ref().is_some_and(|new| new.phase() == Phase::Running);
        if started && old.phase() == Phase::Pending && self.replaces(&namespace, &old.spec.station_ref) {
            self.waiting_on(&namespace, &old.spec.station_ref);
        }
        if ended {
            self.world.forget_ended(&old.uid().unwrap_or_default());
        }
    }

    fn station(&self, change: &Transition<Station>) {
        if let Some(station) = &change.new {
            self.waiting_on(&namespace_of(&**station), &station.name_any());
        }
    }

    fn definition(&self, change: &Transition<AgentDefinition>) {
        let Some(definition) = &change.new else { return };
        let (namespace, name) = (namespace_of(&**definition), definition.name_any());
        let stations = self.world.stations.all_in(&namespace).into_iter();
        let users = stations.filter(|station| station.spec.agent_def_ref == name);
        users.for_each(|station| self.waiting_on(&namespace, &station.name_any()));
    }

    fn job(&self, change: &Transition<Job>) {
        let Some(job) = change.latest() else { return };
        self.owner_of_job(job);
        if change.new.is_none() {
            self.world.forget_gone(job.metadata.uid.as_deref().unwrap_or_default());
        }
    }

    fn pod(&self, change: &Transition<Pod>) {
        let Some(pod) = change.latest() else { return };
        let Some((name, uid)) = controller(&**pod) else { return };
        let result = outcome::pod_result(pod);
        let job = self.world.jobs.get(&namespace_of(&**pod), &name);
        if let Some(job) = job.filter(|job| job.metadata.uid.as_ref() == Some(&uid)) {
            // Without its Job nobody will ask, nor would anybody forget it. What never ran has a code of the kubelet's own.
            if change.new.is_none() && result.ran {
                self.world.set_gone(&uid, result);
            }
            self.owner_of_job(&job);
        }
    }

    /// By the owner's uid: the label has a shortened name, which two Agents can share.
    fn owner_of_job(&self, job: &Job) {
        let Some((name, uid)) = controller(job) else { return };
        let agent = self.world.agents.get(&namespace_of(job), &name);
        if let Some(agent) = agent.filter(|agent| agent.metadata.uid.as_ref() == Some(&uid)) {
            self.look_at(&agent);
        }
    }

    /// The waiting Agents of a Station that could start now: the oldest, as many as it may run at a time.
    fn waiting_on(&self, namespace: &str, station_ref: &str) {
        let station = self.world.stations.get(namespace, station_ref);
        let limit = station.and_then(|station| station.spec.concurrency_limit());
        let mut waiting = self.world.agents.all_in(namespace);
        waiting.retain(|agent| agent.spec.station_ref == station_ref && agent.phase() == Phase::Pending);
        if let Some(limit) =
            limit.map(|limit| limit.saturating_add(EXTRA_WAITING)).filter(|limit| *limit < waiting.len())
        {
            waiting.sort_by_cached_key(|agent| (agent.creation_timestamp(), agent.name_any()));
            waiting.truncate(limit);
        }
        waiting.iter().for_each(|agent| self.look_at(agent));
    }

    fn replaces(&self, namespace: &str, station_ref: &str) -> bool {
        let station = self.world.stations.get(namespace, station_ref);
        station.is_some_and(|station| station.spec.concurrency_policy == ConcurrencyPolicy::Replace)
    }

    fn look_at(&self, agent: &Arc<Agent>) {
        // The loop is gone once the term is over.
        let _ = self.queue.send(ObjectRef::from_obj(&**agent));
    }
}

fn controller(object: &impl Resource<DynamicType = ()>) -> Option<(String, String)> {
    let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    Some((owner.name.clone(), owner.uid.clone()))
}
