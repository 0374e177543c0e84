//! Decisions. Pure: no await, no client, no clock.

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use serde_json::{Value, json};
use signalbox_agents::{
    Run,
    job::{self, JobOptions},
    outcome::Completion,
    validate::{self, Switches},
};
use signalbox_types::{Agent, AgentDefinition, Phase, Station, Timestamp, names};

use crate::metrics::FailureKind;

/// What the Store knows of an Agent's Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobView {
    /// None that is the Agent's.
    Absent,
    /// One that has not ended.
    Running,
    /// One that has.
    Ended,
}

/// What the Store knows of an Agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) job: JobView,
    /// It waits for a slot, was found valid, and there is none.
    pub(crate) must_wait: bool,
}

/// What to do next about an Agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing: it waits, runs, has ended, or is another service's.
    Nothing,
    /// T18: it is being deleted and bears a claim that nobody else will release.
    ReleaseClaim,
    /// T1 to T6: look at it live and start it if there is room.
    Launch,
    /// T4 after a crash: its Job is there, the status does not say so.
    Adopt,
    /// The Store lacks the Job of a Running Agent: ask for it.
    FindJob,
    /// T8 to T11: its Job has ended.
    Complete,
}

/// The next step of an Agent. A phase that is terminal is never left: nothing is done (case 46).
pub(crate) fn plan(agent: &Agent, view: View) -> Plan {
    if agent.is_terminating() {
        let claimed = agent.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER_BATCH);
        return if claimed { Plan::ReleaseClaim } else { Plan::Nothing };
    }
    match agent.phase() {
        Phase::Succeeded | Phase::Failed => Plan::Nothing,
        Phase::Pending if view.job != JobView::Absent => Plan::Adopt,
        Phase::Pending if view.must_wait => Plan::Nothing,
        Phase::Pending => Plan::Launch,
        Phase::Running if is_batch(agent) => Plan::Nothing,
        Phase::Running => match view.job {
            JobView::Absent => Plan::FindJob,
            JobView::Running => Plan::Nothing,
            JobView::Ended => Plan::Complete,
        },
    }
}

/// A run that is at a vendor, or waits to go on in a Job: not ours.
fn is_batch(agent: &Agent) -> bool {
    let status = agent.status.as_ref();
    let batch = status.is_some_and(|status| status.batch_id.as_deref().is_some_and(|id| !id.is_empty()));
    batch && agent.recorded_job().is_none()
}

/// A run that ends before it starts.
#[derive(Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    pub(crate) reason: String,
}

/// True if the live Agent is still the one that was to be started.
pub(crate) fn is_startable(seen: &Agent, live: Option<&Agent>) -> bool {
    live.is_some_and(|live| live.uid() == seen.uid() && !live.is_terminating() && live.phase() == Phase::Pending)
}

/// The Job of an Agent that is to be started. Checked in the contract's order: references (T1), execution rules, the
/// Job (T2).
pub(crate) fn start(
    live: &Agent,
    recipe: Option<(&Station, &AgentDefinition)>,
    options: &JobOptions,
) -> Result<Job, Failure> {
    let Some((station, definition)) = recipe else {
        return Err(Failure { kind: FailureKind::MissingRef, reason: names::REASON_MISSING_REF.to_owned() });
    };
    let run = Run { agent: live, station, definition };
    let invalid = |reason| Failure { kind: FailureKind::Invalid, reason };
    // Neither batch-runner nor realtime-gateway exists yet.
    let switches = Switches { batch: false, realtime: false };
    validate::execution(&run, &switches).map_err(|rejection| invalid(rejection.to_string()))?;
    job::build(&run, options).map_err(|error| invalid(error.failure_reason()))
}

/// The status of a run that ends before it starts.
pub(crate) fn failed_status(reason: &str, now: Timestamp) -> Value {
    json!({ "phase": Phase::Failed, "failureReason": reason, "exitCode": 1, "completedAt": now })
}

/// T4: the status of a run whose Job is there.
pub(crate) fn running_status(job_name: &str, now: Timestamp) -> Value {
    json!({ "phase": Phase::Running, "jobName": job_name, "startedAt": now })
}

/// T8 to T11: the status of a run whose Job has ended or is lost.
pub(crate) fn ended_status(job_name: &str, completion: &Completion, now: Timestamp) -> Value {
    let mut status = json!({
        "phase": completion.phase,
        "jobName": job_name,
        "exitCode": completion.exit_code,
        "output": completion.output,
        "completedAt": now,
    });
    if let Some(reason) = &completion.failure_reason {
        status["failureReason"] = json!(reason);
    }
    status
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn agent(status: Value, terminating: bool, finalizers: &[&str]) -> Agent {
        let mut metadata =
            json!({"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "1", "finalizers": finalizers});
        if terminating {
            metadata["deletionTimestamp"] = json!("2026-06-22T12:00:00Z");
        }
        serde_json::from_value(json!({
            "apiVersion": names::API_VERSION, "kind": "Agent", "metadata": metadata,
            "spec": {"stationRef": "s"}, "status": status
        }))
        .unwrap()
    }

    const VIEWS: [View; 6] = [
        View { job: JobView::Absent, must_wait: false },
        View { job: JobView::Absent, must_wait: true },
        View { job: JobView::Running, must_wait: false },
        View { job: JobView::Running, must_wait: true },
        View { job: JobView::Ended, must_wait: false },
        View { job: JobView::Ended, must_wait: true },
    ];

    #[test]
    fn case_46_a_finished_run_is_left_alone_whatever_the_store_holds() {
        for view in VIEWS {
            assert_eq!(plan(&agent(json!({"phase": "Succeeded"}), false, &[]), view), Plan::Nothing);
            assert_eq!(plan(&agent(json!({"phase": "Failed"}), false, &[]), view), Plan::Nothing);
        }
    }

    #[test]
    fn case_44_a_run_that_is_being_deleted_is_neither_started_nor_completed() {
        for view in VIEWS {
            for status in [json!({}), json!({"phase": "Running", "jobName": "j"})] {
                assert_eq!(plan(&agent(status, true, &["another"]), view), Plan::Nothing);
            }
        }
    }

    #[test]
    fn a_claim_on_a_run_that_is_being_deleted_is_released() {
        let agent = agent(json!({}), true, &["another", names::FINALIZER_BATCH]);
        assert_eq!(plan(&agent, VIEWS[0]), Plan::ReleaseClaim);
    }

    #[rstest]
    #[case(json!(null), VIEWS[0], Plan::Launch)]
    #[case(json!({"phase": "Pending"}), VIEWS[0], Plan::Launch)]
    #[case(json!({}), VIEWS[1], Plan::Nothing)]
    #[case(json!({}), VIEWS[2], Plan::Adopt)]
    #[case(json!({}), VIEWS[4], Plan::Adopt)]
    fn case_1_an_agent_without_a_status_is_pending(#[case] status: Value, #[case] view: View, #[case] expected: Plan) {
        assert_eq!(plan(&agent(status, false, &[]), view), expected);
    }

    #[rstest]
    #[case(json!({"phase": "Running", "jobName": "j"}), VIEWS[0], Plan::FindJob)]
    #[case(json!({"phase": "Running", "jobName": "j"}), VIEWS[2], Plan::Nothing)]
    #[case(json!({"phase": "Running"}), VIEWS[2], Plan::Nothing)]
    #[case(json!({"phase": "Running", "jobName": ""}), VIEWS[4], Plan::Complete)]
    #[case(json!({"phase": "Running", "batchId": "b"}), VIEWS[0], Plan::Nothing)]
    #[case(json!({"phase": "Running", "batchId": "b", "batchFallback": true}), VIEWS[0], Plan::Nothing)]
    fn a_running_agent_follows_its_job(#[case] status: Value, #[case] view: View, #[case] expected: Plan) {
        assert_eq!(plan(&agent(status, false, &[]), view), expected);
    }

    #[test]
    fn case_4_an_agent_that_is_gone_another_finished_or_terminating_is_not_started() {
        let seen = agent(json!({}), false, &[]);
        let mut another = seen.clone();
        another.metadata.uid = Some("v".into());
        assert!(!is_startable(&seen, None));
        assert!(!is_startable(&seen, Some(&another)));
        assert!(!is_startable(&seen, Some(&agent(json!({"phase": "Succeeded"}), false, &[]))));
        assert!(!is_startable(&seen, Some(&agent(json!({"phase": "Running"}), false, &[]))));
        assert!(!is_startable(&seen, Some(&agent(json!({}), true, &[]))));
        assert!(is_startable(&seen, Some(&seen.clone())));
    }
}
