//! Runs that are ended before their own end: on request, and for what never started.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{ResourceExt, runtime::controller::Action};
use signalbox_agents::{
    outcome::{self, Completion},
    start::{Start, start},
};
use signalbox_types::{Agent, Phase};

use crate::{
    apply::Error,
    clock::now,
    complete::End,
    metrics::FailureKind,
    plan,
    reconcile::Launcher,
    world::{is_owned_by, job_name, namespace_of},
};

/// Edits of an Agent that may come between two writes of its end.
const MAX_EDITS: usize = 3;

impl Launcher {
    /// Ends the run of an Agent that bears the annotation. Looked at live: the request may have been taken back.
    pub(crate) async fn cancel(&self, seen: &Agent) -> Result<Action, Error> {
        let live = self.world.look_live(seen).await.map_err(|error| Error::Read("Agent", error))?;
        let Some(live) = live.filter(|live| plan::is_cancelable(seen, live)) else { return Ok(Action::await_change()) };
        // A create whose outcome is unknown may still be carried out: a run that is said to be canceled must not start.
        if self.world.is_reserved(&live.uid().unwrap_or_default()) {
            return Ok(Action::requeue(plan::NEXT_LOOK));
        }
        let name = job_name(&live);
        let job = self.world.jobs.live(&namespace_of(&live), &name).await.map_err(|error| Error::Read("Job", error))?;
        match job.filter(|job| is_owned_by(job, &live)) {
            Some(job) if live.phase() == Phase::Running => self.cancel_job(&live, &job).await?,
            // Its create was seen, its status was not written: it runs, and is canceled as one that does.
            Some(_) => self.adopt(&live).await?,
            None if live.phase() == Phase::Running => {
                self.end(&live, &name, &End::early(plan::canceled(), FailureKind::Canceled)).await?
            }
            None => self.fail(&live, plan::canceled_before_start()).await?,
        }
        Ok(Action::await_change())
    }

    async fn cancel_job(&self, agent: &Agent, job: &Job) -> Result<(), Error> {
        if outcome::job_outcome(job) == outcome::JobOutcome::Running {
            self.look_at_pods(job).await?;
            let pod = self.world.newest_pod_of(job);
            self.stop(agent, job, pod.as_ref(), (plan::canceled(), FailureKind::Canceled)).await
        } else {
            // It was faster: its own end counts.
            self.complete(agent).await
        }
    }

    /// Ends a run by its Job, which was seen live with its pod: reads what it has printed so far, deletes the Job and with
    /// it the pod, writes the end. A leader that dies in between leaves a Running Agent without a Job; the next finds the
    /// same end for it.
    pub(crate) async fn stop(
        &self,
        agent: &Agent,
        job: &Job,
        pod: Option<&Pod>,
        (completion, kind): (Completion, FailureKind),
    ) -> Result<(), Error> {
        let started = pod.is_some_and(|pod| start(pod) == Start::Started);
        let log = match pod {
            Some(pod) if started => self.log_so_far(job, pod).await,
            _ => None,
        };
        self.apply.delete_job(job).await?;
        let (output, usage) = log.map_or((String::new(), None), |log| (log.text, log.usage));
        let end = End { completion: Completion { output, ..completion }, kind: Some(kind), started, usage };
        self.end_whatever_is_edited(agent, &job.name_any(), &end).await
    }

    /// Writes the end of a run whose Job is gone. What the run had to say is gone with it: that somebody edits the Agent
    /// at this moment must not cost it.
    async fn end_whatever_is_edited(&self, agent: &Agent, job: &str, end: &End) -> Result<(), Error> {
        let mut agent = agent.clone();
        for _ in 0..MAX_EDITS {
            match self.end(&agent, job, end).await {
                Err(Error::Write(error)) if error.code() == Some(409) => {}
                other => return other,
            }
            let live = self.world.look_live(&agent).await.map_err(|error| Error::Read("Agent", error))?;
            let same =
                |live: &Agent| live.uid() == agent.uid() && live.phase() == Phase::Running && !live.is_terminating();
            match live.filter(same) {
                Some(live) => agent = live,
                None => return Ok(()),
            }
        }
        self.end(&agent, job, end).await
    }

    /// The Store lacks the Job of a Running Agent. Asked live: if it is there the answer is in the Store now and leads
    /// on; else it is lost (T10), unless it was taken away to end the run.
    pub(crate) async fn find_job(&self, agent: &Agent) -> Result<(), Error> {
        let name = job_name(agent);
        if self.world.owns_job(agent, &name).await.map_err(|error| Error::Read("Job", error))? {
            return Ok(());
        }
        let station = self.world.station_of(agent);
        let limit = station.and_then(|station| station.spec.start_timeout_minutes());
        let taken_away = plan::taken_away(agent, limit, now());
        let (completion, kind) = taken_away.unwrap_or_else(|| (outcome::lost_job(), FailureKind::JobFailed));
        self.end(agent, &name, &End::early(completion, kind)).await
    }
}
