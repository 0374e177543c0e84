//! Why a run's pod does not start: `docs/contract/agents.md` section 4.1.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Event, Pod, PodStatus};
use signalbox_types::{
    Timestamp,
    names::{CONTAINER_AGENT, CONTAINER_INIT},
};

/// How far the start of a run has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// A container of the run is at work or has been, and nothing keeps the next from starting.
    Started,
    /// It is on its way; the pod does not say what it waits for. `since` is when its initializer ended, if it has.
    Starting {
        /// When the initializer ended.
        since: Option<Timestamp>,
    },
    /// The pod says what keeps it from starting.
    Blocked {
        /// When the initializer ended.
        since: Option<Timestamp>,
        /// What it is.
        by: Obstacle,
    },
}

/// What keeps a run from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// One word, as Kubernetes or this contract names it: `ImagePullBackOff`, `QuotaExceeded`.
    pub reason: String,
    /// Kubernetes' own text.
    pub message: String,
}

impl Obstacle {
    /// An obstacle.
    pub fn new(reason: &str, message: &str) -> Self {
        Self { reason: reason.to_owned(), message: message.to_owned() }
    }
}

/// How far the start of `pod` has come.
pub fn start(pod: &Pod) -> Start {
    let Some(status) = &pod.status else { return Start::Starting { since: None } };
    let init = state(status.init_container_statuses.as_deref(), CONTAINER_INIT);
    let agent = state(status.container_statuses.as_deref(), CONTAINER_AGENT);
    // A container that could not be started is terminated too, without a start or with one at the epoch.
    let ran = |state: &ContainerState| {
        state.running.is_some()
            || state
                .terminated
                .as_ref()
                .is_some_and(|ended| ended.started_at.as_ref().is_some_and(|at| at.0.as_second() > 0))
    };
    let prepared = init.and_then(|state| state.terminated.as_ref()).filter(|ended| ended.exit_code == 0);
    if agent.is_some_and(ran) || (prepared.is_none() && init.is_some_and(ran)) {
        return Start::Started;
    }
    let since = prepared.and_then(|ended| ended.finished_at.as_ref()).map(|at| Timestamp::new(at.0));
    // Without an initializer's status the agent's is all there is.
    let waits = if prepared.is_some() { agent } else { init.or(agent) };
    match waits.and_then(waiting).or_else(|| unschedulable(status)) {
        Some(by) => Start::Blocked { since, by },
        None => Start::Starting { since },
    }
}

/// What keeps a container from starting; `None` where it is only being made.
fn waiting(state: &ContainerState) -> Option<Obstacle> {
    let waiting = state.waiting.as_ref()?;
    let reason = match waiting.reason.as_deref()? {
        "" | "PodInitializing" | "ContainerCreating" => return None,
        // The two take turns for as long as the image cannot be pulled: one reason, so one condition.
        "ErrImagePull" => "ImagePullBackOff",
        other => other,
    };
    Some(Obstacle::new(reason, waiting.message.as_deref().unwrap_or_default()))
}

fn unschedulable(status: &PodStatus) -> Option<Obstacle> {
    let scheduled = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled")?;
    let reason = scheduled.reason.as_deref().filter(|reason| !reason.is_empty())?;
    (scheduled.status == "False").then(|| Obstacle::new(reason, scheduled.message.as_deref().unwrap_or_default()))
}

fn state<'a>(statuses: Option<&'a [ContainerStatus]>, name: &str) -> Option<&'a ContainerState> {
    statuses?.iter().find(|status| status.name == name)?.state.as_ref()
}

/// True once a node has taken the pod.
pub fn has_node(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_deref().is_some_and(|node| !node.is_empty()))
}

/// What the Events of a pod, or of the Job that has none, tell: the newest warning. Once a node has taken the pod
/// (`has_node`) what kept the nodes from it is over.
pub fn told_by(events: &[Event], has_node: bool) -> Option<Obstacle> {
    let over = |event: &Event| has_node && event.reason.as_deref() == Some("FailedScheduling");
    let warnings = events.iter().filter(|event| event.type_.as_deref() == Some("Warning") && !over(event));
    let newest = warnings.max_by_key(|event| {
        let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        let made = event.event_time.as_ref().map(|time| time.0);
        series.max(last).max(made)
    })?;
    let message = newest.message.as_deref().unwrap_or_default();
    let reason = match newest.reason.as_deref().unwrap_or_default() {
        "FailedCreate" if message.contains("exceeded quota") => "QuotaExceeded",
        "FailedCreate" => "PodCreateFailed",
        "FailedMount" | "FailedAttachVolume" => "FailedMount",
        "FailedScheduling" => "Unschedulable",
        "Failed" | "BackOff" if message.contains("pull") => "ImagePullBackOff",
        // What a condition's reason may be: https://kubernetes.io/docs/reference/using-api/api-concepts/.
        other if !other.is_empty() && other.bytes().all(|b| b.is_ascii_alphanumeric()) => other,
        _ => "PodNotStarted",
    };
    Some(Obstacle::new(reason, message))
}
