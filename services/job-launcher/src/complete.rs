//! From Running to the end: T8 to T11.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;
use signalbox_agents::outcome::{self, Completion, PodResult};
use signalbox_runtime::list::Only;
use signalbox_types::{
    Agent, Phase, Timestamp, Usage,
    names::{self, CONTAINER_AGENT},
};
use signalbox_vendors::Vendor;

use crate::{
    apply::Error,
    clock::now,
    log::{self, Log, Reading, RunLog},
    metrics::FailureKind,
    plan,
    reconcile::Launcher,
    world::{is_owned_by, namespace_of},
};

/// How long after its Job's end a log that cannot be read now is asked for again. A kubelet that restarts is back by
/// then; a node that is lost is not, and the run must end.
const LOG_PATIENCE_SECONDS: f64 = 120.0;

impl Launcher {
    /// The Job has ended: reads what its pod left, and writes the end of the run.
    pub(crate) async fn complete(&self, agent: &Agent) -> Result<(), Error> {
        let Some(job) = self.world.job_of(agent) else { return Ok(()) };
        let pod = self.find_pod(&job).await?;
        let result = pod.as_ref().map(outcome::pod_result).or_else(|| self.world.gone(&job));
        let log = match (&pod, result) {
            (Some(pod), Some(result)) => self.read_log(&job, pod, result).await?,
            _ => None,
        };
        let (output, usage) = log.map_or((None, None), |log| (Some(log.text), log.usage));
        let started = result.is_some_and(|result| result.container == CONTAINER_AGENT && result.ran);
        let Some(completion) = outcome::completion(Some(&job), result, output) else { return Ok(()) };
        self.end(agent, &job.name_any(), &End { completion, kind: None, started, usage }).await
    }

    /// The newest pod of the Job. The Store's is good if it has ended; it may lag behind the Job, so else it is asked
    /// for.
    async fn find_pod(&self, job: &Job) -> Result<Option<Pod>, Error> {
        let held = self.world.newest_pod_of(job);
        if held.as_ref().is_some_and(|pod| outcome::pod_result(pod).exit_code.is_some()) {
            return Ok(held);
        }
        self.look_at_pods(job).await?;
        Ok(self.world.newest_pod_of(job))
    }

    /// Asks live for the pods of a Job; they are in the Store then.
    pub(crate) async fn look_at_pods(&self, job: &Job) -> Result<(), Error> {
        let labels = format!("{}={}", names::LABEL_JOB_NAME, job.name_any());
        let (namespace, labels) = (namespace_of(job), Only::Labels(&labels));
        let listed = self.world.pods.live_list(&namespace, labels, |pod| is_owned_by(pod, job)).await;
        listed.map_err(|error| Error::Read("Pods of the Job", error))
    }

    /// What a run has printed so far; nothing where it cannot be read now.
    pub(crate) async fn log_so_far(&self, job: &Job, pod: &Pod) -> Option<RunLog> {
        let container = outcome::pod_result(pod).container;
        let pods = self.world.pods.api(&namespace_of(pod));
        match log::read(&pods, &pod.name_any(), container, &self.reading(job)).await {
            Log::Read(log) => Some(log),
            Log::Gone | Log::Failed(_) => None,
        }
    }

    fn reading(&self, job: &Job) -> Reading {
        let limit = usize::try_from(self.args.max_output_bytes).unwrap_or(usize::MAX);
        let annotation = |name: &str| job.annotations().get(name).map(String::as_str);
        let vendor = annotation(names::ANNOTATION_MODEL).map(Vendor::route);
        Reading { limit, vendor, resumed: annotation(names::ANNOTATION_RESUMED).is_some() }
    }

    async fn read_log(&self, job: &Job, pod: &Pod, result: PodResult) -> Result<Option<RunLog>, Error> {
        let pods = self.world.pods.api(&namespace_of(pod));
        match log::read(&pods, &pod.name_any(), result.container, &self.reading(job)).await {
            Log::Read(log) => Ok(Some(log)),
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

    /// Writes the end of a run.
    pub(crate) async fn end(&self, agent: &Agent, job: &str, end: &End) -> Result<(), Error> {
        let (now, completion) = (now(), &end.completion);
        let status = plan::ended_status(agent, job, completion, (end.started, end.usage.as_ref()), now);
        self.apply.patch_status(agent, status).await?;
        let started = agent.status.as_ref().and_then(|status| status.started_at);
        let seconds = started.map(|started| now.seconds_since(started).max(0.0));
        self.apply.metrics.ended(completion.phase, completion.exit_code, seconds);
        self.apply.metrics.used(end.usage.as_ref());
        match (end.kind, completion.phase, completion.failure_reason.as_deref()) {
            (Some(kind), ..) => self.apply.metrics.failed(kind),
            (None, Phase::Succeeded, None) => {}
            (None, Phase::Succeeded, Some(_)) => self.apply.metrics.failed(FailureKind::OutputUnavailable),
            (None, ..) => self.apply.metrics.failed(FailureKind::JobFailed),
        }
        let reason = completion.failure_reason.as_deref().unwrap_or_default();
        let (name, phase, code) = (agent.name_any(), completion.phase.as_str(), completion.exit_code);
        tracing::info!(agent = name, job, phase, exit_code = code, reason, "Agent ended");
        self.told.ended(agent, completion);
        self.world.forget_ended(&agent.uid().unwrap_or_default());
        Ok(())
    }
}

/// The end of a run, and what is known of it.
pub(crate) struct End {
    pub(crate) completion: Completion,
    /// What the failure counts as, where it is not the Job's.
    pub(crate) kind: Option<FailureKind>,
    /// Whether its agent is known to have started.
    pub(crate) started: bool,
    pub(crate) usage: Option<Usage>,
}

impl End {
    /// An end before the Job's own.
    pub(crate) const fn early(completion: Completion, kind: FailureKind) -> Self {
        Self { completion, kind: Some(kind), started: false, usage: None }
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
