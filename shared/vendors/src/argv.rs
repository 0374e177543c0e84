use std::ffi::OsString;

use signalbox_types::AgentDefinitionSpec;

use crate::{Vendor, claude, codex, exec, gemini, opencode};

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

impl<'a> Invocation<'a> {
    /// The session to go on with; empty for a new one.
    pub(crate) fn resumed(&self) -> &'a str {
        &self.definition.resources.conversation.id
    }
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
}

/// The command that runs `invocation`, the program first. Contract: `docs/contract/agents.md` section 11 and
/// `docs/contract/vendor-clis.md` section 2.
///
/// # Errors
/// An exec recipe has no command that could be spawned.
pub fn argv(invocation: &Invocation<'_>) -> Result<Vec<String>, ArgvError> {
    match invocation.vendor {
        Vendor::Claude => Ok(claude::argv(invocation)),
        Vendor::Codex => Ok(codex::argv(invocation)),
        Vendor::Gemini => Ok(gemini::argv(invocation)),
        Vendor::Opencode => Ok(opencode::argv(invocation)),
        Vendor::Exec => exec::argv(invocation),
    }
}

/// Takes out of an argv that [`argv`] made what makes the CLI go on with an earlier session: that session is not there,
/// and the CLI would end at once, or begin another and say nothing (case 84).
pub fn without_resume(vendor: Vendor, argv: &mut Vec<OsString>) {
    // After it everything is the prompt.
    let options = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    let at = |word: &str| argv[..options].iter().position(|held| held == word);
    let id = match vendor {
        Vendor::Claude | Vendor::Gemini => at("--resume"),
        Vendor::Codex => at("resume"),
        Vendor::Opencode => at("--session"),
        Vendor::Exec => None,
    };
    if let Some(id) = id {
        argv.drain(id..(id + 2).min(options));
    }
    if vendor == Vendor::Claude
        && let Some(fork) = argv.iter().take_while(|word| *word != "--").position(|word| word == "--fork-session")
    {
        argv.remove(fork);
    }
}

/// The words of an argv.
pub(crate) fn owned(words: &[&str]) -> Vec<String> {
    words.iter().copied().map(str::to_owned).collect()
}
