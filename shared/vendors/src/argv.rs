use signalbox_types::AgentDefinitionSpec;

use crate::{Vendor, claude, exec};

/// What a CLI is started for.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// Whose CLI.
    pub vendor: Vendor,
    /// The run's model; empty means the default one.
    pub model: &'a str,
    /// The rendered prompt.
    pub prompt: &'a str,
    /// The recipe.
    pub definition: &'a AgentDefinitionSpec,
}

/// Why a recipe gives no argv. The texts are those of the contract and reach `failureReason`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgvError {
    /// Without a command there is nothing to spawn.
    #[error("exec recipe needs tool_config.command (the argv to spawn)")]
    CommandMissing,
    /// A shell line, for one, is no argv.
    #[error("exec recipe tool_config.command must be a non-empty array of strings")]
    CommandNotAList,
    /// A number, for one, has no one spelling as an argument.
    #[error("exec recipe tool_config.command entries must be strings")]
    CommandEntryNotAString,
    /// The adapter of this vendor is not built yet.
    #[error("this version of Signalbox cannot run {vendor} (model {model:?}) yet, only claude and exec")]
    VendorNotBuilt {
        /// Whose CLI it would be.
        vendor: Vendor,
        /// The model that was asked for.
        model: String,
    },
}

/// The command that runs `invocation`, the program first. Contract: `docs/contract/agents.md` section 11.
pub fn argv(invocation: &Invocation<'_>) -> Result<Vec<String>, ArgvError> {
    match invocation.vendor {
        Vendor::Claude => Ok(claude::argv(invocation)),
        Vendor::Exec => exec::argv(invocation),
        vendor @ (Vendor::Codex | Vendor::Gemini | Vendor::Opencode) => {
            Err(ArgvError::VendorNotBuilt { vendor, model: invocation.model.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("gpt-5.5", "codex")]
    #[case("gemini-3.1-flash-lite", "gemini")]
    #[case("opencode/x", "opencode")]
    fn a_vendor_that_is_not_built_is_refused_by_name(#[case] model: &str, #[case] vendor: &str) {
        let definition = AgentDefinitionSpec::default();
        let invocation = Invocation { vendor: Vendor::route(model), model, prompt: "p", definition: &definition };
        let error = argv(&invocation).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("this version of Signalbox cannot run {vendor} (model {model:?}) yet, only claude and exec")
        );
    }
}
