//! The names of the contract, each once: labels, annotations, finalizers, Secrets, variables, paths and reasons.
//! Pages: `docs/contract/agents.md` sections 3, 4, 13 and 15.

use std::path::{Path, PathBuf};

/// The API group of Agents, Stations and AgentDefinitions.
pub const GROUP: &str = "agents.re-cinq.com";
/// The group and its one version, as an owner reference has it.
pub const API_VERSION: &str = "agents.re-cinq.com/v1alpha1";

/// Label of everything that belongs to a run; its value is [`COMPONENT_JOB`].
pub const LABEL_COMPONENT: &str = "agents.re-cinq.com/component";
/// Value of [`LABEL_COMPONENT`].
pub const COMPONENT_JOB: &str = "job";
/// Label with the Agent's name, shortened to 63 bytes by [`shortened`].
pub const LABEL_AGENT: &str = "agents.re-cinq.com/agent";
/// Label with the Station's name, shortened to 63 bytes by [`shortened`].
pub const LABEL_STATION: &str = "agents.re-cinq.com/station";
/// The selector of the Jobs and Pods of runs.
pub const RUN_SELECTOR: &str = "agents.re-cinq.com/component=job";
/// Label that Kubernetes puts on the pods of a Job.
pub const LABEL_JOB_NAME: &str = "job-name";
/// Annotation that keeps the cluster autoscaler from evicting a run.
pub const ANNOTATION_SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
/// Annotation of a Job with the W3C trace context of its run.
pub const ANNOTATION_TRACEPARENT: &str = "agents.re-cinq.com/traceparent";
/// Annotation of a Job with the model of its run: it says how the run's log is read, whatever its recipe says by then.
pub const ANNOTATION_MODEL: &str = "agents.re-cinq.com/model";
/// Annotation of a Job whose run goes on with an earlier session: `true`.
pub const ANNOTATION_RESUMED: &str = "agents.re-cinq.com/resumed";
/// Annotation of an Agent whose run is to end: `true`.
pub const ANNOTATION_CANCEL: &str = "agents.re-cinq.com/cancel";
/// Finalizer of a run that has, or may have, a batch at a vendor: the claim.
pub const FINALIZER_BATCH: &str = "agents.re-cinq.com/batch-cleanup";

/// The Secret that holds every credential a run may name.
pub const AGENT_SECRETS: &str = "agent-secrets";

/// The container of a Station's template that runs the agent.
pub const CONTAINER_AGENT: &str = "agent";
/// The init container that prepares the run.
pub const CONTAINER_INIT: &str = "init";
/// The volume that carries the supervisor and is the agent's home.
pub const VOLUME_AGENT: &str = "agent";
/// The volume the agent works in.
pub const VOLUME_WORKSPACE: &str = "workspace";
/// Where [`VOLUME_AGENT`] is mounted; also `HOME`.
pub const AGENT_HOME: &str = "/agent";
/// Where [`VOLUME_WORKSPACE`] is mounted.
pub const WORKSPACE: &str = "/workspace";
/// Where the initializer puts the supervisor.
pub const SUPERVISOR_PATH: &str = "/agent/bin/ai-agent-supervisor";
/// Where the agent image keeps the supervisor.
pub const STAGED_SUPERVISOR_PATH: &str = "/usr/local/lib/ai-agent/ai-agent-supervisor";
/// Where the initializer leaves its start, in milliseconds of boot time, so that the deadline counts from there however
/// long the preparation took. Boot time is one clock for all containers of a node and no one can set it.
pub const STARTED_STAMP_PATH: &str = "/agent/.started-boottime-ms";
/// What the initializer leaves where the conversation that the run was to go on with is not there: the supervisor starts the
/// CLI without it.
pub const FRESH_MARK_PATH: &str = "/agent/.fresh-conversation";
/// `PATH` of both containers of a run.
pub const RUN_PATH: &str = "/agent/.local/bin:/usr/local/bin:/usr/bin:/bin";
/// The uid and gid of the agent.
pub const RUN_UID: u32 = 1000;

/// T1: what a run refers to is not there.
pub const REASON_MISSING_REF: &str = "Station or AgentDefinition not found";
/// T10: the Job vanished before its result was seen.
pub const REASON_JOB_LOST: &str = "run record unavailable: Job garbage-collected before its result was observed";
/// T11: the pod vanished before its output was read.
pub const REASON_OUTPUT_LOST: &str = "run output unavailable: pod garbage-collected";
/// A failed Job that gives no reason.
pub const REASON_JOB_FAILED: &str = "Job failed";
/// The reason in the supervisor's last event of a run that it ended for its silence.
pub const REASON_STALLED: &str = "stalled";
/// A run that was ended by [`ANNOTATION_CANCEL`].
pub const REASON_CANCELED: &str = "canceled";
/// T2: prefix of the errors of the Job builder.
pub const INVALID_RUN_PREFIX: &str = "invalid run: ";
/// T2: `resumeSession` without realtime.
pub const REASON_RESUME_NEEDS_REALTIME: &str = "resumeSession requires realtime execution";
/// T2: no batch-runner is deployed.
pub const REASON_BATCH_DISABLED: &str = "batch execution is disabled on this controller";
/// T2: no realtime-gateway is deployed.
pub const REASON_REALTIME_DISABLED: &str = "realtime execution is disabled on this controller";

/// Condition of an Agent: it has a slot of its Station.
pub const CONDITION_ADMITTED: &str = "Admitted";
/// Condition of an Agent: its pod runs, or why not.
pub const CONDITION_STARTED: &str = "Started";
/// Condition of an Agent: it has ended, and how.
pub const CONDITION_FINISHED: &str = "Finished";

/// The longest label value and Job name, in bytes.
const MAX_LABEL: usize = 63;
/// What is kept of a longer one before its hash.
const KEPT_PREFIX: usize = 54;

/// Where a path below [`AGENT_HOME`] is in another folder that takes its place.
pub fn beneath(agent_dir: &Path, path: &str) -> PathBuf {
    let path = Path::new(path);
    agent_dir.join(path.strip_prefix(AGENT_HOME).unwrap_or(path))
}

/// The name of an Agent's Job: `agent-job-<agent>`, shortened.
pub fn job_name(agent: &str) -> String {
    shortened(&format!("agent-job-{agent}"))
}

/// `name` where it fits into 63 bytes; else its first 54 without trailing `.` and `-`, a dash, and the low 32 bits of
/// the 64-bit FNV-1a of the whole name as 8 hexadecimal digits. Deterministic, so that a Job can be found again.
pub fn shortened(name: &str) -> String {
    if name.len() <= MAX_LABEL {
        return name.to_owned();
    }
    let cut = name.floor_char_boundary(KEPT_PREFIX);
    let prefix = name[..cut].trim_end_matches(['.', '-']);
    format!("{prefix}-{:08x}", fnv1a(name.as_bytes()) & 0xffff_ffff)
}

/// 64-bit FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("bug-fixer-run-6ltzm", "agent-job-bug-fixer-run-6ltzm")]
    #[case(
        "an-extremely-long-agent-name-that-runs-well-past-the-sixty-three-char-limit",
        "agent-job-an-extremely-long-agent-name-that-runs-well-1a4440fa"
    )]
    #[case(
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbb",
        "agent-job-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-ad13fdfa"
    )]
    fn a_job_is_named_after_its_agent(#[case] agent: &str, #[case] job: &str) {
        assert_eq!(job_name(agent), job);
    }

    #[test]
    fn a_long_label_is_shortened_alike() {
        let name = "an-extremely-long-agent-name-that-runs-well-past-the-sixty-three-char-limit";
        assert_eq!(shortened(name), "an-extremely-long-agent-name-that-runs-well-past-the-s-7ae605e8");
    }

    #[test]
    fn case_19_a_name_of_253_dotted_characters_gives_a_valid_job_name_every_time() {
        let agent = format!("{}a", "a.".repeat(126));
        let job = job_name(&agent);
        assert_eq!(agent.len(), 253);
        assert!(job.len() <= 63 && job.starts_with("agent-job-a.a"), "{job}");
        assert!(job.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.' || b == b'-'));
        assert_eq!(job, job_name(&agent));
    }
}
