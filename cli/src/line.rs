//! Lines of a run's output, for people.

use serde_json::Value;
use signalbox_types::event::{Lifecycle, LifecycleStatus, Stage};
use signalbox_vendors::{Class, Vendor, classify};

use crate::text::{Paint, Palette, clean, clean_block, cut};

/// What the supervisor puts before lines of the agent's standard error.
const STDERR_PREFIX: &str = "[agent] ";
/// Lines of a tool's result that are shown.
const MOST_LINES: usize = 12;
/// Characters of a tool's input that are shown.
const MOST_INPUT: usize = 160;
/// Where the vendors' CLIs have the input of a tool, in the order in which they are looked for.
const INPUT_KEYS: [&str; 5] = ["input", "arguments", "parameters", "args", "command"];
/// Where those of them have the output that tell of a tool only once it has ended.
const OUTPUT_KEYS: [&str; 2] = ["aggregated_output", "output"];

/// A line as it is shown: a word for what it is, and the text, which may be of several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) label: String,
    pub(crate) text: String,
    pub(crate) paint: Paint,
}

impl Shown {
    pub(crate) fn new(label: impl AsRef<str>, text: impl AsRef<str>, paint: Paint) -> Self {
        Self { label: clean(label.as_ref()), text: clean_block(text.as_ref()), paint }
    }
}

/// What is shown of a line; `None` for one that tells people nothing.
pub(crate) fn view(vendor: Vendor, line: &str) -> Option<Shown> {
    if let Ok(event) = serde_json::from_str::<Lifecycle>(line) {
        return Some(lifecycle(&event));
    }
    if let Some(class) = classify(vendor, line) {
        return match class.event {
            "message" if class.text.trim().is_empty() => None,
            "message" => Some(Shown::new("says", &class.text, Paint::Plain)),
            "tool_call" => Some(Shown::new("tool", tool(line, &class), Paint::Busy)),
            "tool_result" => Some(Shown::new("", shortened(&class.text), Paint::Dim)),
            "result" if !class.text.is_empty() => Some(Shown::new("result", &class.text, Paint::Strong)),
            _ => None,
        };
    }
    if let Some(text) = line.strip_prefix(STDERR_PREFIX) {
        return Some(Shown::new("stderr", text, Paint::Dim));
    }
    match serde_json::from_str::<Value>(line) {
        // JSON of no class is the CLI talking to itself, unless something went wrong.
        Ok(value) if value.is_object() => error(&value),
        _ => Some(Shown::new("", line, Paint::Plain)),
    }
}

/// What a line without a class says went wrong.
fn error(line: &Value) -> Option<Shown> {
    let kind = line["type"].as_str()?;
    let is_error = ["error", "failed"].iter().any(|word| kind.contains(word));
    let message = outermost(line, &["message"]).and_then(Value::as_str).filter(|_| is_error)?;
    Some(Shown::new("error", message, Paint::Bad))
}

/// The name of the tool that a line calls, and its input, short; below them what came of it, where the line has that too.
fn tool(line: &str, class: &Class) -> String {
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    let input = if class.text.is_empty() {
        outermost(&line, &INPUT_KEYS).map(words).unwrap_or_default()
    } else {
        class.text.clone()
    };
    let called = [class.tool.clone(), cut(&clean(&input), MOST_INPUT)];
    let called = called.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("  ");
    let output = outermost(&line, &OUTPUT_KEYS).and_then(Value::as_str).map(shortened);
    let parts = [Some(called), output].into_iter().flatten().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

/// A line as text: what stands `before` it, the word in its width, the text; further lines of the text stand below the
/// first.
pub(crate) fn entry(palette: Palette, before: &str, label_width: usize, shown: &Shown) -> String {
    let label_paint = if shown.paint == Paint::Plain { Paint::Dim } else { shown.paint };
    let label = palette.paint(label_paint, &format!("{:<label_width$}", shown.label));
    // A colour of words is for the word alone, but what is dim or strong is so as a whole.
    let text_paint = if matches!(shown.paint, Paint::Dim | Paint::Strong) { shown.paint } else { Paint::Plain };
    let below = " ".repeat(before.chars().count() + label_width + 2);
    let head = format!("{}{label}  ", palette.paint(Paint::Dim, before));
    let lines = shown.text.split('\n').enumerate().map(|(at, line)| {
        let line = format!("{}{}", if at == 0 { &head } else { &below }, palette.paint(text_paint, line));
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

fn lifecycle(event: &Lifecycle) -> Shown {
    let stage = match event.phase {
        Stage::Init => "init",
        Stage::Agent => "agent",
    };
    let (word, paint) = match event.status {
        LifecycleStatus::Started => ("started", Paint::Plain),
        LifecycleStatus::Installing => ("installing", Paint::Plain),
        LifecycleStatus::Installed => ("installed", Paint::Plain),
        LifecycleStatus::Running => ("running", Paint::Plain),
        LifecycleStatus::Succeeded => ("succeeded", Paint::Good),
        LifecycleStatus::Failed => ("failed", Paint::Bad),
    };
    let mut text = word.to_owned();
    for part in [&event.tool, &event.version].into_iter().flatten() {
        text.push(' ');
        text.push_str(part);
    }
    if let Some(origin) = &event.origin {
        text.push_str(&format!(" ({origin})"));
    }
    // Code 0 of what succeeded says nothing new.
    if let Some(code) = event.exit_code.filter(|code| *code != 0) {
        text.push_str(&format!(", exit code {code}"));
    }
    if let Some(reason) = &event.reason {
        text.push_str(&format!(": {reason}"));
    }
    Shown::new(stage, text, paint)
}

/// The value of one of the keys, the outermost first: vendors differ in how deep they have it.
fn outermost<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    let mut level = vec![value];
    while !level.is_empty() {
        for key in keys {
            if let Some(found) = level.iter().find_map(|value| value.get(key)) {
                return Some(found);
            }
        }
        level = level.into_iter().flat_map(children).collect();
    }
    None
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

/// An input in words: the string that it is, that its one field is, or `name=value` pairs.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        // What a shell is given is known by its command; the rest explains it.
        Value::Object(fields) if fields.get("command").is_some_and(Value::is_string) => words(&fields["command"]),
        Value::Object(fields) if fields.len() == 1 => fields.values().map(words).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name}={}", words(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    if lines.len() <= MOST_LINES + 1 {
        return lines.join("\n");
    }
    let left = lines.len() - MOST_LINES;
    format!("{}\n… {left} more lines", lines[..MOST_LINES].join("\n"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn shown(line: &str) -> Option<String> {
        view(Vendor::Claude, line).map(|shown| format!("{}|{}", shown.label, shown.text))
    }

    #[rstest]
    #[case(r#"{"kind":"lifecycle","phase":"init","status":"installing","tool":"git"}"#, "init|installing git")]
    #[case(
        r#"{"kind":"lifecycle","phase":"init","status":"installed","tool":"claude","version":"2.1","origin":"baked"}"#,
        "init|installed claude 2.1 (baked)"
    )]
    #[case(r#"{"kind":"lifecycle","phase":"agent","status":"succeeded","exitCode":0}"#, "agent|succeeded")]
    #[case(
        r#"{"kind":"lifecycle","phase":"agent","status":"failed","exitCode":1,"reason":"no-result"}"#,
        "agent|failed, exit code 1: no-result"
    )]
    #[case(r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Hello\nyou"}]}}"#, "says|Hello\nyou")]
    #[case(
        r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"ls -l"}}]}}"#,
        "tool|Bash  ls -l"
    )]
    #[case(
        r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Edit","input":{"file":"a","n":2}}]}}"#,
        "tool|Edit  file=a n=2"
    )]
    #[case(r#"{"type":"stream_error","error":{"message":"no credit"}}"#, "error|no credit")]
    #[case(r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"one\ntwo\n"}]}}"#, "|one\ntwo")]
    #[case(r#"{"type":"result","is_error":false,"result":"Done."}"#, "result|Done.")]
    #[case("[agent] a warning", "stderr|a warning")]
    #[case("plain words", "|plain words")]
    #[case("12", "|12")]
    fn a_line_is_shown_by_what_it_is(#[case] line: &str, #[case] expected: &str) {
        assert_eq!(shown(line).as_deref(), Some(expected));
    }

    #[rstest]
    #[case(r#"{"type":"system","subtype":"init","cwd":"/workspace"}"#)]
    #[case(r#"{"type":"system","subtype":"token_count"}"#)]
    #[case(r#"{"type":"assistant","message":{"content":[{"type":"text","text":" "}]}}"#)]
    fn a_line_that_tells_people_nothing_is_left_out(#[case] line: &str) {
        assert_eq!(shown(line), None);
    }

    /// What is shown of a recording of a real CLI.
    fn recording(vendor: Vendor, name: &str) -> String {
        let path = format!("{}/../shared/vendors/tests/recordings/{vendor}/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let lines = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        lines.lines().filter_map(|line| view(vendor, line)).map(|shown| entry(Palette::PLAIN, "", 6, &shown)).collect()
    }

    #[rstest]
    #[case(Vendor::Claude)]
    #[case(Vendor::Codex)]
    #[case(Vendor::Gemini)]
    #[case(Vendor::Opencode)]
    fn what_a_real_cli_printed_is_shown_with_its_tools_and_errors(#[case] vendor: Vendor) {
        let shown = ["tool", "error_401"].map(|name| recording(vendor, name)).join("---\n");
        insta::assert_snapshot!(format!("recording-{vendor}"), shown);
    }

    #[test]
    fn a_long_result_of_a_tool_is_cut_and_says_so() {
        let content = (1..=40).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        let line =
            serde_json::json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": content}]}});
        let text = view(Vendor::Claude, &line.to_string()).unwrap().text;
        assert!(text.starts_with("1\n2\n") && text.ends_with("12\n… 28 more lines"), "{text}");
    }

    #[test]
    fn further_lines_of_a_text_stand_below_the_first() {
        let shown = Shown::new("says", "one\n\ntwo", Paint::Plain);
        assert_eq!(entry(Palette::PLAIN, "   12s  ", 9, &shown), "   12s  says       one\n\n                   two\n");
    }

    #[test]
    fn an_agent_cannot_write_escape_sequences_to_the_terminal() {
        let line = serde_json::json!({"type": "assistant", "message": {"content": [
            {"type": "tool_use", "name": "Ba\u{1b}[2Jsh", "input": {"command": "\u{1b}]0;x\u{7}ls\nrm"}}]}});
        assert_eq!(shown(&line.to_string()).unwrap(), "tool|Ba [2Jsh   ]0;x ls rm");
    }
}
