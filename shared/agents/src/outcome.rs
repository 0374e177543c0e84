//! What the end of a run's Job and pod means: `docs/contract/agents.md` sections 3 and 4, T7 to T11.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ContainerState, ContainerStatus, Pod},
};
use signalbox_types::{
    Phase,
    event::Lifecycle,
    names::{CONTAINER_AGENT, CONTAINER_INIT, REASON_JOB_FAILED, REASON_JOB_LOST, REASON_OUTPUT_LOST, REASON_STALLED},
};

/// How a Job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOutcome {
    /// Not ended.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed {
        /// The Job's own reason and message, or [`REASON_JOB_FAILED`].
        reason: String,
    },
}

/// How `job` stands: by its conditions, else by its counters. `FailureTarget` and `SuccessCriteriaMet` only announce an
/// end, while pods still run.
pub fn job_outcome(job: &Job) -> JobOutcome {
    let Some(status) = &job.status else { return JobOutcome::Running };
    let condition = |kind: &str| {
        status.conditions.iter().flatten().find(|condition| condition.type_ == kind && condition.status == "True")
    };
    if condition("Complete").is_some() {
        return JobOutcome::Succeeded;
    }
    if let Some(failed) = condition("Failed") {
        let texts = [&failed.reason, &failed.message].into_iter().flatten().filter(|text| !text.is_empty());
        let reason = texts.map(String::as_str).collect::<Vec<_>>().join(": ");
        return JobOutcome::Failed { reason: if reason.is_empty() { REASON_JOB_FAILED.to_owned() } else { reason } };
    }
    // The counters run ahead of an end that is announced: at a deadline `failed` is 1 while the pod is still being
    // stopped, and the reason only comes with the condition.
    if condition("FailureTarget").or_else(|| condition("SuccessCriteriaMet")).is_some() {
        JobOutcome::Running
    } else if status.succeeded.unwrap_or(0) > 0 {
        JobOutcome::Succeeded
    } else if status.failed.unwrap_or(0) > 0 {
        JobOutcome::Failed { reason: REASON_JOB_FAILED.to_owned() }
    } else {
        JobOutcome::Running
    }
}

/// The pod that was created last. A Job has one pod, but where a node was lost there may be the remains of another.
pub fn newest<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Option<&'a Pod> {
    pods.into_iter().max_by_key(|pod| (pod.metadata.creation_timestamp.as_ref(), pod.metadata.name.as_deref()))
}

/// What a pod tells of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodResult {
    /// The container whose log is the run's output. The log of one that never started is an error, not empty.
    pub container: &'static str,
    /// The exit code of that container, `None` where it has none.
    pub exit_code: Option<i32>,
    /// True where that container ran: one that could not be started has an exit code too.
    pub ran: bool,
    /// True where the kernel ended that container because it took more memory than it may.
    pub out_of_memory: bool,
}

/// What `pod` tells: its container `agent`, unless `init` did not let it start.
pub fn pod_result(pod: &Pod) -> PodResult {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| state(status.init_container_statuses.as_deref(), CONTAINER_INIT));
    let init_code = init.and_then(exit_code);
    let init_is_running = init.is_some_and(|state| state.running.is_some());
    if init_is_running || init_code.is_some_and(|code| code != 0) {
        return result(CONTAINER_INIT, init);
    }
    result(CONTAINER_AGENT, status.and_then(|status| state(status.container_statuses.as_deref(), CONTAINER_AGENT)))
}

fn result(container: &'static str, state: Option<&ContainerState>) -> PodResult {
    let ended = state.and_then(|state| state.terminated.as_ref());
    let out_of_memory = ended.is_some_and(|ended| ended.reason.as_deref() == Some("OOMKilled"));
    let ran = ended.is_some_and(|ended| ended.started_at.as_ref().is_some_and(|at| at.0.as_second() > 0));
    PodResult { container, exit_code: ended.map(|ended| ended.exit_code), ran, out_of_memory }
}

fn state<'a>(statuses: Option<&'a [ContainerStatus]>, name: &str) -> Option<&'a ContainerState> {
    statuses?.iter().find(|status| status.name == name)?.state.as_ref()
}

fn exit_code(state: &ContainerState) -> Option<i32> {
    state.terminated.as_ref().map(|terminated| terminated.exit_code)
}

/// The end of a run, as its status has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Succeeded or Failed.
    pub phase: Phase,
    /// 0 exactly where the run Succeeded.
    pub exit_code: i32,
    /// The end of what it printed.
    pub output: String,
    /// Why it failed, or why a run that Succeeded has no output.
    pub failure_reason: Option<String>,
    /// The reason of its condition `Finished`.
    pub finish: &'static str,
}

impl Completion {
    /// What a person is told: the exit code, what the run's supervisor said of it, and the Job's own reason.
    pub fn told(&self) -> String {
        let reason = self.failure_reason.as_deref().unwrap_or_default();
        if self.phase == Phase::Succeeded || self.finish == finish::CANCELED || self.finish == finish::START_TIMEOUT {
            return reason.to_owned();
        }
        let said = last_word(&self.output).map(|said| format!(" ({said})")).unwrap_or_default();
        format!("exit code {}{said}: {reason}", self.exit_code)
    }

    /// A run that failed. It never has code 0, whatever its container reported.
    pub fn failed(reason: &str, exit_code: i32, output: String, finish: &'static str) -> Self {
        let exit_code = if exit_code == 0 { 1 } else { exit_code };
        Self { phase: Phase::Failed, exit_code, output, failure_reason: Some(reason.to_owned()), finish }
    }
}

/// The reasons of the condition `Finished`, in one word each: `docs/contract/agents.md` section 4.1.
pub mod finish {
    /// Exit code 0.
    pub const SUCCEEDED: &str = "Succeeded";
    /// T1.
    pub const MISSING_REFERENCE: &str = "MissingReference";
    /// T2.
    pub const INVALID_RUN: &str = "InvalidRun";
    /// T9 for no reason below.
    pub const JOB_FAILED: &str = "JobFailed";
    /// T9 at the Station's deadline.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// T9 after too long a silence of the CLI.
    pub const STALLED: &str = "Stalled";
    /// T9 for too much memory.
    pub const OUT_OF_MEMORY: &str = "OOMKilled";
    /// T10.
    pub const JOB_LOST: &str = "JobLost";
    /// The pod did not start within the Station's time.
    pub const START_TIMEOUT: &str = "StartTimeout";
    /// Somebody asked for it.
    pub const CANCELED: &str = "Canceled";
}

/// The exit code of a run that its supervisor ended: at its deadline, or for its silence.
const CODE_DEADLINE: i32 = 124;

/// The end of a Running run: of its `job` (`None` once it is known to be gone), its pod (`None` when that is gone) and
/// its log, capped (`None` when it could not be read). `None` while the Job has not ended.
pub fn completion(job: Option<&Job>, pod: Option<PodResult>, log: Option<String>) -> Option<Completion> {
    let Some(job) = job else { return Some(lost_job()) };
    // A log without its pod is not the log of this run.
    let output = pod.and(log);
    match job_outcome(job) {
        JobOutcome::Running => None,
        JobOutcome::Failed { reason } => {
            let output = output.unwrap_or_default();
            let code = pod.and_then(|pod| pod.exit_code).unwrap_or(1);
            let finish = why_failed(&reason, code, pod, &output);
            Some(Completion::failed(&reason, code, output, finish))
        }
        JobOutcome::Succeeded => {
            let failure_reason = output.is_none().then(|| REASON_OUTPUT_LOST.to_owned());
            let output = output.unwrap_or_default();
            Some(Completion {
                phase: Phase::Succeeded,
                exit_code: 0,
                output,
                failure_reason,
                finish: finish::SUCCEEDED,
            })
        }
    }
}

/// T10: the end of a run whose Job is gone.
pub fn lost_job() -> Completion {
    Completion::failed(REASON_JOB_LOST, 1, String::new(), finish::JOB_LOST)
}

fn why_failed(job_reason: &str, code: i32, pod: Option<PodResult>, output: &str) -> &'static str {
    if pod.is_some_and(|pod| pod.out_of_memory) {
        finish::OUT_OF_MEMORY
    } else if code == CODE_DEADLINE && last_word(output).is_some_and(|reason| reason == REASON_STALLED) {
        finish::STALLED
    } else if code == CODE_DEADLINE || job_reason.starts_with(finish::DEADLINE_EXCEEDED) {
        finish::DEADLINE_EXCEEDED
    } else {
        finish::JOB_FAILED
    }
}

/// The reason in the run's last lifecycle event. It is the supervisor's last line; what a grandchild of the CLI wrote to
/// the log at the same time may follow.
fn last_word(output: &str) -> Option<String> {
    let mut last = output.lines().rev().take(20);
    last.find_map(|line| serde_json::from_str::<Lifecycle>(line).ok())?.reason
}
