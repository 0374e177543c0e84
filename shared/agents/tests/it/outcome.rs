use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use rstest::rstest;
use signalbox_agents::outcome::{
    Completion, JobOutcome, PodResult, completion, finish, job_outcome, newest, pod_result,
};
use signalbox_types::Phase;

use crate::support::yaml;

fn job(status: &str) -> Job {
    yaml(&format!("{{status: {status}}}"))
}

fn failed(reason: &str) -> JobOutcome {
    JobOutcome::Failed { reason: reason.to_owned() }
}

const COMPLETE: &str = "{conditions: [{type: SuccessCriteriaMet, status: 'True'}, {type: Complete, status: 'True'}]}";
const BACKOFF: &str = "{conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded,
    message: Job has reached the specified backoff limit}]}";
const BACKOFF_REASON: &str = "BackoffLimitExceeded: Job has reached the specified backoff limit";
const DEADLINE: &str = "{conditions: [{type: Failed, status: 'True', reason: DeadlineExceeded,
    message: Job was active longer than specified deadline}]}";
const DEADLINE_REASON: &str = "DeadlineExceeded: Job was active longer than specified deadline";
const LOST_OUTPUT: &str = "run output unavailable: pod garbage-collected";

#[rstest]
#[case("null", JobOutcome::Running)]
#[case("{active: 1}", JobOutcome::Running)]
#[case(COMPLETE, JobOutcome::Succeeded)]
#[case(BACKOFF, failed(BACKOFF_REASON))]
#[case("{conditions: [{type: Failed, status: 'True', reason: R}]}", failed("R"))]
#[case("{conditions: [{type: Failed, status: 'True', reason: '', message: M}]}", failed("M"))]
#[case("{conditions: [{type: Failed, status: 'True'}]}", failed("Job failed"))]
#[case("{conditions: [{type: Failed, status: 'False', reason: R}], active: 1}", JobOutcome::Running)]
#[case("{conditions: [{type: Complete, status: Unknown}]}", JobOutcome::Running)]
#[case::case_43("{conditions: [{type: FailureTarget, status: 'True', reason: R}], active: 1}", JobOutcome::Running)]
#[case::announced_at_a_deadline(
    "{conditions: [{type: FailureTarget, status: 'True', reason: DeadlineExceeded}], failed: 1}",
    JobOutcome::Running
)]
#[case("{conditions: [{type: SuccessCriteriaMet, status: 'True'}]}", JobOutcome::Running)]
#[case("{conditions: [{type: SuccessCriteriaMet, status: 'True'}], succeeded: 1}", JobOutcome::Running)]
#[case("{succeeded: 1}", JobOutcome::Succeeded)]
#[case("{failed: 1}", failed("Job failed"))]
#[case("{succeeded: 0, failed: 0}", JobOutcome::Running)]
fn a_job_ends_by_its_conditions_or_its_counters(#[case] status: &str, #[case] outcome: JobOutcome) {
    assert_eq!(job_outcome(&job(status)), outcome);
}

const AGENT: &str = "agent";
const INIT: &str = "init";

#[rstest]
#[case::no_status("null", AGENT, None)]
#[case::ended("{containerStatuses: [{name: agent, state: {terminated: {exitCode: 3}}}]}", AGENT, Some(3))]
#[case::still_running("{containerStatuses: [{name: agent, state: {running: {}}}]}", AGENT, None)]
#[case::case_37_out_of_memory(
    "{containerStatuses: [{name: agent, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}",
    AGENT,
    Some(137)
)]
#[case::case_38_init_failed(
    "{initContainerStatuses: [{name: init, state: {terminated: {exitCode: 128}}}],
      containerStatuses: [{name: agent, state: {waiting: {reason: PodInitializing}}}]}",
    INIT,
    Some(128)
)]
#[case::init_cut_off_by_the_deadline(
    "{initContainerStatuses: [{name: init, state: {running: {}}}],
      containerStatuses: [{name: agent, state: {waiting: {reason: PodInitializing}}}]}",
    INIT,
    None
)]
#[case::init_succeeded(
    "{initContainerStatuses: [{name: init, state: {terminated: {exitCode: 0}}}],
      containerStatuses: [{name: agent, state: {terminated: {exitCode: 0}}}]}",
    AGENT,
    Some(0)
)]
#[case::an_init_container_that_a_webhook_added(
    "{initContainerStatuses: [{name: mesh-init, state: {terminated: {exitCode: 9}}}]}",
    AGENT,
    None
)]
#[case::case_39_a_sidecar_first(
    "{containerStatuses: [{name: proxy, state: {terminated: {exitCode: 9}}},
                          {name: agent, state: {terminated: {exitCode: 4}}}]}",
    AGENT,
    Some(4)
)]
fn a_pod_tells_which_log_and_which_code_count(
    #[case] status: &str,
    #[case] container: &str,
    #[case] code: Option<i32>,
) {
    let pod: Pod = yaml(&format!("{{status: {status}}}"));
    let result = pod_result(&pod);
    assert_eq!((result.container, result.exit_code), (container, code));
}

#[test]
fn the_newest_pod_counts() {
    let pod =
        |name: &str, at: &str| -> Pod { yaml(&format!("{{metadata: {{name: {name}, creationTimestamp: {at}}}}}")) };
    let pods = [
        pod("undated", "null"),
        pod("old", "'2026-06-22T12:00:00Z'"),
        pod("new", "'2026-06-22T12:00:05Z'"),
        pod("new-a", "'2026-06-22T12:00:05Z'"),
    ];
    assert_eq!(newest(&pods).unwrap().metadata.name.as_deref(), Some("new-a"));
    assert_eq!(newest(&[]), None);
}

fn ended(status: &str, code: Option<i32>, log: Option<&str>) -> Completion {
    let pod = PodResult { container: AGENT, exit_code: code, ran: true, out_of_memory: false };
    completion(Some(&job(status)), Some(pod), log.map(str::to_owned)).unwrap()
}

fn gone(status: &str) -> Completion {
    completion(Some(&job(status)), None, None).unwrap()
}

fn succeeded(output: &str, reason: Option<&str>) -> Completion {
    Completion {
        phase: Phase::Succeeded,
        exit_code: 0,
        output: output.to_owned(),
        failure_reason: reason.map(str::to_owned),
        finish: finish::SUCCEEDED,
    }
}

fn failure(exit_code: i32, output: &str, reason: &str) -> Completion {
    finished(finish::JOB_FAILED, exit_code, output, reason)
}

fn finished(finish: &'static str, exit_code: i32, output: &str, reason: &str) -> Completion {
    let failure_reason = Some(reason.to_owned());
    Completion { phase: Phase::Failed, exit_code, output: output.to_owned(), failure_reason, finish }
}

#[test]
fn a_running_job_completes_nothing() {
    assert_eq!(completion(Some(&job("{active: 1}")), None, None), None);
}

#[test]
fn t8_a_job_that_succeeded_is_a_run_that_succeeded() {
    assert_eq!(ended(COMPLETE, Some(0), Some("hello\n")), succeeded("hello\n", None));
    assert_eq!(ended(COMPLETE, Some(0), Some("")), succeeded("", None), "an empty log is an output");
}

#[test]
fn t9_a_job_that_failed_has_its_reason_and_the_pods_code() {
    assert_eq!(ended(BACKOFF, Some(3), Some("boom")), failure(3, "boom", BACKOFF_REASON));
    assert_eq!(ended(BACKOFF, None, Some("boom")), failure(1, "boom", BACKOFF_REASON));
}

#[test]
fn case_31_and_t10_a_lost_job_is_a_failed_run() {
    let reason = "run record unavailable: Job garbage-collected before its result was observed";
    assert_eq!(completion(None, None, None), Some(finished(finish::JOB_LOST, 1, "", reason)));
}

#[test]
fn case_32_and_t11_a_job_that_succeeded_without_its_pod_succeeded_without_output() {
    assert_eq!(gone(COMPLETE), succeeded("", Some(LOST_OUTPUT)));
}

#[test]
fn case_33_and_t11_a_job_that_failed_without_its_pod_keeps_its_reason() {
    assert_eq!(gone(BACKOFF), failure(1, "", BACKOFF_REASON));
}

#[test]
fn case_34_a_pod_whose_log_is_gone_ends_as_one_that_is_gone_but_for_its_code() {
    assert_eq!(ended(COMPLETE, Some(0), None), succeeded("", Some(LOST_OUTPUT)));
    assert_eq!(ended(BACKOFF, Some(3), None), failure(3, "", BACKOFF_REASON));
}

#[test]
fn case_35_a_failed_run_never_has_code_0() {
    assert_eq!(ended(BACKOFF, Some(0), Some("x")), failure(1, "x", BACKOFF_REASON));
}

#[test]
fn case_36_a_complete_job_has_code_0_whatever_its_container_says() {
    assert_eq!(ended(COMPLETE, Some(137), Some("x")), succeeded("x", None));
}

#[test]
fn case_37_an_agent_out_of_memory_has_code_137() {
    let status =
        "{status: {containerStatuses: [{name: agent, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]}}";
    let pod = pod_result(&yaml::<Pod>(status));
    let completion = completion(Some(&job(BACKOFF)), Some(pod), Some("x".to_owned()));
    assert_eq!(completion, Some(finished(finish::OUT_OF_MEMORY, 137, "x", BACKOFF_REASON)));
    assert_eq!(ended(BACKOFF, Some(137), Some("x")), failure(137, "x", BACKOFF_REASON), "killed by another");
}

#[test]
fn case_38_an_init_that_failed_gives_its_code_and_its_log() {
    let pod = PodResult { container: INIT, exit_code: Some(128), ran: true, out_of_memory: false };
    let completion = completion(Some(&job(BACKOFF)), Some(pod), Some("init log".to_owned()));
    assert_eq!(completion, Some(failure(128, "init log", BACKOFF_REASON)));
}

#[test]
fn case_23_and_case_40_a_pod_stopped_by_the_deadline_gives_the_deadline_as_reason() {
    let deadline = |code, output| finished(finish::DEADLINE_EXCEEDED, code, output, DEADLINE_REASON);
    assert_eq!(gone(DEADLINE), deadline(1, ""));
    assert_eq!(ended(DEADLINE, Some(0), Some("done")), deadline(1, "done"), "a sidecar never ended");
}

#[test]
fn case_72_code_124_is_the_deadline_unless_the_supervisor_says_that_the_cli_fell_silent() {
    let event = r#"{"kind":"lifecycle","phase":"agent","status":"failed","exitCode":124}"#;
    let stalled = r#"{"kind":"lifecycle","phase":"agent","status":"failed","reason":"stalled","exitCode":124}"#;
    assert_eq!(ended(BACKOFF, Some(124), Some(event)).finish, finish::DEADLINE_EXCEEDED);
    assert_eq!(ended(BACKOFF, Some(124), None).finish, finish::DEADLINE_EXCEEDED);
    assert_eq!(ended(BACKOFF, Some(124), Some(&format!("x\n{stalled}\nlate\n"))).finish, finish::STALLED);
    assert_eq!(ended(BACKOFF, Some(3), Some(stalled)).finish, finish::JOB_FAILED, "a CLI can print anything");
}

#[test]
fn a_person_is_told_the_code_and_what_the_supervisor_said() {
    let said = r#"{"kind":"lifecycle","phase":"agent","status":"failed","reason":"not-found","exitCode":1}"#;
    assert_eq!(ended(BACKOFF, Some(7), Some("x")).told(), format!("exit code 7: {BACKOFF_REASON}"));
    assert_eq!(ended(BACKOFF, Some(1), Some(said)).told(), format!("exit code 1 (not-found): {BACKOFF_REASON}"));
    assert_eq!(ended(COMPLETE, Some(0), Some("x")).told(), "");
}
