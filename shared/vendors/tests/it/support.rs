use std::{collections::BTreeMap, fs, path::PathBuf};

use serde::Deserialize;
use signalbox_vendors::{Ending, Seen, Vendor};

/// A row of `cases.yaml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub exit: i32,
    pub signal: Option<i32>,
    #[serde(default)]
    pub asked_for: String,
    pub verdict: Option<bool>,
    pub code: Option<i32>,
    pub reason: Option<String>,
    pub what: String,
}

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

/// All rows, by `vendor/name`.
pub fn cases() -> BTreeMap<String, Case> {
    let text = fs::read_to_string(folder().join("cases.yaml")).unwrap();
    let vendors: BTreeMap<String, BTreeMap<String, Case>> = serde_saphyr::from_str(&text).unwrap();
    let rows = vendors
        .into_iter()
        .flat_map(|(vendor, rows)| rows.into_iter().map(move |(name, case)| (format!("{vendor}/{name}"), case)));
    rows.collect()
}

/// The row of a recording.
pub fn case(recording: &str) -> Case {
    cases().remove(recording).unwrap()
}

/// The vendor of `vendor/name`.
pub fn vendor(recording: &str) -> Vendor {
    let folder = recording.split_once('/').unwrap().0;
    let all = [Vendor::Claude, Vendor::Codex, Vendor::Gemini, Vendor::Opencode, Vendor::Exec];
    all.into_iter().find(|vendor| vendor.as_str() == folder).unwrap()
}

/// The recording `vendor/name`.
pub fn recording(name: &str) -> String {
    fs::read_to_string(folder().join(format!("{name}.jsonl"))).unwrap()
}

/// What the lines say of the end, one after the other, and all in all.
pub fn watch(mut ending: Ending, lines: &[impl AsRef<str>]) -> (Vec<Seen>, Ending) {
    let seen = lines.iter().map(|line| ending.observe(line.as_ref())).filter(|seen| *seen != Seen::Nothing).collect();
    (seen, ending)
}
