//! From Pending to Running: T1 to T5.

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use signalbox_agents::{admission::Admission, conditions::Conditions, job::JobOptions, start::Obstacle};
use signalbox_runtime::{list::Only, telemetry, write::WriteError};
use signalbox_types::{Agent, Station, Timestamp, names, resource_version};

use crate::{
    apply::Error,
    clock::now,
    metrics::FailureKind,
    plan::{self, Failure},
    reconcile::Launcher,
    reservations::Reservation,
    world::namespace_of,
};

/// Victims that one admission may delete: more than one only where a Station's limit was lowered under Replace.
const MAX_VICTIMS: usize = 64;

impl Launcher {
    /// Looks at a Pending Agent live and starts it if it is valid and there is room.
    pub(crate) async fn launch(&self, seen: &Agent) -> Result<(), Error> {
        let read = |what| move |error| Error::Read(what, error);
        let live = self.world.look_live(seen).await.map_err(read("Agent"))?;
        let Some(live) = live.filter(|live| plan::is_startable(seen, Some(live))) else { return Ok(()) };
        let namespace = namespace_of(&live);
        let station = self.world.stations.live(&namespace, &live.spec.station_ref).await.map_err(read("Station"))?;
        let definition = match &station {
            None => None,
            Some(station) => {
                let name = &station.spec.agent_def_ref;
                self.world.definitions.live(&namespace, name).await.map_err(read("AgentDefinition"))?
            }
        };
        let options = JobOptions { agent_image: self.args.agent_image.clone(), traceparent: telemetry::traceparent() };
        let recipe = station.as_ref().zip(definition.as_ref());
        match (plan::start(&live, recipe, &options), recipe) {
            (Ok(job), Some((station, definition))) => {
                self.world.set_validated(&live, (resource_version(station), resource_version(definition)));
                self.admit(&live, station, &job).await
            }
            (Err(failure), None) => {
                // Which of the two the contract's words leave open.
                let missing = match &station {
                    None => format!("Station {}", live.spec.station_ref),
                    Some(station) => format!("AgentDefinition {}", station.spec.agent_def_ref),
                };
                let detail = Some(format!("{}: {missing}", failure.reason));
                self.fail(&live, Failure { detail, ..failure }).await
            }
            (Err(failure), Some(_)) => self.fail(&live, failure).await,
            (Ok(_), None) => Ok(()),
        }
    }

    /// T4 after a crash between the Job's create and the status: the Job is there and the Agent's.
    pub(crate) async fn adopt(&self, seen: &Agent) -> Result<(), Error> {
        let live = self.world.look_live(seen).await.map_err(|error| Error::Read("Agent", error))?;
        let Some(live) = live.filter(|live| plan::is_startable(seen, Some(live))) else { return Ok(()) };
        let name = names::job_name(&live.name_any());
        self.apply.adopt_job(&live, &name).await?;
        self.set_running(&live, &name).await
    }

    async fn admit(&self, live: &Agent, station: &Station, job: &Job) -> Result<(), Error> {
        match self.world.admit(live, &station.spec) {
            (Admission::Admit, Some(reservation)) => self.create(live, job, reservation).await,
            (Admission::Replace { .. }, _) => self.replace(live, station, job).await,
            (Admission::Wait | Admission::Admit, _) => self.wait(live, station).await,
        }
    }

    /// T3. That it waits is written once.
    async fn wait(&self, live: &Agent, station: &Station) -> Result<(), Error> {
        if let Some(conditions) = plan::station_full(live, station, now()) {
            self.apply.patch_status(live, plan::noted_status(conditions)).await?;
            self.told.queued(live);
        }
        Ok(())
    }

    /// T5. The victim is chosen on a live LIST, and deleted only once the API server has said that it would take the
    /// new Job. A victim that was gone already frees nothing: it is counted again.
    async fn replace(&self, live: &Agent, station: &Station, job: &Job) -> Result<(), Error> {
        let (namespace, name) = (namespace_of(station), station.name_any());
        let fields = format!("spec.stationRef={name}");
        let is_of_station = |agent: &Agent| agent.spec.station_ref == name;
        let listed = self.world.agents.live_list(&namespace, Only::Fields(&fields), is_of_station).await;
        listed.map_err(|error| Error::Read("Agents of the Station", error))?;
        let mut tried = false;
        for _ in 0..MAX_VICTIMS {
            let victim = match self.world.admit(live, &station.spec) {
                (Admission::Admit, Some(reservation)) => return self.create(live, job, reservation).await,
                (Admission::Replace { victim }, _) => victim,
                (Admission::Wait | Admission::Admit, _) => return self.wait(live, station).await,
            };
            if !tried && let Err(error) = self.apply.try_job(job).await {
                return self.refused(live, error).await;
            }
            tried = true;
            let doomed = self.world.agents.get(&victim.namespace, &victim.name);
            if self.apply.delete_agent(&victim).await? {
                self.apply.metrics.failed(FailureKind::Preempted);
                doomed.iter().for_each(|doomed| self.told.preempted(doomed, live));
                tracing::info!(agent = live.name_any(), victim = victim.name, "replaced a running Agent");
            }
        }
        Ok(())
    }

    async fn create(&self, live: &Agent, job: &Job, reservation: Reservation) -> Result<(), Error> {
        let name = job.name_any();
        match self.apply.create_job(live, job).await {
            Ok(created) => {
                tracing::info!(agent = live.name_any(), job = name, created, "Job is there");
                if created {
                    self.told.job_created(live, &name);
                }
            }
            Err(error @ Error::Write(WriteError::Unknown(..))) => {
                reservation.keep_while_unknown();
                // If it was carried out after all, the run goes on from there.
                if self.apply.adopt_job(live, &name).await.is_err() {
                    self.note_refusal(live, &error).await?;
                    return Err(error);
                }
            }
            Err(error) => return self.refused(live, error).await,
        }
        self.set_running(live, &name).await
    }

    async fn set_running(&self, live: &Agent, job: &str) -> Result<(), Error> {
        let now = now();
        self.apply.patch_status(live, plan::running_status(live, job, now)).await?;
        if let Some(created) = live.creation_timestamp() {
            self.apply.metrics.queue.observe(now.seconds_since(Timestamp::new(created.0)).max(0.0));
        }
        self.world.forget(&live.uid().unwrap_or_default());
        Ok(())
    }

    /// A Job that the API server does not take: what is wrong with it ends the run, what stands against it now (a quota,
    /// a policy, another's Job) makes it wait and lets younger ones pass.
    async fn refused(&self, live: &Agent, error: Error) -> Result<(), Error> {
        match &error {
            Error::Write(WriteError::Refused { status, .. }) if matches!(status.code, 400 | 422) => {
                let reason = format!("{}{}", names::INVALID_RUN_PREFIX, status.message);
                self.fail(live, Failure::new(FailureKind::Invalid, reason)).await
            }
            _ => {
                self.world.step_aside(live);
                self.note_refusal(live, &error).await?;
                Err(error)
            }
        }
    }

    /// Says why an Agent that has its slot is not started.
    async fn note_refusal(&self, live: &Agent, error: &Error) -> Result<(), Error> {
        let Some(obstacle) = refusal(error) else { return Ok(()) };
        let conditions = Conditions::of(live).not_started(&obstacle.reason, &obstacle.message, now());
        if conditions.changed() {
            self.apply.patch_status(live, plan::noted_status(conditions)).await?;
            self.told.not_started(live, &obstacle.reason, &obstacle.message);
        }
        Ok(())
    }

    pub(crate) async fn fail(&self, live: &Agent, failure: Failure) -> Result<(), Error> {
        self.apply.patch_status(live, plan::failed_status(live, &failure, now())).await?;
        self.apply.metrics.ended(signalbox_types::Phase::Failed, 1, None);
        self.apply.metrics.failed(failure.kind);
        self.world.forget_ended(&live.uid().unwrap_or_default());
        tracing::info!(agent = live.name_any(), reason = failure.reason, "Agent failed before its start");
        self.told.failed_before_start(live, &failure);
        Ok(())
    }
}

/// What stands against a Job that the API server did not take.
fn refusal(error: &Error) -> Option<Obstacle> {
    match error {
        Error::JobNameTaken(_) => Some(Obstacle::new("JobNameTaken", &error.to_string())),
        Error::Write(WriteError::Refused { status, .. }) => {
            let quota = status.message.contains("exceeded quota");
            Some(Obstacle::new(if quota { "QuotaExceeded" } else { "JobCreateFailed" }, &status.message))
        }
        Error::Write(WriteError::Unknown(_, kube::Error::Api(status))) => {
            Some(Obstacle::new("JobCreateFailed", &status.message))
        }
        Error::Write(WriteError::Unknown(..)) => {
            Some(Obstacle::new("JobCreateFailed", "no answer to the Job's create"))
        }
        Error::Write(WriteError::NotLeader(_)) | Error::Read(..) => None,
    }
}
