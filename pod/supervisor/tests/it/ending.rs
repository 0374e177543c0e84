use rstest::rstest;
use rustix::process::Signal;
use serde_json::json;

use crate::run::Supervisor;

#[rstest]
#[case::success("exit 0", 0)]
#[case::failure("exit 3", 3)]
#[case::the_largest("exit 255", 255)]
#[case::death_by_a_signal("kill -9 $$", 137)]
#[case::death_by_a_gentler_one("kill -15 $$", 143)]
fn the_code_is_the_agent_s(#[case] script: &str, #[case] code: i32) {
    Supervisor::over(script).run().assert_ended(code);
}

#[rstest]
#[case::good("echo \"$1\"", 0)]
#[case::bad("echo \"$2\"", 1)]
#[case::bad_then_good("echo \"$2\"; echo \"$1\"", 0)]
#[case::good_and_own_code("echo \"$1\"; exit 4", 4)]
fn a_result_decides_where_the_code_does_not(#[case] script: &str, #[case] code: i32) {
    Supervisor::over(script).claude().run().assert_ended(code);
}

#[test]
fn code_0_without_a_result_fails_claude_and_not_a_command_of_the_recipe() {
    Supervisor::over("echo '{}'").claude().run().assert_last(1, &json!({"reason": "no-result"}));
    Supervisor::over("echo '{}'").run().assert_ended(0);
}

#[rstest]
#[case::good("echo \"$1\"; exec sleep 60", 0)]
#[case::bad("echo \"$2\"; exec sleep 60", 1)]
#[case::that_exits_with_0("trap 'exit 0' TERM; echo \"$2\"; while :; do sleep 0.05; done", 1)]
#[case::that_ignores_sigterm("trap '' TERM; echo \"$1\"; while :; do sleep 0.05; done", 0)]
fn case_70_an_agent_that_has_its_result_and_never_exits_is_killed(#[case] script: &str, #[case] code: i32) {
    let ended = Supervisor::over(script).grace(300).run();
    ended.assert_ended(code);
    ended.assert_took(300, 20_000);
}

#[test]
fn fix_58_an_agent_that_exits_within_the_grace_has_its_own_code() {
    let ended = Supervisor::over("echo \"$1\"; sleep 0.3; exit 6").grace(20_000).run();
    ended.assert_ended(6);
    ended.assert_took(300, 20_000);
}

#[test]
fn the_grace_begins_again_while_claude_goes_on_after_a_result_and_the_last_result_decides() {
    let script = r#"echo "$1"; for i in 1 2 3 4; do sleep 1
        echo '{"type":"assistant","message":{"role":"assistant","content":[]}}'; done; echo "$2""#;
    let ended = Supervisor::over(script).claude().grace(3000).run();
    ended.assert_ended(1);
    assert_eq!(ended.printed().len(), 6, "{}", ended.log);
}

#[rstest]
#[case::another("other", "exit 0", 1, true)]
#[case::another_and_its_own_code("other", "exit 3", 3, true)]
#[case::the_one_asked_for("asked", "exit 0", 0, false)]
fn codex_that_was_to_resume_and_began_another_session_has_failed(
    #[case] id: &str,
    #[case] exit: &str,
    #[case] code: i32,
    #[case] told: bool,
) {
    let script =
        format!(r#"echo '{{"type":"thread.started","thread_id":"{id}"}}'; echo '{{"type":"turn.completed"}}'; {exit}"#);
    let supervisor = Supervisor::over(&script).env("AGENT_MODEL", "gpt-5.5").env("AGENT_CONVERSATION_ID", "asked");
    let reason = if told { json!({"reason": "resume started another session"}) } else { json!({}) };
    supervisor.run().assert_last(code, &reason);
}

#[test]
fn opencode_s_error_line_is_no_end_and_its_verdict_wins_over_code_0() {
    let script = r#"echo '{"type":"error","error":{"name":"x"}}'; sleep 0.5; echo late"#;
    let ended = Supervisor::over(script).env("AGENT_MODEL", "opencode/x").grace(100).run();
    ended.assert_ended(1);
    assert_eq!(ended.printed().last().unwrap(), "late");
}

#[test]
fn a_gemini_code_above_128_is_no_signal() {
    Supervisor::over("exit 145").env("AGENT_MODEL", "gemini-x").run().assert_ended(145);
}

#[rstest]
#[case::by_default("echo ready; exec sleep 60", Signal::TERM, 143)]
#[case::interrupted("echo ready; exec sleep 60", Signal::INT, 130)]
#[case::with_its_own_code("trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", Signal::TERM, 7)]
#[case::with_0("trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done", Signal::TERM, 143)]
#[case::with_0_and_a_result(
    "trap 'echo \"$2\"; exit 0' INT; echo ready; while :; do sleep 0.05; done",
    Signal::INT,
    130
)]
fn case_76_a_signal_to_the_pod_reaches_the_agent_whose_code_is_reported(
    #[case] script: &str,
    #[case] signal: Signal,
    #[case] code: i32,
) {
    let ended = Supervisor::over(script).run_with(signal);
    ended.assert_ended(code);
    ended.assert_took(0, 20_000);
}
