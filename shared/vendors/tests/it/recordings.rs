use std::{collections::BTreeMap, path::PathBuf};

use rstest::rstest;
use serde_json::{Value, json};
use signalbox_types::{
    SELECT_EVENTS,
    event::{Lifecycle, LifecycleStatus, Stage},
};
use signalbox_vendors::{Ending, Seen, Vendor, classify, usage};

use crate::support::{Case, case, cases, folder, recording, vendor, watch};

/// Rule 3.2 of the contract's page on the CLIs, for a run that its supervisor did not force down.
fn code(case: &Case, ending: &Ending) -> i32 {
    let has_failed = ending.verdict() == Some(false);
    let is_incomplete = ending.needs_terminal_line() && !ending.has_result();
    match (case.signal, case.exit) {
        (Some(signal), 0) => 128 + signal,
        (None, 0) => i32::from(has_failed || is_incomplete),
        (_, code) => code,
    }
}

#[rstest]
fn a_recording_ends_as_its_row_says(#[files("tests/recordings/*/*.jsonl")] path: PathBuf) {
    let name = path.strip_prefix(folder()).unwrap().with_extension("");
    let name = name.to_str().unwrap();
    let case = case(name);
    let (vendor, text) = (vendor(name), recording(name));
    let lines: Vec<&str> = text.lines().collect();
    let (seen, ending) = watch(Ending::new(vendor).resuming(&case.asked_for), &lines);
    assert_eq!(ending.verdict(), case.verdict, "{}", case.what);
    assert_eq!(ending.reason(), case.reason.as_deref());
    assert_eq!(seen.last().is_some(), ending.has_result(), "a result is told when it comes");
    if vendor == Vendor::Opencode {
        assert_eq!(seen, [], "the exit decides");
    } else if let Some(ok) = case.verdict {
        assert_eq!(seen.last(), Some(&Seen::Terminal { ok }));
    }
    if let Some(expected) = case.code {
        assert_eq!(code(&case, &ending), expected, "{}", case.what);
    }
}

#[test]
fn each_of_the_65_recordings_has_a_row_and_each_row_a_recording() {
    let vendors = folder().read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = vendors.flat_map(|vendor| vendor.read_dir().unwrap().map(|entry| entry.unwrap().path()));
    let mut names: Vec<String> = files
        .map(|file| file.strip_prefix(folder()).unwrap().with_extension("").to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, cases().into_keys().collect::<Vec<_>>());
    assert_eq!(names.len(), 65);
}

/// What a pod prints: lines of ours, what is no JSON, and the recording in between.
pub fn log_of(recording: &str) -> String {
    let event = |stage, status| serde_json::to_string(&Lifecycle::new(stage, status)).unwrap();
    let started = event(Stage::Agent, LifecycleStatus::Started);
    let succeeded = event(Stage::Agent, LifecycleStatus::Succeeded);
    format!("{started}\nnpm warn of something\n{recording}{succeeded}\n")
}

/// A line as `<event> <tool>: <text>`, cut to what a reader needs.
fn line(vendor: Vendor, line: &str) -> Option<String> {
    let class = classify(vendor, line)?;
    assert!(SELECT_EVENTS.contains(&class.event), "{}", class.event);
    let text: String = class.text.chars().take(60).collect();
    Some(format!("{} {}: {text}", class.event, class.tool))
}

#[rstest]
#[case("claude")]
#[case("codex")]
#[case("gemini")]
#[case("opencode")]
fn the_recordings_have_these_classes_and_this_usage(#[case] folder: &str) {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    for (name, case) in cases().into_iter().filter(|(name, _)| name.starts_with(folder)) {
        let (vendor, text) = (vendor(&name), recording(&name));
        let classes: Vec<Option<String>> = text.lines().map(|text| line(vendor, text)).collect();
        let usage = usage(vendor, &log_of(&text), !case.asked_for.is_empty());
        all.insert(name, json!({ "classes": classes, "usage": usage }));
    }
    insta::assert_yaml_snapshot!(folder, all);
}
