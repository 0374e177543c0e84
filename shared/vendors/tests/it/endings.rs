use std::{fs, path::PathBuf};

use rstest::rstest;
use signalbox_vendors::{Ending, Seen, Vendor};

pub fn recording(name: &str) -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/claude").join(format!("{name}.jsonl"));
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

fn watch(vendor: Vendor, lines: &[impl AsRef<str>]) -> (Vec<Seen>, Option<bool>) {
    let mut ending = Ending::new(vendor);
    let seen = lines.iter().map(|line| ending.observe(line.as_ref())).filter(|seen| *seen != Seen::Nothing).collect();
    (seen, ending.verdict())
}

/// Every recording ends as its exit code says; `sigint` is the one where the code, 0, would have lied.
#[rstest]
#[case("text", Some(true))]
#[case("tool", Some(true))]
#[case("read", Some(true))]
#[case("tool_denied", Some(true))]
#[case("bypass", Some(true))]
#[case("mcp_tool", Some(true))]
#[case("max_turns", Some(false))]
#[case("error_401", Some(false))]
#[case("error_401_no_retry", Some(false))]
#[case("error_429", Some(false))]
#[case("error_500", Some(false))]
#[case("error_no_key", Some(false))]
#[case("pin", Some(true))]
#[case("resume", Some(true))]
#[case("resume_fresh_home", Some(true))]
#[case("resume_unknown", Some(false))]
#[case("sigint", Some(false))]
#[case("sigterm", None)]
fn a_recorded_run_ends_with_the_verdict_of_its_one_result(#[case] name: &str, #[case] verdict: Option<bool>) {
    let expected: Vec<_> = verdict.map(|ok| Seen::Terminal { ok }).into_iter().collect();
    assert_eq!(watch(Vendor::Claude, &recording(name)), (expected, verdict));
}

#[test]
fn every_recording_has_its_line_in_the_readme() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/claude");
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    let mut recordings = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        recordings += usize::from(name.ends_with(".jsonl"));
        assert!(name == "README.md" || readme.contains(&format!("| {name} |")), "{name}");
    }
    assert_eq!(recordings, 19);
}

#[test]
fn claude_may_go_on_after_a_result_and_the_last_one_decides() {
    let (seen, verdict) = watch(Vendor::Claude, &recording("background_task"));
    let terminal = Seen::Terminal { ok: true };
    assert_eq!(seen, [terminal, Seen::Resumed, Seen::Resumed, terminal]);
    assert_eq!(verdict, Some(true));

    let lines = [
        r#"{"type":"result","is_error":true}"#,
        r#"{"type":"system","subtype":"task_updated"}"#,
        r#"{"type":"assistant","message":{"content":[]}}"#,
        r#"{"type":"result","is_error":false}"#,
    ];
    let (seen, verdict) = watch(Vendor::Claude, &lines);
    assert_eq!(seen, [Seen::Terminal { ok: false }, Seen::Resumed, terminal]);
    assert_eq!(verdict, Some(true));
}

#[test]
fn a_result_is_parsed_and_not_matched_by_its_first_key() {
    assert!(recording("text").last().unwrap().starts_with(r#"{"duration_api_ms""#));
    let told = [
        r#"a line that quotes {"type":"result"}"#,
        r#"{"type":"assistant","message":{"content":"{\"type\":\"result\"}"}}"#,
        r#"{"text":"x","inner":{"type":"result"}}"#,
        r#"["type","result"]"#,
        r#"{"type":"result","is_error":"#,
        "",
    ];
    assert_eq!(watch(Vendor::Claude, &told), (vec![], None));
}

#[test]
fn a_command_may_print_a_result_and_does_not_go_on_after_it() {
    let lines = [
        "plain text",
        r#"{"type":"result","is_error":true,"result":"no"}"#,
        r#"{"type":"assistant","message":{"content":"still here"}}"#,
    ];
    assert_eq!(watch(Vendor::Exec, &lines), (vec![Seen::Terminal { ok: false }], Some(false)));
    assert_eq!(watch(Vendor::Exec, &["hello", "world"]), (vec![], None));
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
