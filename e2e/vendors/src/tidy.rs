//! What is different in each run and means nothing, made the same.

use serde_json::Value;
use signalbox_testkit::{FakeVendors, vendors::Api};
use signalbox_types::names;

use crate::home::Home;

/// Lists of a CLI's own commands, models and tools, which are long and change with each version.
const CATALOGUES: [&str; 3] = ["commands", "models", "availableModels"];

/// Replaces addresses and paths.
pub(crate) struct Tidy(Vec<(String, &'static str)>);

impl Tidy {
    /// For runs in that home against that server.
    pub(crate) fn new(server: &FakeVendors, home: &Home) -> Self {
        let url = server.url(Api::Mcp);
        let host = url.trim_start_matches("http://").trim_end_matches(Api::Mcp.base()).to_owned();
        Self(vec![
            (host, "vendor.invalid"),
            (home.agent.display().to_string(), names::AGENT_HOME),
            (home.workspace.display().to_string(), names::WORKSPACE),
            (home.tmp.display().to_string(), "/tmp"),
        ])
    }

    /// A line as it goes into a recording.
    pub(crate) fn line(&self, line: &str) -> String {
        let line = self.0.iter().fold(line.to_owned(), |line, (here, there)| line.replace(here, there));
        let mut value: Value = serde_json::from_str(&line).unwrap_or_default();
        if empty(&mut value) { value.to_string() } else { line }
    }
}

/// Empties catalogues; whether there were any.
fn empty(value: &mut Value) -> bool {
    let mut found = false;
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::Array(list) if CATALOGUES.contains(&key.as_str()) && !list.is_empty() => {
                        list.clear();
                        found = true;
                    }
                    value => found |= empty(value),
                }
            }
        }
        Value::Array(list) => {
            for value in list {
                found |= empty(value);
            }
        }
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths_are_the_same_in_each_recording() {
        let tidy = Tidy(vec![("127.0.0.1:4711".into(), "vendor.invalid"), ("/tmp/x/agent".into(), "/agent")]);
        let line = tidy.line(r#"{"text":"http://127.0.0.1:4711/v1 /tmp/x/agent/.claude","z":1,"a":2}"#);
        assert_eq!(line, r#"{"text":"http://vendor.invalid/v1 /agent/.claude","z":1,"a":2}"#);
    }

    #[test]
    fn catalogues_are_emptied_and_other_lists_stay() {
        let line = Tidy(Vec::new()).line(r#"{"r":{"commands":[{"name":"x"}],"tools":["Bash"]},"models":[]}"#);
        assert_eq!(
            serde_json::from_str::<Value>(&line).unwrap(),
            serde_json::json!({
                "r": { "commands": [], "tools": ["Bash"] }, "models": [],
            })
        );
    }
}
