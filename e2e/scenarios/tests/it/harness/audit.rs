use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
    process::Command,
    sync::OnceLock,
};

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

/// The requests of the services of the scene's Signalbox whose line in the log has this text, such as an object's name.
///
/// # Panics
/// The audit log cannot be read.
pub fn requests(scene: &Scene, text: &str) -> Vec<Request> {
    let log = read_from(*start()).expect("the audit log can be read");
    let account = format!("system:serviceaccount:{}:signalbox-", scene.site.namespace);
    let mut seen = BTreeSet::new();
    let lines = String::from_utf8_lossy(&log);
    let lines = lines.lines().filter(|line| line.contains(&account) && line.contains(text));
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

/// Where the log ended when it was first asked for: what is before is of another process.
pub fn start() -> &'static u64 {
    static START: OnceLock<u64> = OnceLock::new();
    START.get_or_init(|| std::fs::metadata(log_path()).map(|log| log.len()).unwrap_or_default())
}

fn read_from(start: u64) -> io::Result<Vec<u8>> {
    let mut log = File::open(log_path())?;
    log.seek(SeekFrom::Start(start))?;
    let mut text = Vec::new();
    log.read_to_end(&mut text)?;
    Ok(text)
}

fn log_path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let up = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster/up");
        let path = Command::new(up).arg("--audit-log").output().expect("`up` can be run");
        String::from_utf8(path.stdout).expect("a path in UTF-8").trim().into()
    })
}
