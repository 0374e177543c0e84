//! Decisions. Pure: no await, no client, no clock.

use std::time::Duration;

use k8s_openapi::{api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::Condition};
use kube::ResourceExt;
use serde_json::{Value, json};
use signalbox_agents::{
    Run,
    conditions::Conditions,
    job::{self, JobOptions},
    outcome::{Completion, finish},
    start::{Obstacle, Start},
    validate::{self, Switches},
};
use signalbox_types::{Agent, AgentDefinition, Phase, Station, Timestamp, Usage, names};

use crate::metrics::FailureKind;

/// How long a pod may take to start before anybody is told why it has not.
pub(crate) const START_PATIENCE: Duration = Duration::from_secs(10);
/// How long until that nobody tells anything is worth being told: a pod that pulls its image says nothing else.
const UNTOLD_PATIENCE: Duration = Duration::from_secs(18);
/// Between two looks at a run that does not start and of which nothing is heard.
pub(crate) const NEXT_LOOK: Duration = Duration::from_secs(10);

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
    /// Its pod has not started, or has and the status still says that it has not.
    pub(crate) start_open: bool,
}

/// What to do next about an Agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Plan {
    /// Nothing: it waits, runs, has ended, or is another service's.
    Nothing,
    /// T18: it is being deleted and bears a claim that nobody else will release.
    ReleaseClaim,
    /// T1 to T6: look at it live and start it if there is room.
    Launch,
    /// T4 after a crash: its Job is there, the status does not say so.
    Adopt,
    /// Somebody asked for its end.
    Cancel,
    /// Its pod has not started: say why, or end it.
    WatchStart,
    /// The Store lacks the Job of a Running Agent: ask for it.
    FindJob,
    /// T8 to T11: its Job has ended.
    Complete,
}

/// The next step of an Agent. A phase that is terminal is never left: nothing is done (case 46).
pub(crate) fn plan(agent: &Agent, view: View) -> Plan {
    if agent.is_terminating() {
        return if has_claim(agent) { Plan::ReleaseClaim } else { Plan::Nothing };
    }
    match agent.phase() {
        Phase::Succeeded | Phase::Failed => Plan::Nothing,
        Phase::Pending if view.job != JobView::Absent => Plan::Adopt,
        Phase::Pending if agent.is_cancel_requested() => Plan::Cancel,
        Phase::Pending if view.must_wait => Plan::Nothing,
        Phase::Pending => Plan::Launch,
        Phase::Running if is_batch(agent) => Plan::Nothing,
        Phase::Running => match view.job {
            JobView::Ended => Plan::Complete,
            _ if agent.is_cancel_requested() => Plan::Cancel,
            JobView::Absent => Plan::FindJob,
            JobView::Running if view.start_open => Plan::WatchStart,
            JobView::Running => Plan::Nothing,
        },
    }
}

fn has_claim(agent: &Agent) -> bool {
    agent.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER_BATCH)
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
    /// What a person is told beside the contract's words.
    pub(crate) detail: Option<String>,
}

impl Failure {
    /// A failure of which the reason says all.
    pub(crate) const fn new(kind: FailureKind, reason: String) -> Self {
        Self { kind, reason, detail: None }
    }

    /// What a person is told.
    pub(crate) fn told(&self) -> &str {
        self.detail.as_deref().unwrap_or(&self.reason)
    }

    const fn finish(&self) -> &'static str {
        match self.kind {
            FailureKind::MissingRef => finish::MISSING_REFERENCE,
            FailureKind::Canceled => finish::CANCELED,
            _ => finish::INVALID_RUN,
        }
    }
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
        return Err(Failure::new(FailureKind::MissingRef, names::REASON_MISSING_REF.to_owned()));
    };
    let run = Run { agent: live, station, definition };
    let invalid = |reason| Failure::new(FailureKind::Invalid, reason);
    // Neither batch-runner nor realtime-gateway exists yet.
    let switches = Switches { batch: false, realtime: false };
    // A claim holds a slot. Nobody but a service may set one, and anybody who makes Agents can: it must not be a way past
    // the limit of a Station.
    if has_claim(live) && !switches.batch {
        return Err(invalid(names::REASON_BATCH_DISABLED.to_owned()));
    }
    validate::execution(&run, &switches).map_err(|rejection| invalid(rejection.to_string()))?;
    job::build(&run, options).map_err(|error| invalid(error.failure_reason()))
}

/// The status of a run that ends before it starts.
pub(crate) fn failed_status(agent: &Agent, failure: &Failure, now: Timestamp) -> Value {
    let conditions = Conditions::of(agent).finished(failure.finish(), failure.told(), now).into_vec();
    json!({
        "phase": Phase::Failed,
        "failureReason": failure.reason,
        "exitCode": 1,
        "completedAt": now,
        "conditions": conditions,
    })
}

/// T4: the status of a run whose Job is there.
pub(crate) fn running_status(agent: &Agent, job_name: &str, now: Timestamp) -> Value {
    let conditions = Conditions::of(agent).admitted(now).without_started().into_vec();
    json!({ "phase": Phase::Running, "jobName": job_name, "startedAt": now, "conditions": conditions })
}

/// The status of a run of which only the conditions change.
pub(crate) fn noted_status(conditions: Conditions) -> Value {
    json!({ "conditions": conditions.into_vec() })
}

/// T8 to T11: the status of a run whose Job has ended or is lost. `started` is whether its agent is known to have.
pub(crate) fn ended_status(
    agent: &Agent,
    job_name: &str,
    completion: &Completion,
    (started, usage): (bool, Option<&Usage>),
    now: Timestamp,
) -> Value {
    let conditions = Conditions::of(agent);
    let conditions = if started { conditions.started(now) } else { conditions };
    let conditions = conditions.finished(completion.finish, &completion.told(), now).into_vec();
    let mut status = json!({
        "phase": completion.phase,
        "jobName": job_name,
        "exitCode": completion.exit_code,
        "output": completion.output,
        "completedAt": now,
        "conditions": conditions,
    });
    if let Some(reason) = &completion.failure_reason {
        status["failureReason"] = json!(reason);
    }
    if let Some(usage) = usage {
        status["usage"] = json!(usage);
    }
    status
}

/// True if the live Agent is still the one that was to be canceled.
pub(crate) fn is_cancelable(seen: &Agent, live: &Agent) -> bool {
    let open = !live.is_terminating() && !live.phase().is_terminal();
    open && live.uid() == seen.uid() && live.is_cancel_requested() && !is_batch(live)
}

/// The end of a run that was canceled before its Job was made.
pub(crate) fn canceled_before_start() -> Failure {
    Failure::new(FailureKind::Canceled, names::REASON_CANCELED.to_owned())
}

/// The end of a run that was canceled while it ran.
pub(crate) fn canceled() -> Completion {
    Completion::failed(names::REASON_CANCELED, 1, String::new(), finish::CANCELED)
}

/// The end of a run whose pod did not start in its Station's time.
pub(crate) fn start_timeout(minutes: i64, obstacle: &Obstacle) -> Completion {
    let Obstacle { reason, message } = obstacle;
    let colon = if message.is_empty() { "" } else { ": " };
    let unit = if minutes == 1 { "minute" } else { "minutes" };
    let reason = format!("not started within {minutes} {unit}: {reason}{colon}{message}");
    Completion::failed(&reason, 1, String::new(), finish::START_TIMEOUT)
}

/// The end of a Running run whose Job is gone, where a leader took it away and died before it wrote the end.
pub(crate) fn taken_away(agent: &Agent, limit: Option<i64>, now: Timestamp) -> Option<(Completion, FailureKind)> {
    if agent.is_cancel_requested() {
        return Some((canceled(), FailureKind::Canceled));
    }
    let condition = agent.status.as_ref()?.condition(names::CONDITION_STARTED)?;
    let limit = limit.filter(|limit| is_overdue(*limit, waited(agent, &Start::Starting { since: None }, now)))?;
    let obstacle = Obstacle::new(&condition.reason, &condition.message);
    (condition.status == "False").then(|| (start_timeout(limit, &obstacle), FailureKind::StartTimeout))
}

/// How long a run has waited for its pod, or after its initializer for its agent.
pub(crate) fn waited(agent: &Agent, start: &Start, now: Timestamp) -> Duration {
    let prepared = match start {
        Start::Started => None,
        Start::Starting { since } | Start::Blocked { since, .. } => *since,
    };
    let since = agent.status.as_ref().and_then(|status| status.started_at).max(prepared);
    since.map_or(Duration::ZERO, |since| Duration::from_secs_f64(now.seconds_since(since).max(0.0)))
}

/// True once that many minutes are over.
pub(crate) fn is_overdue(minutes: i64, waited: Duration) -> bool {
    u64::try_from(minutes).is_ok_and(|minutes| waited.as_secs() >= minutes.saturating_mul(60))
}

fn left(minutes: i64, waited: Duration) -> Duration {
    Duration::from_secs(u64::try_from(minutes).unwrap_or(0).saturating_mul(60)).saturating_sub(waited)
}

/// Nobody tells more than that the pod is being made.
const CONTAINER_CREATING: &str = "ContainerCreating";
/// Nobody tells why there is no pod.
const POD_NOT_CREATED: &str = "PodNotCreated";
/// Reasons of the time before there is a pod.
const BEFORE_THE_POD: &[&str] = &["QuotaExceeded", "PodCreateFailed"];
/// Reasons of which only Events tell, and only now and then: they hold until another is told.
const OF_ITS_EVENTS: &[&str] = &["FailedMount", "FailedCreatePodSandBox", "NetworkNotReady"];

/// What stands in the way where neither the pod nor an Event tells: what is recorded of the same stage stays.
pub(crate) fn untold(agent: &Agent, has_pod: bool) -> Obstacle {
    let recorded = agent.status.as_ref().and_then(|status| status.condition(names::CONDITION_STARTED));
    let of_this_stage = if has_pod { OF_ITS_EVENTS } else { BEFORE_THE_POD };
    let holds = |condition: &&Condition| condition.status == "False" && of_this_stage.contains(&&*condition.reason);
    match recorded.filter(holds) {
        Some(condition) => Obstacle::new(&condition.reason, &condition.message),
        None if has_pod => Obstacle::new(CONTAINER_CREATING, ""),
        None => Obstacle::new(POD_NOT_CREATED, ""),
    }
}

/// What to do about a run whose pod has waited for [`START_PATIENCE`].
#[derive(Debug, PartialEq)]
pub(crate) enum StartPlan {
    /// Write why.
    Note(Conditions),
    /// Look again in so long.
    Wait(Duration),
    /// End it.
    Overdue,
}

/// The next step of a run that does not start, whose Station gives it `limit` minutes.
pub(crate) fn start_plan(
    agent: &Agent,
    obstacle: &Obstacle,
    waited: Duration,
    limit: Option<i64>,
    now: Timestamp,
) -> StartPlan {
    let untold = obstacle.message.is_empty() && matches!(&*obstacle.reason, CONTAINER_CREATING | POD_NOT_CREATED);
    if let Some(early) = UNTOLD_PATIENCE.checked_sub(waited).filter(|early| untold && !early.is_zero()) {
        return StartPlan::Wait(early);
    }
    let conditions = Conditions::of(agent).not_started(&obstacle.reason, &obstacle.message, now);
    if conditions.changed() {
        return StartPlan::Note(conditions);
    }
    match limit {
        Some(limit) if is_overdue(limit, waited) => StartPlan::Overdue,
        Some(limit) => StartPlan::Wait(NEXT_LOOK.min(left(limit, waited))),
        None => StartPlan::Wait(NEXT_LOOK),
    }
}

/// The condition of a run that its Station has no slot for, if it has not got it yet.
pub(crate) fn station_full(agent: &Agent, station: &Station, now: Timestamp) -> Option<Conditions> {
    let limit = station.spec.concurrency_limit().unwrap_or_default();
    let name = station.name_any();
    let message = format!("Station {name} runs {limit} at a time; see kubectl signalbox explain {}", agent.name_any());
    Some(Conditions::of(agent).station_full(&message, now)).filter(Conditions::changed)
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

    const fn view(job: JobView, must_wait: bool) -> View {
        View { job, must_wait, start_open: false }
    }

    const VIEWS: [View; 6] = [
        view(JobView::Absent, false),
        view(JobView::Absent, true),
        view(JobView::Running, false),
        view(JobView::Running, true),
        view(JobView::Ended, false),
        view(JobView::Ended, true),
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

    fn asked(status: Value) -> Agent {
        let mut agent = agent(status, false, &[]);
        agent.metadata.annotations = Some([(names::ANNOTATION_CANCEL.to_owned(), "true".to_owned())].into());
        agent
    }

    #[rstest]
    #[case::waiting(json!({}), JobView::Absent, Plan::Cancel)]
    #[case::its_job_is_there(json!({}), JobView::Running, Plan::Adopt)]
    #[case::running(json!({"phase": "Running", "jobName": "j"}), JobView::Running, Plan::Cancel)]
    #[case::its_job_is_gone(json!({"phase": "Running", "jobName": "j"}), JobView::Absent, Plan::Cancel)]
    #[case::its_job_was_faster(json!({"phase": "Running", "jobName": "j"}), JobView::Ended, Plan::Complete)]
    #[case::at_a_vendor(json!({"phase": "Running", "batchId": "b"}), JobView::Absent, Plan::Nothing)]
    #[case::finished(json!({"phase": "Succeeded"}), JobView::Absent, Plan::Nothing)]
    fn a_run_that_is_to_be_canceled_is_ended_by_its_job(
        #[case] status: Value,
        #[case] job: JobView,
        #[case] expected: Plan,
    ) {
        assert_eq!(plan(&asked(status), view(job, true)), expected);
    }

    #[test]
    fn a_cancel_that_was_taken_back_or_came_too_late_ends_nothing() {
        let seen = asked(json!({}));
        assert!(is_cancelable(&seen, &seen));
        assert!(!is_cancelable(&seen, &agent(json!({}), false, &[])));
        assert!(!is_cancelable(&seen, &asked(json!({"phase": "Failed"}))));
        let mut another = seen.clone();
        another.metadata.uid = Some("v".into());
        assert!(!is_cancelable(&seen, &another));
    }

    fn at(time: &str) -> Timestamp {
        time.parse().unwrap()
    }

    const RUNNING_SINCE_NOON: &str = r#"{"phase": "Running", "jobName": "j", "startedAt": "2026-06-22T12:00:00Z"}"#;

    fn running() -> Agent {
        agent(serde_json::from_str(RUNNING_SINCE_NOON).unwrap(), false, &[])
    }

    /// Running, and told why it does not start.
    fn told(reason: &str) -> Agent {
        let mut agent = running();
        let conditions = Conditions::of(&agent).not_started(reason, "m", at("2026-06-22T12:00:10Z"));
        agent.status.as_mut().unwrap().conditions = conditions.into_vec();
        agent
    }

    #[test]
    fn a_pod_waits_from_the_start_of_its_run_or_from_the_end_of_its_initializer() {
        let now = at("2026-06-22T12:01:00Z");
        let since = Some(at("2026-06-22T12:00:45Z"));
        assert_eq!(waited(&running(), &Start::Starting { since: None }, now), Duration::from_secs(60));
        assert_eq!(waited(&running(), &Start::Starting { since }, now), Duration::from_secs(15));
        assert_eq!(waited(&running(), &Start::Starting { since: None }, at("2026-06-22T11:00:00Z")), Duration::ZERO);
    }

    #[test]
    fn a_reason_is_written_once_and_the_time_is_up_only_after_that() {
        let (now, limit) = (at("2026-06-22T12:02:00Z"), Some(2));
        let obstacle = Obstacle::new("ImagePullBackOff", "another text");
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let plan = |agent: &Agent, waited, limit| start_plan(agent, &obstacle, waited, limit, now);
        assert!(matches!(plan(&running(), minutes(9), limit), StartPlan::Note(_)));
        assert!(matches!(plan(&told("Unschedulable"), minutes(9), limit), StartPlan::Note(_)));
        let told = told("ImagePullBackOff");
        assert_eq!(plan(&told, minutes(2), limit), StartPlan::Overdue);
        assert_eq!(plan(&told, minutes(2) - Duration::from_secs(3), limit), StartPlan::Wait(Duration::from_secs(3)));
        assert_eq!(plan(&told, minutes(1), limit), StartPlan::Wait(NEXT_LOOK));
        assert_eq!(plan(&told, minutes(9), None), StartPlan::Wait(NEXT_LOOK));
    }

    #[test]
    fn that_nobody_tells_anything_is_told_later_than_a_reason() {
        let now = at("2026-06-22T12:00:12Z");
        let step = |seconds| start_plan(&running(), &untold(&running(), true), Duration::from_secs(seconds), None, now);
        assert_eq!(step(12), StartPlan::Wait(Duration::from_secs(6)));
        assert!(matches!(step(18), StartPlan::Note(_)));
    }

    #[test]
    fn where_nothing_tells_what_is_recorded_stays() {
        assert_eq!(untold(&told("FailedMount"), true), Obstacle::new("FailedMount", "m"));
        assert_eq!(untold(&told("Unschedulable"), true).reason, "ContainerCreating", "it has its node now");
        assert_eq!(untold(&told("QuotaExceeded"), true).reason, "ContainerCreating", "it has its pod now");
        assert_eq!(untold(&told("QuotaExceeded"), false), Obstacle::new("QuotaExceeded", "m"));
        assert_eq!(untold(&running(), true).reason, "ContainerCreating");
        assert_eq!(untold(&running(), false).reason, "PodNotCreated");
    }

    #[test]
    fn a_job_that_its_leader_took_away_is_not_lost() {
        let late = at("2026-06-22T12:05:00Z");
        let end = |agent: &Agent, limit, now| {
            taken_away(agent, limit, now).map(|(completion, kind)| (completion.failure_reason.unwrap(), kind))
        };
        let canceled = end(&asked(json!({"phase": "Running"})), None, late);
        assert_eq!(canceled, Some(("canceled".to_owned(), FailureKind::Canceled)));
        let reason = "not started within 2 minutes: FailedMount: m".to_owned();
        assert_eq!(end(&told("FailedMount"), Some(2), late), Some((reason, FailureKind::StartTimeout)));
        assert_eq!(end(&told("FailedMount"), Some(9), late), None, "its time was not up");
        assert_eq!(end(&told("FailedMount"), None, late), None);
        assert_eq!(end(&running(), Some(2), late), None, "it had not been told, so its leader had not ended it");
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
