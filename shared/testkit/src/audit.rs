use serde::Deserialize;

/// Every request with its answer and no bodies.
pub(crate) const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
";

/// One request as the API server saw it: the truth about who asked for what, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// Who: `system:serviceaccount:<namespace>:<name>`, or `admin` for the tests themselves.
    pub user: String,
    /// What was done: `get`, `list`, `watch`, `create`, `patch`...
    pub verb: String,
    /// The plural of the kind; empty for `/version` and its like.
    pub resource: String,
    /// `status`, `log`...; empty for the object itself.
    pub subresource: String,
    /// The namespace; empty for a request across all.
    pub namespace: String,
    /// The object; empty for a list.
    pub name: String,
    /// The status of the answer.
    pub code: u16,
    /// The path with its query.
    pub uri: String,
    /// When it was received.
    pub at: jiff::Timestamp,
    /// Whether it is over: a watch is told of when it starts and when it ends.
    pub complete: bool,
}

impl AuditEvent {
    /// Whether it asked for a change.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    request_received_timestamp: jiff::Timestamp,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

/// Reads the API server's log; a last line that is still being written is left out.
pub(crate) fn parse(log: &str) -> Vec<AuditEvent> {
    log.lines().filter_map(|line| serde_json::from_str(line).ok()).map(event).collect()
}

fn event(line: Line) -> AuditEvent {
    AuditEvent {
        user: line.user.username,
        verb: line.verb,
        resource: line.object_ref.resource,
        subresource: line.object_ref.subresource,
        namespace: line.object_ref.namespace,
        name: line.object_ref.name,
        code: line.response_status.code,
        uri: line.request_uri,
        at: line.request_received_timestamp,
        complete: line.stage == "ResponseComplete",
    }
}
