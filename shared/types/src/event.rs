//! The events that the programs of a run print on standard output, one JSON line each: `docs/contract/agents.md`
//! section 12. What the agent prints goes between them as it is.

use serde::{Deserialize, Serialize};

/// Which program of the run speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The initializer.
    Init,
    /// The supervisor.
    Agent,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LifecycleStatus {
    /// It has begun.
    Started,
    /// It is installing a tool.
    Installing,
    /// A tool is there.
    Installed,
    /// A tool is at work.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
}

/// A lifecycle event; build it with [`Lifecycle::new`] and the `with_` methods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", rename = "lifecycle")]
pub struct Lifecycle {
    /// Which program of the run speaks.
    pub phase: Stage,
    /// What it says.
    pub status: LifecycleStatus,
    /// The tool it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The exit code; 0 is written too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The version of a tool that is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where a tool that is installed came from: `baked`, `downloaded` or `present`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl Lifecycle {
    /// An event without tool, reason and code.
    pub const fn new(phase: Stage, status: LifecycleStatus) -> Self {
        Self { phase, status, tool: None, reason: None, exit_code: None, version: None, origin: None }
    }

    /// The same about a tool.
    #[must_use]
    pub fn with_tool(mut self, tool: impl Into<String>) -> Self {
        self.tool = Some(tool.into());
        self
    }

    /// The same with a reason.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// The same with an exit code.
    #[must_use]
    pub const fn with_exit_code(mut self, code: i32) -> Self {
        self.exit_code = Some(code);
        self
    }
}

/// Who an event comes from, in a sink's envelope; empty ids are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The Agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// The Station.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub station: String,
    /// The caller's task.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The pod.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod: String,
    /// The namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}
