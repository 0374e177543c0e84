use rstest::rstest;
use signalbox_vendors::{Ending, REASON_ANOTHER_SESSION, Seen, Vendor};

use crate::support::{recording, watch};

fn seen(vendor: Vendor, lines: &[impl AsRef<str>]) -> (Vec<Seen>, Option<bool>) {
    let (seen, ending) = watch(Ending::new(vendor), lines);
    (seen, ending.verdict())
}

#[test]
fn claude_may_go_on_after_a_result_and_the_last_one_decides() {
    let recording = recording("claude/background_task");
    let (told, verdict) = seen(Vendor::Claude, &recording.lines().collect::<Vec<_>>());
    let terminal = Seen::Terminal { ok: true };
    assert_eq!(told, [terminal, Seen::Resumed, Seen::Resumed, terminal]);
    assert_eq!(verdict, Some(true));

    let lines = [
        r#"{"type":"result","is_error":true}"#,
        r#"{"type":"system","subtype":"task_updated"}"#,
        r#"{"type":"assistant","message":{"content":[]}}"#,
        r#"{"type":"result","is_error":false}"#,
    ];
    let (told, verdict) = seen(Vendor::Claude, &lines);
    assert_eq!(told, [Seen::Terminal { ok: false }, Seen::Resumed, terminal]);
    assert_eq!(verdict, Some(true));
}

#[test]
fn a_result_is_parsed_and_not_matched_by_its_first_key() {
    let text = recording("claude/text");
    assert!(text.lines().last().unwrap().starts_with(r#"{"duration_api_ms""#));
    let told = [
        r#"a line that quotes {"type":"result"}"#,
        r#"{"type":"assistant","message":{"content":"{\"type\":\"result\"}"}}"#,
        r#"{"text":"x","inner":{"type":"result"}}"#,
        r#"["type","result"]"#,
        r#"["result"]"#,
        r#"{"type":"result","is_error":"#,
        "",
    ];
    assert_eq!(seen(Vendor::Claude, &told), (vec![], None));
    assert_eq!(seen(Vendor::Gemini, &told), (vec![], None));
    assert_eq!(seen(Vendor::Codex, &[r#"["turn.completed"]"#, r#"{"type":"item.completed"}"#]), (vec![], None));
}

#[test]
fn a_command_may_print_a_result_and_does_not_go_on_after_it() {
    let lines = [
        "plain text",
        r#"{"type":"result","is_error":true,"result":"no"}"#,
        r#"{"type":"assistant","message":{"content":"still here"}}"#,
    ];
    assert_eq!(seen(Vendor::Exec, &lines), (vec![Seen::Terminal { ok: false }], Some(false)));
    assert_eq!(seen(Vendor::Exec, &["hello", "world"]), (vec![], None));
}

#[test]
fn errors_of_codex_are_retries_and_warnings_until_the_turn_ends() {
    let lines = [
        r#"{"type":"error","message":"Reconnecting... 1/5"}"#,
        r#"{"type":"item.completed","item":{"type":"error","message":"Falling back"}}"#,
    ];
    assert_eq!(seen(Vendor::Codex, &lines), (vec![], None));
    let failed = [r#"{"type":"turn.failed","error":{"message":"429"}}"#];
    assert_eq!(seen(Vendor::Codex, &failed), (vec![Seen::Terminal { ok: false }], Some(false)));
}

#[rstest]
#[case(r#"{"type":"result","status":"success"}"#, true)]
#[case(r#"{"type":"result","status":"error"}"#, false)]
#[case(r#"{"type":"result"}"#, false)]
fn only_success_is_success_for_gemini(#[case] line: &str, #[case] ok: bool) {
    assert_eq!(seen(Vendor::Gemini, &[line]), (vec![Seen::Terminal { ok }], Some(ok)));
}

#[test]
fn an_error_of_opencode_is_a_verdict_and_no_result() {
    let error = [r#"{"type":"error","error":{"name":"APIError"}}"#, r#"{"type":"text","part":{"text":"on"}}"#];
    let (told, ending) = watch(Ending::new(Vendor::Opencode), &error);
    assert_eq!((told, ending.verdict(), ending.has_result()), (vec![], Some(false), false));
    assert_eq!(seen(Vendor::Opencode, &[r#"{"type":"result","is_error":false}"#]), (vec![], None));
}

const STARTED: &str = r#"{"type":"thread.started","thread_id":"01a22915-c200-7710-afeb-26b9cde4b930"}"#;
const COMPLETED: &str = r#"{"type":"turn.completed","usage":{}}"#;

#[rstest]
#[case::the_one_that_was_asked_for("01a22915-c200-7710-afeb-26b9cde4b930", true)]
#[case::the_same_in_capitals("01A22915-C200-7710-AFEB-26B9CDE4B930", true)]
#[case::none_was_asked_for("", true)]
#[case::another("99999999-2222-4333-8444-555555555555", false)]
#[case::a_name("nosuch", false)]
fn codex_that_starts_another_thread_than_it_was_asked_for_has_failed(#[case] asked_for: &str, #[case] ok: bool) {
    let (told, ending) = watch(Ending::new(Vendor::Codex).resuming(asked_for), &[STARTED, COMPLETED]);
    assert_eq!(told, [Seen::Terminal { ok }]);
    assert_eq!(ending.verdict(), Some(ok));
    assert_eq!(ending.reason(), (!ok).then_some("resume started another session"));
}

#[test]
fn a_thread_that_went_astray_has_failed_before_and_without_a_result() {
    let (told, ending) = watch(Ending::new(Vendor::Codex).resuming("nosuch"), &[STARTED]);
    assert_eq!((told, ending.verdict(), ending.has_result()), (vec![], Some(false), false));
    assert_eq!(ending.reason(), Some(REASON_ANOTHER_SESSION));
}

#[test]
fn only_the_first_thread_is_the_one_that_was_asked_for() {
    let later = STARTED.replace("01a22915", "ffffffff");
    let asked_for = "01a22915-c200-7710-afeb-26b9cde4b930";
    let (_, ending) = watch(Ending::new(Vendor::Codex).resuming(asked_for), &[STARTED, &later, COMPLETED]);
    assert_eq!((ending.verdict(), ending.reason()), (Some(true), None));
}

#[test]
fn a_forked_session_of_claude_has_another_id_and_that_is_no_failure() {
    let ending = Ending::new(Vendor::Claude).resuming("99999999-2222-4333-8444-555555555555");
    let (_, ending) = watch(ending, &recording("claude/resume").lines().collect::<Vec<_>>());
    assert_eq!((ending.verdict(), ending.reason()), (Some(true), None));
}

#[rstest]
#[case(Vendor::Claude, true)]
#[case(Vendor::Codex, true)]
#[case(Vendor::Gemini, true)]
#[case(Vendor::Opencode, false)]
#[case(Vendor::Exec, false)]
fn code_0_without_a_result_is_a_failure_where_the_cli_always_gives_one(#[case] vendor: Vendor, #[case] needed: bool) {
    assert_eq!(Ending::new(vendor).needs_terminal_line(), needed);
}
