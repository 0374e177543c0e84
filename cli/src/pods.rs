//! What a pod says of its containers.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};
use serde::Serialize;

/// Reasons that every pod goes through on its way.
const ORDINARY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// What a pod waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Waiting {
    /// The container, or `pod`.
    pub(crate) part: String,
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

impl Waiting {
    /// True for what every pod goes through on its way.
    pub(crate) fn is_ordinary(&self) -> bool {
        ORDINARY.contains(&self.reason.as_str())
    }
}

/// How a container stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The pod does not tell of it.
    Absent,
    Waiting,
    Running,
    Ended(i32),
}

/// How that container, init containers included, stands.
pub(crate) fn state(pod: &Pod, container: &str) -> State {
    let found = pod.status.iter().flat_map(statuses).find(|status| status.name == container);
    match found.map(|status| status.state.clone().unwrap_or_default()) {
        None => State::Absent,
        Some(ContainerState { terminated: Some(terminated), .. }) => State::Ended(terminated.exit_code),
        Some(ContainerState { running: Some(_), .. }) => State::Running,
        Some(_) => State::Waiting,
    }
}

/// All containers, the init containers first.
pub(crate) fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().chain(&status.container_statuses).flatten()
}

/// True once some container has begun, so that there is a log.
pub(crate) fn has_started(pod: &Pod) -> bool {
    let begun = |status: &ContainerStatus| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    pod.status.iter().flat_map(statuses).any(begun)
}

/// True once nothing more will run in it.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// What the pod and its containers wait for.
pub(crate) fn waiting(pod: &Pod) -> Vec<Waiting> {
    let Some(status) = &pod.status else { return Vec::new() };
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .map(|condition| Waiting {
            part: "pod".to_owned(),
            reason: condition.reason.clone().unwrap_or_else(|| "Unschedulable".to_owned()),
            message: condition.message.clone(),
        });
    let containers = statuses(status).filter_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.clone().unwrap_or_else(|| "Waiting".to_owned());
        Some(Waiting { part: status.name.clone(), reason, message: waiting.message.clone() })
    });
    unscheduled.chain(containers).collect()
}
