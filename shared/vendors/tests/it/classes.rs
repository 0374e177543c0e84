use rstest::rstest;
use signalbox_vendors::{Class, Vendor, classify};

use crate::endings::recording;

fn class(event: &'static str, tool: &str, text: &str) -> Option<Class> {
    Some(Class { event, tool: tool.to_owned(), text: text.to_owned() })
}

fn classes(name: &str) -> Vec<Option<Class>> {
    recording(name).iter().map(|line| classify(Vendor::Claude, line)).collect()
}

#[test]
fn a_recorded_tool_run_has_its_call_its_result_and_its_answer() {
    assert_eq!(
        classes("tool"),
        [
            None,
            class("message", "", "Running a tool."),
            class("tool_call", "Bash", ""),
            class("tool_result", "", "hello-from-tool"),
            class("message", "", "Fake answer. Prompt tags seen: two"),
            class("result", "", "Fake answer. Prompt tags seen: two"),
        ]
    );
}

#[test]
fn a_tool_result_of_blocks_is_their_text() {
    let classes = classes("mcp_tool");
    assert_eq!(classes[2], class("tool_call", "mcp__tools__ping", ""));
    assert_eq!(classes[3], class("tool_result", "", "pong"));
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
#[case::no_type(r#"{"kind":"lifecycle"}"#, None)]
#[case::no_object("[1]", None)]
#[case::no_json("plain text", None)]
fn a_line_has_one_class_for_claude_and_for_a_command(#[case] line: &str, #[case] expected: Option<Class>) {
    assert_eq!(classify(Vendor::Claude, line), expected);
    assert_eq!(classify(Vendor::Exec, line), expected);
}
