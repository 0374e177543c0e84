use std::fs;

use rstest::rstest;
use serde_json::json;

use crate::run::Supervisor;

#[rstest]
#[case::quiet("exec sleep 60", 2000)]
#[case::that_exits_with_0("trap 'exit 0' TERM; while :; do sleep 0.05; done", 2000)]
#[case::that_ignores_sigterm("trap '' TERM; while :; do sleep 0.05; done", 2300)]
fn case_72_an_agent_that_is_silent_for_ever_ends_with_124_and_an_event(#[case] script: &str, #[case] from: u64) {
    let ended = Supervisor::over(script).deadline(2000).grace(300).run();
    ended.assert_ended(124);
    ended.assert_took(from, 20_000);
    assert!(ended.log.contains("run deadline expired"), "{}", ended.log);
}

#[test]
fn fix_0_8_1_a_wedged_agent_that_floods_its_output_ends_with_124_too() {
    Supervisor::over("trap '' TERM; yes").deadline(2000).grace(300).run().assert_ended(124);
}

#[test]
fn at_the_deadline_an_agent_that_had_its_result_has_not_failed_by_it() {
    let ended = Supervisor::over("echo \"$1\"; exec sleep 60").deadline(2000).grace(30_000).run();
    ended.assert_ended(0);
    ended.assert_took(2000, 20_000);
}

#[test]
fn the_deadline_counts_from_the_start_that_the_initializer_left() {
    let supervisor = Supervisor::over("exec sleep 60").deadline(62_000);
    let start = signalbox_output::deadline::boottime_ms() - 60_000;
    fs::write(supervisor.folder().join(".started-boottime-ms"), start.to_string()).unwrap();
    let ended = supervisor.run();
    ended.assert_ended(124);
    ended.assert_took(0, 20_000);
}

#[test]
fn an_agent_whose_deadline_has_passed_is_not_started_any_more() {
    let supervisor = Supervisor::over("echo started").deadline(1000);
    fs::write(supervisor.folder().join(".started-boottime-ms"), "1").unwrap();
    let ended = supervisor.run();
    ended.assert_last(124, &json!({}));
    assert_eq!(ended.lines.len(), 1);
}

#[rstest]
#[case("0")]
#[case("-10000")]
#[case("")]
fn a_deadline_that_is_not_positive_is_off(#[case] value: &str) {
    Supervisor::over("sleep 0.2").env("AGENT_DEADLINE_MS", value).run().assert_ended(0);
}
