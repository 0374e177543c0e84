use crate::{Vendor, claude, codex, exec, gemini, opencode};

/// What a line of a CLI is, for `output.select`: `docs/contract/agents.md` section 12.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// One of the events that `select` knows.
    pub event: &'static str,
    /// The tool it is about, else empty.
    pub tool: String,
    /// What `contains` looks into.
    pub text: String,
}

impl Class {
    pub(crate) fn new(event: &'static str, tool: &str, text: &str) -> Self {
        Self { event, tool: tool.to_owned(), text: text.to_owned() }
    }
}

/// The class of a line; `None` for one that has none or is not JSON.
pub fn classify(vendor: Vendor, line: &str) -> Option<Class> {
    match vendor {
        Vendor::Claude => claude::classify(line),
        Vendor::Codex => codex::classify(line),
        Vendor::Gemini => gemini::classify(line),
        Vendor::Opencode => opencode::classify(line),
        Vendor::Exec => exec::classify(line),
    }
}
