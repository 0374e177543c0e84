//! From Running to the end: T8 to T11.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;
use signalbox_agents::outcome::{self, Completion, PodResult};
use signalbox_runtime::list::Only;
use signalbox_types::{Agent, Phase, Timestamp, names};

use crate::{
    apply::Error,
    clock::now,
    log::{self, Log},
    metrics::FailureKind,
    plan,
    reconcile::Launcher,
    world::{is_owned_by, job_name},
};

/// How long after its Job's end a log that cannot be read now is asked for again. A kubelet that restarts is back by
/// then; a node that is lost is not, and the run must end.
const LOG_PATIENCE_SECONDS: f64 = 120.0;

impl Launcher {
    /// The Store lacks the Job of a Running Agent. Asked live: if it is there the answer is in the Store now and leads
    /// on; else it is lost (T10).
    pub(crate) async fn find_job(&self, agent: &Agent) -> Result<(), Error> {
        let name = job_name(agent);
        if self.world.owns_job(agent, &name).await.map_err(|error| Error::Read("Job", error))? {
            return Ok(());
        }
        self.end(agent, &name, outcome::completion(None, None, None)).await
    }

    /// The Job has ended: reads what its pod left, and writes the end of the run.
    pub(crate) async fn complete(&self, agent: &Agent) -> Result<(), Error> {
        let Some(job) = self.world.job_of(agent) else { return Ok(()) };
        let pod = self.find_pod(&job).await?;
        let result = pod.as_ref().map(outcome::pod_result);
        let log = match (&pod, result) {
            (Some(pod), Some(result)) => self.read_log(&job, pod, result).await?,
            _ => None,
        };
        let completion = outcome::completion(Some(&job), result, log);
        self.end(agent, &job.name_any(), completion).await
    }

    /// The newest pod of the Job. The Store's is good if it has ended; it may lag behind the Job, so else it is asked
    /// for.
    async fn find_pod(&self, job: &Job) -> Result<Option<Pod>, Error> {
        let newest = |world: &crate::world::World| {
            let pods = world.pods_of(job);
            outcome::newest(pods.iter().map(AsRef::as_ref)).cloned()
        };
        let held = newest(&self.world);
        if held.as_ref().is_some_and(|pod| outcome::pod_result(pod).exit_code.is_some()) {
            return Ok(held);
        }
        let labels = format!("{}={}", names::LABEL_JOB_NAME, job.name_any());
        let listed = self.world.pods.live_list(Only::Labels(&labels), |pod| is_owned_by(pod, job)).await;
        listed.map_err(|error| Error::Read("Pods of the Job", error))?;
        Ok(newest(&self.world))
    }

    async fn read_log(&self, job: &Job, pod: &Pod, result: PodResult) -> Result<Option<String>, Error> {
        let limit = usize::try_from(self.args.max_output_bytes).unwrap_or(usize::MAX);
        match log::read(&self.world.pods.api(), &pod.name_any(), result.container, limit).await {
            Log::Read(text) => Ok(Some(text)),
            Log::Gone => Ok(None),
            Log::Failed(error) => {
                let ended = ended_at(job).map_or(f64::MAX, |at| now().seconds_since(at));
                if ended < LOG_PATIENCE_SECONDS {
                    return Err(Error::Read("log", error));
                }
                tracing::warn!(pod = pod.name_any(), %error, "log given up");
                Ok(None)
            }
        }
    }

    async fn end(&self, agent: &Agent, job: &str, completion: Option<Completion>) -> Result<(), Error> {
        let Some(completion) = completion else { return Ok(()) };
        let now = now();
        self.apply.patch_status(agent, plan::ended_status(job, &completion, now)).await?;
        let started = agent.status.as_ref().and_then(|status| status.started_at);
        let seconds = started.map(|started| now.seconds_since(started).max(0.0));
        self.apply.metrics.ended(completion.phase, completion.exit_code, seconds);
        match (completion.phase, completion.failure_reason.as_deref()) {
            (Phase::Succeeded, None) => {}
            (Phase::Succeeded, Some(_)) => self.apply.metrics.failed(FailureKind::OutputUnavailable),
            _ => self.apply.metrics.failed(FailureKind::JobFailed),
        }
        let reason = completion.failure_reason.as_deref().unwrap_or_default();
        let (name, phase, code) = (agent.name_any(), completion.phase.as_str(), completion.exit_code);
        tracing::info!(agent = name, job, phase, exit_code = code, reason, "Agent ended");
        Ok(())
    }
}

/// When the Job's last condition came true.
fn ended_at(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .filter_map(|condition| condition.last_transition_time.as_ref())
        .map(|at| Timestamp::new(at.0))
        .max()
}
