use k8s_openapi::api::core::v1::{Event, Pod};
use rstest::rstest;
use signalbox_agents::start::{Obstacle, Start, start, told_by};

use crate::support::yaml;

fn pod(status: &str) -> Pod {
    yaml(&format!("{{status: {status}}}"))
}

fn blocked(reason: &str, message: &str) -> Start {
    Start::Blocked { since: None, by: Obstacle::new(reason, message) }
}

const UNSCHEDULABLE: &str = "{phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable,
    message: 0/1 nodes are available}]}";
const PULL: &str = "{phase: Pending, conditions: [{type: PodScheduled, status: 'True'}],
    initContainerStatuses: [{name: init, state: {waiting: {reason: ErrImagePull, message: not found}}}],
    containerStatuses: [{name: agent, state: {waiting: {reason: PodInitializing}}}]}";
const KEY: &str = "{phase: Pending,
    initContainerStatuses: [{name: init, state: {waiting: {reason: CreateContainerConfigError,
      message: couldn't find key TOKEN in Secret ns/agent-secrets}}}]}";
const CREATING: &str = "{phase: Pending, conditions: [{type: PodScheduled, status: 'True'}],
    initContainerStatuses: [{name: init, state: {waiting: {reason: PodInitializing}}}]}";
const PREPARING: &str = "{phase: Pending, initContainerStatuses: [{name: init, state: {running: {}}}],
    containerStatuses: [{name: agent, state: {waiting: {reason: PodInitializing}}}]}";
const AGENT_PULL: &str = "{phase: Pending,
    initContainerStatuses: [{name: init, state: {terminated: {exitCode: 0, finishedAt: '2026-06-22T12:00:05Z'}}}],
    containerStatuses: [{name: agent, state: {waiting: {reason: ImagePullBackOff, message: m}}}]}";
const RUNNING: &str = "{phase: Running,
    initContainerStatuses: [{name: init, state: {terminated: {exitCode: 0, finishedAt: '2026-06-22T12:00:05Z'}}}],
    containerStatuses: [{name: side, state: {waiting: {reason: ImagePullBackOff}}}, {name: agent, state: {running: {}}}]}";
const INIT_FAILED: &str = "{phase: Pending,
    initContainerStatuses: [{name: init, state: {terminated: {exitCode: 2, startedAt: '2026-06-22T12:00:00Z'}}}]}";
const NOT_A_PROGRAM: &str = "{phase: Failed,
    initContainerStatuses: [{name: init, state: {terminated: {exitCode: 128, reason: StartError, startedAt: '1970-01-01T00:00:00Z'}}}]}";
const ENDED: &str = "{phase: Succeeded, containerStatuses: [{name: agent,
    state: {terminated: {exitCode: 0, startedAt: '2026-06-22T12:00:00Z'}}}]}";

#[rstest]
#[case::no_status("null", Start::Starting { since: None })]
#[case::unschedulable(UNSCHEDULABLE, blocked("Unschedulable", "0/1 nodes are available"))]
#[case::image_pull(PULL, blocked("ImagePullBackOff", "not found"))]
#[case::missing_key(KEY, blocked("CreateContainerConfigError", "couldn't find key TOKEN in Secret ns/agent-secrets"))]
#[case::only_events_tell(CREATING, Start::Starting { since: None })]
#[case::its_initializer_works(PREPARING, Start::Started)]
#[case::its_initializer_failed(INIT_FAILED, Start::Started)]
#[case::a_sidecar_that_waits_keeps_no_agent_from_starting(RUNNING, Start::Started)]
#[case::ended(ENDED, Start::Started)]
#[case::rejected_by_its_node("{phase: Failed}", Start::Starting { since: None })]
#[case::its_initializer_could_not_be_started(NOT_A_PROGRAM, Start::Starting { since: None })]
fn a_pod_tells_how_far_its_start_has_come(#[case] status: &str, #[case] expected: Start) {
    assert_eq!(start(&pod(status)), expected);
}

#[test]
fn what_keeps_the_agent_from_starting_counts_from_the_end_of_its_initializer() {
    let since = Some("2026-06-22T12:00:05Z".parse().unwrap());
    let by = Obstacle::new("ImagePullBackOff", "m");
    assert_eq!(start(&pod(AGENT_PULL)), Start::Blocked { since, by });
}

fn events(yaml_text: &str) -> Vec<Event> {
    yaml(yaml_text)
}

#[test]
fn the_newest_warning_tells() {
    let all = events(
        "[{metadata: {}, involvedObject: {}, type: Warning, reason: FailedScheduling, message: old, lastTimestamp: '2026-06-22T12:00:00Z'},
          {metadata: {}, involvedObject: {}, type: Warning, reason: FailedMount, message: 'configmap \"c\" not found',
            eventTime: '2026-06-22T12:00:01.000000Z', series: {count: 4, lastObservedTime: '2026-06-22T12:00:09.000000Z'}},
          {metadata: {}, involvedObject: {}, type: Normal, reason: Pulled, message: new, lastTimestamp: '2026-06-22T12:01:00Z'}]",
    );
    assert_eq!(told_by(&all, true), Some(Obstacle::new("FailedMount", "configmap \"c\" not found")));
}

#[rstest]
#[case::quota("FailedCreate", "pods \"a\" is forbidden: exceeded quota: q", "QuotaExceeded")]
#[case::admission("FailedCreate", "denied the request", "PodCreateFailed")]
#[case::volume("FailedAttachVolume", "m", "FailedMount")]
#[case::scheduler("FailedScheduling", "m", "Unschedulable")]
#[case::image("Failed", "Failed to pull image \"i\"", "ImagePullBackOff")]
#[case::image_again("BackOff", "Back-off pulling image \"i\"", "ImagePullBackOff")]
#[case::its_own_word("FailedCreatePodSandBox", "m", "FailedCreatePodSandBox")]
#[case::no_word_of_a_condition("not a reason", "m", "PodNotStarted")]
fn a_warning_has_a_reason_that_a_condition_may_have(#[case] event: &str, #[case] message: &str, #[case] reason: &str) {
    let event = Event {
        type_: Some("Warning".into()),
        reason: Some(event.into()),
        message: Some(message.into()),
        ..Event::default()
    };
    assert_eq!(told_by(&[event], false), Some(Obstacle::new(reason, message)));
}

#[test]
fn what_kept_the_nodes_from_a_pod_is_over_once_one_has_taken_it() {
    let all = events("[{metadata: {}, involvedObject: {}, type: Warning, reason: FailedScheduling, message: m}]");
    assert_eq!(told_by(&all, true), None);
    assert_eq!(told_by(&all, false), Some(Obstacle::new("Unschedulable", "m")));
}

#[test]
fn no_warning_tells_nothing() {
    assert_eq!(told_by(&[], true), None);
}
