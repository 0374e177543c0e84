//! What a rule can stand on in a CLI's output: which events come in which order, and which keys of which types each kind has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use signalbox_vendors::{Vendor, classify};

/// Where a line says what it is, outermost first.
const KINDS: [&str; 7] =
    ["/type", "/method", "/subtype", "/role", "/item/type", "/params/update/sessionUpdate", "/message/content/0/type"];

/// Objects whose keys are data: what a server has said, not what the CLI says.
const MAPS: [&str; 1] = ["responseHeaders"];

/// The shape of an output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The kinds of its lines in their order; one that comes several times in a row stands once.
    sequence: Vec<String>,
    /// The paths of each kind, with the types found there.
    kinds: BTreeMap<String, Paths>,
}

type Paths = BTreeMap<String, BTreeSet<&'static str>>;

/// The shape of these lines.
pub(crate) fn of(vendor: Vendor, lines: &[&str]) -> Shape {
    let mut shape = Shape::default();
    for line in lines {
        let value = serde_json::from_str(line).unwrap_or(Value::Null);
        let kind = kind(vendor, line, &value);
        flatten("", &value, shape.kinds.entry(kind.clone()).or_default());
        if shape.sequence.last() != Some(&kind) {
            shape.sequence.push(kind);
        }
    }
    shape
}

/// `assistant/tool_use=tool_call`: what the line says it is, and the class that our rules give it.
fn kind(vendor: Vendor, line: &str, value: &Value) -> String {
    let words: Vec<&str> = KINDS.iter().filter_map(|place| value.pointer(place)?.as_str()).collect();
    let name = if words.is_empty() { "line".to_owned() } else { words.join("/") };
    match classify(vendor, line) {
        Some(class) => format!("{name}={}", class.event),
        None => name,
    }
}

fn flatten(path: &str, value: &Value, paths: &mut Paths) {
    paths.entry(path.to_owned()).or_default().insert(type_name(value));
    match value {
        Value::Object(object) => {
            let is_map = path.rsplit('.').next().is_some_and(|name| MAPS.contains(&name));
            for (key, value) in object {
                let key = if is_map { "*" } else { key.as_str() };
                flatten(&if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }, value, paths);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| flatten(&format!("{path}[]"), value, paths)),
        _ => {}
    }
}

const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// What is different, a line each; empty where nothing is.
pub(crate) fn differences(old: &Shape, new: &Shape) -> Vec<String> {
    let mut differences = Vec::new();
    if old.sequence != new.sequence {
        differences.push(format!("events were: {}", old.sequence.join(", ")));
        differences.push(format!("events are:  {}", new.sequence.join(", ")));
    }
    for (kind, old) in &old.kinds {
        let Some(new) = new.kinds.get(kind) else { continue };
        for path in old.keys().chain(new.keys().filter(|path| !old.contains_key(*path))) {
            let difference = match (old.get(path), new.get(path)) {
                (Some(was), Some(is)) if was != is => format!("{path} was {} and is {}", list(was), list(is)),
                (Some(was), None) if is_known(new, path) => format!("{path} ({}) is gone", list(was)),
                (None, Some(is)) if is_known(old, path) => format!("{path} ({}) is new", list(is)),
                _ => continue,
            };
            differences.push(format!("{kind}: {difference}"));
        }
    }
    differences
}

/// Whether a path that is not there would be, if the kind had it: an element of an empty list cannot be seen, and what is
/// below a difference is no second one.
fn is_known(paths: &Paths, path: &str) -> bool {
    let parent = match path.rfind(['.', '[']) {
        Some(at) if path[at..].starts_with("[]") => return is_filled(paths, &path[..at]),
        Some(at) => &path[..at],
        None => "",
    };
    paths.get(parent).is_some_and(|types| types.contains("object"))
}

fn is_filled(paths: &Paths, list: &str) -> bool {
    paths.contains_key(&format!("{list}[]"))
}

fn list(types: &BTreeSet<&str>) -> String {
    types.iter().copied().collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn compare(old: &[&str], new: &[&str]) -> Vec<String> {
        differences(&of(Vendor::Claude, old), &of(Vendor::Claude, new))
    }

    #[test]
    fn other_values_and_other_words_are_no_difference() {
        let old = r#"{"type":"result","is_error":false,"n":1,"list":[1,2],"of":{"a":"x"}}"#;
        let new = r#"{"of":{"a":"y"},"list":[3],"n":2.5,"is_error":true,"type":"result"}"#;
        assert!(compare(&[old], &[new]).is_empty());
    }

    #[rstest]
    #[case::new(r#"{"type":"x","a":1}"#, r#"{"type":"x","a":1,"b":""}"#, "x: b (string) is new")]
    #[case::gone(r#"{"type":"x","o":{"a":1}}"#, r#"{"type":"x","o":{}}"#, "x: o.a (number) is gone")]
    #[case::another(r#"{"type":"x","a":1}"#, r#"{"type":"x","a":"1"}"#, "x: a was number and is string")]
    #[case::in_a_list(r#"{"type":"x","l":[{"a":1}]}"#, r#"{"type":"x","l":[{"b":1}]}"#, "x: l[].a (number) is gone")]
    #[case::an_object_goes(r#"{"type":"x","o":{"a":1}}"#, r#"{"type":"x"}"#, "x: o (object) is gone")]
    fn a_key_that_comes_goes_or_changes_its_type_is_told(#[case] old: &str, #[case] new: &str, #[case] told: &str) {
        assert_eq!(compare(&[old], &[new])[0], told);
        assert!(compare(&[old], &[old]).is_empty());
    }

    #[test]
    fn what_is_below_a_key_that_is_gone_is_not_told_again() {
        assert_eq!(compare(&[r#"{"type":"x","o":{"a":1,"b":{"c":2}}}"#], &[r#"{"type":"x"}"#]).len(), 1);
    }

    #[test]
    fn an_empty_list_is_like_any_other() {
        let (empty, full) = (r#"{"type":"x","l":[]}"#, r#"{"type":"x","l":[{"a":{"b":1}}]}"#);
        assert!(compare(&[empty], &[full]).is_empty() && compare(&[full], &[empty]).is_empty());
        assert_eq!(compare(&[empty], &[r#"{"type":"x","l":{}}"#]), ["x: l was list and is object"]);
    }

    #[test]
    fn the_headers_of_a_server_are_no_part_of_the_shape() {
        let line = r#"{"type":"x","responseHeaders":{"date":"1"}}"#;
        assert!(compare(&[line], &[&line.replace("date", "server")]).is_empty());
        let told = compare(&[line], &[&line.replace(r#""1""#, "1")]);
        assert_eq!(told, ["x: responseHeaders.* was string and is number"]);
    }

    #[test]
    fn the_order_of_kinds_is_compared_and_how_often_one_comes_in_a_row_is_not() {
        let (system, result) = (r#"{"type":"system","subtype":"retry"}"#, r#"{"type":"result"}"#);
        assert!(compare(&[system, result], &[system, system, system, result]).is_empty());
        let told = compare(&[system, result], &[result, system]);
        assert_eq!(told, ["events were: system/retry, result=result", "events are:  result=result, system/retry"]);
    }

    #[test]
    fn a_line_that_our_rules_no_longer_know_is_another_kind() {
        let call = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash"}]}}"#;
        let told = compare(&[call], &[&call.replace("tool_use", "tool_invocation")]);
        assert_eq!(told[0], "events were: assistant/tool_use=tool_call");
        assert_eq!(told[1], "events are:  assistant/tool_invocation=message");
    }

    #[test]
    fn a_line_that_is_no_json_is_a_kind_of_its_own() {
        assert_eq!(compare(&[r#"{"type":"x"}"#], &["plain", r#"{"type":"x"}"#]).len(), 2);
    }
}
