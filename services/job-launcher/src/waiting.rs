//! Between Running and a pod that has started: why it has not, and for how long it may not.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Pod},
};
use kube::{Api, ResourceExt, api::ListParams, runtime::controller::Action};
use signalbox_agents::{
    conditions::Conditions,
    outcome,
    start::{Obstacle, Start, has_node, told_by},
};
use signalbox_types::{Agent, Timestamp};

use crate::{
    apply::Error,
    clock::now,
    metrics::FailureKind,
    plan::{self, StartPlan},
    reconcile::Launcher,
    world::{is_owned_by, job_name, namespace_of},
};

impl Launcher {
    /// Looks at a run whose pod has not started: says why, and ends it once its Station's time is up.
    pub(crate) async fn watch_start(&self, agent: &Agent) -> Result<Action, Error> {
        let Some(job) = self.world.job_of(agent) else { return Ok(Action::await_change()) };
        let now = now();
        let (pod, start) = self.world.start_of(&job);
        if start == Start::Started {
            self.note(agent, Conditions::of(agent).started(now)).await?;
            return Ok(Action::await_change());
        }
        let waited = plan::waited(agent, &start, now);
        if let Some(early) = plan::START_PATIENCE.checked_sub(waited).filter(|early| !early.is_zero()) {
            return Ok(Action::requeue(early));
        }
        let obstacle = self.obstacle(agent, &job, pod.as_ref(), start).await?;
        let limit = self.world.station_of(agent).and_then(|at| at.spec.start_timeout_minutes());
        match plan::start_plan(agent, &obstacle, waited, limit, now) {
            StartPlan::Note(conditions) => {
                self.note(agent, conditions).await?;
                self.told.not_started(agent, &obstacle.reason, &obstacle.message);
                Ok(Action::requeue(plan::NEXT_LOOK))
            }
            StartPlan::Wait(time) => Ok(Action::requeue(time)),
            StartPlan::Overdue => self.give_up(agent, &obstacle, now).await,
        }
    }

    /// What stands in the way: as the pod says, as the Events say where it does not, or that there is nothing to tell.
    async fn obstacle(&self, agent: &Agent, job: &Job, pod: Option<&Pod>, start: Start) -> Result<Obstacle, Error> {
        if let Start::Blocked { by, .. } = start {
            return Ok(by);
        }
        let uid = pod.map_or_else(|| job.uid(), ResourceExt::uid).unwrap_or_default();
        let told = if self.world.may_ask_events(&agent.uid().unwrap_or_default()) {
            let params = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
            let events: Api<Event> = Api::namespaced(self.reader.clone(), &namespace_of(agent));
            let events = events.list(&params).await.map_err(|error| Error::Read("Events", error))?;
            told_by(&events.items, pod.is_some_and(has_node))
        } else {
            None
        };
        Ok(told.unwrap_or_else(|| plan::untold(agent, pod.is_some())))
    }

    async fn note(&self, agent: &Agent, conditions: Conditions) -> Result<(), Error> {
        if conditions.changed() {
            self.apply.patch_status(agent, plan::noted_status(conditions)).await?;
        }
        Ok(())
    }

    /// The Station's time is up. Decided on live reads: the limit may have been raised, the pod may have started, the Job
    /// may have ended.
    async fn give_up(&self, agent: &Agent, obstacle: &Obstacle, now: Timestamp) -> Result<Action, Error> {
        let again = Ok(Action::requeue(plan::NEXT_LOOK));
        let namespace = namespace_of(agent);
        let station = self.world.stations.live(&namespace, &agent.spec.station_ref).await;
        let station = station.map_err(|error| Error::Read("Station", error))?;
        let job = self.world.jobs.live(&namespace, &job_name(agent)).await;
        let job = job.map_err(|error| Error::Read("Job", error))?;
        let running = |job: &Job| is_owned_by(job, agent) && outcome::job_outcome(job) == outcome::JobOutcome::Running;
        let Some(job) = job.filter(running) else { return again };
        self.look_at_pods(&job).await?;
        let (pod, start) = self.world.start_of(&job);
        let limit = station.and_then(|station| station.spec.start_timeout_minutes());
        let overdue = |limit: &i64| plan::is_overdue(*limit, plan::waited(agent, &start, now));
        let Some(limit) = limit.filter(overdue).filter(|_| start != Start::Started) else { return again };
        let end = (plan::start_timeout(limit, obstacle), FailureKind::StartTimeout);
        self.stop(agent, &job, pod.as_ref(), end).await?;
        Ok(Action::await_change())
    }
}
