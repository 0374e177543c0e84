//! The recipe's own command. What it prints is read as Claude Code's output is, so that a script can tell its end and
//! be selected from, but it need not print anything.

use serde_json::Value;

use crate::{ArgvError, Class, Invocation, claude, ending::Sign, usage::Part};

pub(crate) fn argv(invocation: &Invocation<'_>) -> Result<Vec<String>, ArgvError> {
    let command = invocation.definition.tool_config.as_ref().and_then(|config| config.get("command"));
    let command = command.filter(|command| !command.is_null()).ok_or(ArgvError::CommandMissing)?;
    let words = command.as_array().filter(|words| !words.is_empty()).ok_or(ArgvError::CommandNotAList)?;
    let prompt = Ok(invocation.prompt.to_owned());
    words.iter().map(word).chain([prompt]).collect()
}

fn word(word: &Value) -> Result<String, ArgvError> {
    word.as_str().map(str::to_owned).ok_or(ArgvError::CommandEntryNotAString)
}

/// A `result` ends the run. Unlike Claude Code, a command is not known to go on after one.
pub(crate) fn sign(line: &str) -> Sign {
    match claude::sign(line) {
        Sign::Work => Sign::Other,
        sign => sign,
    }
}

pub(crate) fn classify(line: &str) -> Option<Class> {
    claude::classify(line)
}

pub(crate) fn spent(line: &str) -> Option<Part> {
    claude::spent(line)
}
