//! How each recording is made: `cases.yaml` beside this crate, and what is known of its end, `cases.yaml` beside the recordings.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::Context;
use serde::Deserialize;
use signalbox_types::AgentDefinitionSpec;
use signalbox_vendors::Vendor;

/// How a recording is made.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Whose CLI.
    #[serde(skip, default = "nobody")]
    pub(crate) vendor: Vendor,
    /// Why it is not made again.
    #[serde(default)]
    left_out: Option<String>,
    /// Minutes that it takes, where it takes some.
    #[serde(default)]
    pub(crate) minutes: u64,
    /// The prompt, which tells the fake vendor what to answer.
    #[serde(default)]
    pub(crate) prompt: String,
    /// The recipe.
    #[serde(default)]
    pub(crate) recipe: AgentDefinitionSpec,
    /// Prompts of runs before, in the same home; the session of the last is then resumed.
    #[serde(default)]
    pub(crate) before: Vec<String>,
    /// After those the home holds what is said to be enough for that, and nothing else.
    #[serde(default)]
    pub(crate) fresh_home: bool,
    /// Variables beside those of every run; null takes one away.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, Option<String>>,
    /// Files below the home; `URL` stands for the address of the vendor's API.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// The signal that ends it.
    #[serde(default)]
    pub(crate) signal: Option<Sent>,
    /// What is written to standard input, for a process that takes more than one prompt.
    #[serde(default)]
    pub(crate) stdin: Vec<Input>,
}

/// A signal, and when it is sent: to the whole process group, as the supervisor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sent {
    /// SIGTERM while the vendor's answer comes, slowly.
    TermWhileAnswering,
    /// SIGINT then.
    IntWhileAnswering,
    /// SIGTERM while a tool runs.
    TermWhileATool,
    /// SIGTERM once all of `stdin` is written and answered.
    TermAfterInput,
}

/// A step of a conversation over standard input.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Input {
    /// A prompt.
    User(String),
    /// A line as it is.
    Line(String),
    /// Waits until that many lines of that `type` have been printed.
    Until(String, usize),
    /// Waits until the vendor has been asked for a slow answer.
    UntilAnswering,
}

/// What is known of a recording's end.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Known {
    /// The exit code of the CLI, a death by signal n as 128+n.
    pub(crate) exit: i32,
    /// The session that it was to go on with.
    #[serde(default)]
    pub(crate) asked_for: String,
    /// What its output says of the end.
    pub(crate) verdict: Option<bool>,
}

fn nobody() -> Vendor {
    Vendor::Exec
}

impl Case {
    /// Why it is left out, if it is.
    pub(crate) fn why_not(&self, slow: bool) -> Option<String> {
        let takes = (self.minutes > 0 && !slow).then(|| format!("takes {} minutes: --slow", self.minutes));
        self.left_out.clone().or(takes)
    }

    /// The model that it runs.
    pub(crate) fn model(&self) -> &str {
        match self.vendor {
            _ if !self.recipe.model.is_empty() => &self.recipe.model,
            Vendor::Claude | Vendor::Exec => "",
            Vendor::Codex => "gpt-5.5",
            Vendor::Gemini => "gemini",
            Vendor::Opencode => "opencode/fake/m1",
        }
    }
}

type Rows<T> = BTreeMap<String, BTreeMap<String, T>>;

fn read<T: for<'de> Deserialize<'de>>(file: &Path) -> anyhow::Result<Rows<T>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| file.display().to_string())
}

/// All recordings by `vendor/name`, with how each is made and how it ends.
///
/// # Errors
/// A file cannot be read, or a recording has no row, or a row no recording.
pub(crate) fn load(cases: &Path, recordings: &Path) -> anyhow::Result<Vec<(String, Case, Known)>> {
    let mut how: Rows<Case> = read(cases)?;
    let known: Rows<Known> = read(&recordings.join("cases.yaml"))?;
    let mut all = Vec::new();
    for (vendor, rows) in known {
        let mut how = how.remove(&vendor).unwrap_or_default();
        for (name, known) in rows {
            let case =
                how.remove(&name).with_context(|| format!("{vendor}/{name} has no row in {}", cases.display()))?;
            all.push((format!("{vendor}/{name}"), Case { vendor: self::vendor(&vendor)?, ..case }, known));
        }
        anyhow::ensure!(how.is_empty(), "{vendor}: no recordings of {:?}", how.keys());
    }
    anyhow::ensure!(how.is_empty(), "no recordings of {:?}", how.keys());
    Ok(all)
}

fn vendor(name: &str) -> anyhow::Result<Vendor> {
    let all = [Vendor::Claude, Vendor::Codex, Vendor::Gemini, Vendor::Opencode];
    all.into_iter().find(|vendor| vendor.as_str() == name).with_context(|| format!("no vendor {name}"))
}

#[cfg(test)]
mod tests {
    use signalbox_vendors::cli;

    use super::*;

    fn all() -> Vec<(String, Case, Known)> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        load(&here.join("cases.yaml"), &here.join("../../shared/vendors/tests/recordings")).unwrap()
    }

    #[test]
    fn each_recording_is_made_again_or_it_is_said_why_not() {
        let all = all();
        assert_eq!(all.len(), 65);
        for (name, case, _) in all {
            let is_made = !case.prompt.is_empty() || !case.stdin.is_empty();
            assert!(is_made != case.left_out.is_some(), "{name}");
        }
    }

    #[test]
    fn a_recording_of_a_resumed_session_is_one_of_a_resumed_session() {
        for (name, case, known) in all() {
            let resumes = !case.before.is_empty() || !case.recipe.resources.conversation.id.is_empty();
            assert!(case.left_out.is_some() || resumes != known.asked_for.is_empty(), "{name}");
        }
    }

    #[test]
    fn the_clis_that_are_installed_are_those_that_the_rules_were_seen_in() {
        let package: serde_json::Value = serde_json::from_str(include_str!("../clis/package.json")).unwrap();
        let (direct, native) = (&package["dependencies"], &package["optionalDependencies"]);
        let seen = |vendor| cli(vendor).unwrap().seen;
        assert_eq!(direct["@google/gemini-cli"], seen(Vendor::Gemini));
        assert_eq!(native["opencode-linux-x64"], seen(Vendor::Opencode));
        assert_eq!(native["opencode-linux-x64-baseline"], seen(Vendor::Opencode));
        for cpu in ["x64", "arm64"] {
            assert_eq!(native[format!("@anthropic-ai/claude-code-linux-{cpu}")], seen(Vendor::Claude));
            let codex = format!("npm:@openai/codex@{}-linux-{cpu}", seen(Vendor::Codex));
            assert_eq!(native[format!("@openai/codex-linux-{cpu}")], codex);
        }
    }
}
