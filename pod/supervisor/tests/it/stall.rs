use rstest::rstest;
use serde_json::json;

use crate::run::Supervisor;

#[rstest]
#[case::quiet("echo line; exec sleep 60")]
#[case::from_the_start("exec sleep 60")]
#[case::that_ignores_sigterm("trap '' TERM; echo line; while :; do sleep 0.05; done")]
#[case::that_exits_with_0("trap 'exit 0' TERM; while :; do sleep 0.05; done")]
#[case::that_only_speaks_on_standard_error("while :; do echo error >&2; sleep 0.05; done")]
#[case::that_has_closed_its_output("exec 1>&-; exec sleep 60")]
fn an_agent_that_falls_silent_ends_with_124_and_the_reason(#[case] script: &str) {
    let ended = Supervisor::over(script).env("AGENT_STALL_MS", "1000").grace(300).run();
    ended.assert_last(124, &json!({"reason": "stalled"}));
    ended.assert_took(1000, 20_000);
    assert!(ended.log.contains("no line on standard output for 1 s"), "{}", ended.log);
}

#[test]
fn each_line_begins_the_silence_again() {
    let script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.5; echo $i; done";
    let ended = Supervisor::over(script).env("AGENT_STALL_MS", "3000").run();
    ended.assert_ended(0);
    ended.assert_took(4000, 20_000);
}

#[test]
fn an_agent_that_has_its_result_has_its_grace_and_is_not_stalled() {
    let supervisor = Supervisor::over("echo \"$1\"; sleep 4; exit 5").env("AGENT_STALL_MS", "3000").grace(60_000);
    supervisor.run().assert_ended(5);
}

#[rstest]
#[case("0")]
#[case("-1")]
#[case("soon")]
#[case("")]
fn a_limit_that_is_no_positive_number_is_none(#[case] value: &str) {
    Supervisor::over("sleep 0.3").env("AGENT_STALL_MS", value).run().assert_ended(0);
}
