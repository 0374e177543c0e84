use std::{collections::BTreeSet, path::PathBuf, process::Command};

use serde_json::Value;

use super::scene::Scene;

/// One request of a service, as the API server's audit log has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// The service: `job-launcher`.
    pub service: String,
    /// `get agents`, `patch agents/status`, `list pods`...
    pub what: String,
    /// The status of the answer.
    pub code: u64,
    /// The path with its query.
    pub uri: String,
}

/// The requests of the services of the scene's Signalbox about an object, by its name or a part of it.
///
/// # Panics
/// The audit log cannot be read.
pub fn requests(scene: &Scene, name: &str) -> Vec<Request> {
    let log = std::fs::read(log_path()).expect("the audit log can be read");
    let account = format!("system:serviceaccount:{}:signalbox-", scene.site.namespace);
    let mut seen = BTreeSet::new();
    let lines = String::from_utf8_lossy(&log);
    let lines = lines.lines().filter(|line| line.contains(&account) && line.contains(name));
    let events = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    // A watch has two lines.
    let events = events.filter(|event| seen.insert(event["auditID"].to_string()));
    events.filter_map(|event| request(&event, &account)).collect()
}

fn request(event: &Value, account: &str) -> Option<Request> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let subresource = text("/objectRef/subresource");
    let slash = if subresource.is_empty() { "" } else { "/" };
    Some(Request {
        service: text("/user/username").strip_prefix(account)?.to_owned(),
        what: format!("{} {}{slash}{subresource}", text("/verb"), text("/objectRef/resource")),
        code: event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default(),
        uri: text("/requestURI").to_owned(),
    })
}

fn log_path() -> PathBuf {
    let up = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster/up");
    let path = Command::new(up).arg("--audit-log").output().expect("`up` can be run");
    String::from_utf8(path.stdout).expect("a path in UTF-8").trim().into()
}
