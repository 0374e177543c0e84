use serde_json::{Value, json};
use signalbox_types::McpServer;

use crate::{claude, codex, gemini, opencode};

/// The model of a run whose Agent and recipe name none, in every execution mode, so that the Job that takes over a
/// batch runs what the batch would have.
pub const DEFAULT_MODEL: &str = "claude-opus-5-5";

/// Whose CLI runs a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Vendor {
    /// Claude Code.
    Claude,
    /// OpenAI Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// OpenCode.
    Opencode,
    /// No vendor: the recipe's own command.
    Exec,
}

impl Vendor {
    /// The vendor of a model: the first rule that matches its lower-case name, Claude for all others and for none.
    /// Argv, event classes and the end of a run all follow this one routing.
    pub fn route(model: &str) -> Self {
        let model = model.to_lowercase();
        if model == "exec" {
            Self::Exec
        } else if model.contains("opencode") {
            Self::Opencode
        } else if model.contains("codex") || ["gpt", "o1", "o3", "o4"].iter().any(|start| model.starts_with(start)) {
            Self::Codex
        } else if model.starts_with("gemini") {
            Self::Gemini
        } else {
            Self::Claude
        }
    }

    /// The vendor's name as failure reasons have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
            Self::Exec => "exec",
        }
    }

    /// True where a run can be told which id its session gets.
    pub const fn can_pin(self) -> bool {
        matches!(self, Self::Claude)
    }

    /// True where a run can go on with an earlier session.
    pub const fn can_resume(self) -> bool {
        !matches!(self, Self::Exec)
    }

    /// True where the ids of the vendor's sessions are UUIDs, and a recipe that pins another id cannot start.
    pub const fn session_ids_are_uuids(self) -> bool {
        matches!(self, Self::Claude | Self::Codex | Self::Gemini)
    }
}

impl std::fmt::Display for Vendor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `model`, or [`DEFAULT_MODEL`] where it is empty.
pub fn model_or_default(model: &str) -> &str {
    if model.is_empty() { DEFAULT_MODEL } else { model }
}

/// Variables that the vendor's CLI needs in a run pod, each only where the recipe does not set it.
pub const fn env_extras(vendor: Vendor) -> &'static [(&'static str, &'static str)] {
    match vendor {
        Vendor::Claude => claude::ENV,
        Vendor::Gemini => gemini::ENV,
        Vendor::Opencode => opencode::ENV,
        Vendor::Codex | Vendor::Exec => &[],
    }
}

/// Variables that have to hold what another one of the recipe's holds, as `(copy, original)`, each only where the recipe
/// sets the original and not the copy.
pub const fn env_copies(vendor: Vendor) -> &'static [(&'static str, &'static str)] {
    match vendor {
        Vendor::Codex => codex::ENV_COPIES,
        Vendor::Claude | Vendor::Gemini | Vendor::Opencode | Vendor::Exec => &[],
    }
}

/// What of `HOME` has to be saved and restored for a session to be resumed: files or folders, below `HOME`. Nothing
/// else: settings, keys and policies of one run have no place in another.
pub const fn state_paths(vendor: Vendor) -> &'static [&'static str] {
    match vendor {
        Vendor::Claude => claude::STATE,
        Vendor::Codex => codex::STATE,
        Vendor::Gemini => gemini::STATE,
        Vendor::Opencode => opencode::STATE,
        Vendor::Exec => &[],
    }
}

/// The variable that holds the secret `key` of an MCP server (`tools-mcp-auth` is in `TOOLS_MCP_AUTH`): the references
/// in the CLI's MCP settings take no other characters.
pub fn mcp_env_name(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// The headers of an MCP server that has a secret. It is named, never written: the CLI expands `${NAME}` itself.
pub(crate) fn mcp_headers(server: &McpServer) -> Value {
    json!({ "Authorization": format!("${{{}}}", mcp_env_name(&server.headers_secret)) })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Vendor::Claude)]
    #[case("claude-opus-5-5", Vendor::Claude)]
    #[case("something-else", Vendor::Claude)]
    #[case("exec", Vendor::Exec)]
    #[case("EXEC", Vendor::Exec)]
    #[case("executor", Vendor::Claude)]
    #[case("opencode", Vendor::Opencode)]
    #[case("opencode/gpt-5-codex", Vendor::Opencode)]
    #[case("my-codex", Vendor::Codex)]
    #[case("GPT-5.5", Vendor::Codex)]
    #[case("o3-mini", Vendor::Codex)]
    #[case("o1", Vendor::Codex)]
    #[case("o4-mini", Vendor::Codex)]
    #[case("gemini-3.1-flash-lite", Vendor::Gemini)]
    #[case("not-gemini", Vendor::Claude)]
    fn a_model_is_routed_by_the_first_rule_that_matches(#[case] model: &str, #[case] vendor: Vendor) {
        assert_eq!(Vendor::route(model), vendor);
    }

    #[test]
    fn a_run_without_a_model_has_the_default_one() {
        assert_eq!(model_or_default(""), "claude-opus-5-5");
        assert_eq!(model_or_default("exec"), "exec");
    }

    #[rstest]
    #[case("tools-mcp-auth", "TOOLS_MCP_AUTH")]
    #[case("a.b/c9", "A_B_C9")]
    #[case("é", "_")]
    fn the_variable_of_an_mcp_secret_has_only_capitals_digits_and_underscores(#[case] key: &str, #[case] name: &str) {
        assert_eq!(mcp_env_name(key), name);
    }
}
