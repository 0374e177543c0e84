use rstest::rstest;
use signalbox_vendors::{Class, Vendor, classify};

use crate::support::{recording, vendor};

fn class(event: &'static str, tool: &str, text: &str) -> Option<Class> {
    Some(Class { event, tool: tool.to_owned(), text: text.to_owned() })
}

fn classes(name: &str) -> Vec<Option<Class>> {
    recording(name).lines().map(|line| classify(vendor(name), line)).collect()
}

const ANSWER: &str = "Fake answer. Prompt tags seen: two";

#[test]
fn a_recorded_tool_run_of_claude_has_its_call_its_result_and_its_answer() {
    assert_eq!(
        classes("claude/tool"),
        [
            None,
            class("message", "", "Running a tool."),
            class("tool_call", "Bash", ""),
            class("tool_result", "", "hello-from-tool"),
            class("message", "", ANSWER),
            class("result", "", ANSWER),
        ]
    );
}

#[test]
fn a_tool_result_of_blocks_is_their_text() {
    let classes = classes("claude/mcp_tool");
    assert_eq!(classes[2], class("tool_call", "mcp__tools__ping", ""));
    assert_eq!(classes[3], class("tool_result", "", "pong"));
}

#[test]
fn a_recorded_tool_run_of_codex_has_its_command_once() {
    assert_eq!(
        classes("codex/tool"),
        [
            None,
            None,
            None,
            class("tool_call", "", "/bin/sh -lc 'echo hello-from-tool'"),
            class("message", "", "Fake answer. Prompt tags seen: a"),
            class("usage", "", ""),
        ]
    );
}

#[test]
fn a_recorded_tool_run_of_gemini_begins_after_its_own_prompt() {
    assert_eq!(
        classes("gemini/tool"),
        [
            None,
            None,
            class("message", "", "Running a tool."),
            class("tool_call", "run_shell_command", ""),
            class("tool_result", "", "hello-from-tool"),
            class("message", "", ANSWER),
            class("result", "", ""),
        ]
    );
}

#[test]
fn a_recorded_tool_run_of_opencode_has_its_command_and_two_steps() {
    assert_eq!(
        classes("opencode/tool"),
        [
            None,
            class("message", "", "Running a tool."),
            class("tool_call", "bash", "echo hello-from-tool"),
            class("usage", "", ""),
            None,
            class("message", "", ANSWER),
            class("usage", "", ""),
        ]
    );
}

#[rstest]
#[case::the_first_tool_block_wins(
    r#"{"type":"assistant","message":{"content":[{"type":"text","text":"t"},{"type":"tool_use","name":"Read"},{"type":"tool_use","name":"Bash"}]}}"#,
    class("tool_call", "Read", "")
)]
#[case::texts_are_joined(
    r#"{"type":"user","message":{"content":[{"type":"text","text":"one"},{"type":"image"},{"type":"text","text":"two"}]}}"#,
    class("message", "", "one\ntwo")
)]
#[case::a_string_is_its_text(r#"{"type":"user","message":{"content":"plain"}}"#, class("message", "", "plain"))]
#[case::tokens_are_usage(r#"{"type":"system","subtype":"token_usage"}"#, class("usage", "", ""))]
#[case::other_system_lines_have_none(r#"{"type":"system","subtype":"init"}"#, None)]
#[case::a_result_without_text(r#"{"type":"result","is_error":true}"#, class("result", "", ""))]
#[case::an_unknown_type(r#"{"type":"hello"}"#, None)]
fn a_line_has_one_class_for_claude_and_for_a_command(#[case] line: &str, #[case] expected: Option<Class>) {
    assert_eq!(classify(Vendor::Claude, line), expected);
    assert_eq!(classify(Vendor::Exec, line), expected);
}

#[rstest]
#[case::an_mcp_tool(r#"{"type":"mcp_tool_call","server":"s","tool":"ping"}"#, class("tool_call", "ping", ""))]
#[case::a_file(r#"{"type":"file_change","changes":[]}"#, class("tool_call", "", ""))]
#[case::a_search(r#"{"type":"web_search","query":"q"}"#, class("tool_call", "", ""))]
#[case::a_warning(r#"{"type":"error","message":"m"}"#, None)]
#[case::thoughts(r#"{"type":"reasoning","text":"t"}"#, None)]
fn an_item_of_codex_has_a_class_once_it_is_complete(#[case] item: &str, #[case] expected: Option<Class>) {
    let line = |kind: &str| format!(r#"{{"type":"{kind}","item":{item}}}"#);
    assert_eq!(classify(Vendor::Codex, &line("item.completed")), expected);
    assert_eq!(classify(Vendor::Codex, &line("item.started")), None);
}

#[rstest]
#[case(Vendor::Claude)]
#[case(Vendor::Codex)]
#[case(Vendor::Gemini)]
#[case(Vendor::Opencode)]
#[case(Vendor::Exec)]
fn what_is_no_line_of_the_cli_has_no_class(#[case] vendor: Vendor) {
    for line in [r#"{"kind":"lifecycle"}"#, r#"{"type":7}"#, r#"{"type":"hello"}"#, "[1]", "plain text", ""] {
        assert_eq!(classify(vendor, line), None, "{line}");
    }
}
