use std::path::PathBuf;

use clap::Parser;
use serde_json::{Deserializer, value::RawValue};
use signalbox_types::{Repo, lenient, names};
use signalbox_vendors::Vendor;

use crate::prepare::Failure;

/// Prepares the home and the workspace of an agent run. All else comes from the environment that the run's Job sets.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// The volume that carries the supervisor and is the agent's home.
    #[arg(long, default_value = names::AGENT_HOME)]
    pub(crate) agent_dir: PathBuf,
    /// The supervisor in this image.
    #[arg(long, default_value = names::STAGED_SUPERVISOR_PATH)]
    pub(crate) staged_supervisor: PathBuf,
}

/// What the recipe asks for, read from the environment.
#[derive(Debug)]
pub(crate) struct Config {
    /// `HOME`, where set.
    pub(crate) home: Option<PathBuf>,
    /// `WORKSPACE_DIR`.
    pub(crate) workspace: PathBuf,
    /// Whose CLI will run.
    pub(crate) vendor: Vendor,
    /// The repositories to clone.
    pub(crate) repos: Vec<Repo>,
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    /// What makes the run fail at once: a list that is none, and whatever this version cannot do. A run that goes on
    /// without a part of its recipe would look like a success.
    pub(crate) fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let text = |name: &str| env(name).unwrap_or_default();
        let vendor = Vendor::route(&text("AGENT_MODEL"));
        if let Some((tool, what)) = unsupported(&text, vendor) {
            return Err(Failure::of(tool, 2).because(format!("not supported by this version: {what}")));
        }
        Ok(Self {
            home: env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from),
            workspace: env("WORKSPACE_DIR").unwrap_or_else(|| names::WORKSPACE.to_owned()).into(),
            vendor,
            repos: repos(&text("AGENT_REPOS"))?,
        })
    }
}

fn repos(text: &str) -> Result<Vec<Repo>, Failure> {
    if !asks(text) {
        return Ok(Vec::new());
    }
    lenient::list(&mut Deserializer::from_str(text))
        .map_err(|_| Failure::of("git", 2).because("AGENT_REPOS is no JSON list".to_owned()))
}

/// The first thing the recipe asks for that this version cannot do: its tool and its name.
fn unsupported(text: &impl Fn(&str) -> String, vendor: Vendor) -> Option<(&'static str, &'static str)> {
    let asked = |name: &str| asks(&text(name));
    let restored_or_saved = asked("AGENT_CONVERSATION_ID") || asked("AGENT_CONVERSATION_PIN");
    if asked("AGENT_FILES") {
        Some(("files", "input files (AGENT_FILES)"))
    } else if asked("AGENT_SKILLS") || asked("AGENT_SKILLS_SOURCE") {
        Some(("skills", "skills (AGENT_SKILLS, AGENT_SKILLS_SOURCE)"))
    } else if vendor != Vendor::Exec && asked("AGENT_CONVERSATION_SOURCE") && restored_or_saved {
        Some(("conversation", "restoring and saving a conversation (AGENT_CONVERSATION_SOURCE)"))
    } else if asked("AGENT_GIT_CREDENTIAL") && asked("AGENT_GIT_CREDENTIAL_URL") {
        Some(("git", "a broker of git credentials (AGENT_GIT_CREDENTIAL_URL)"))
    } else {
        None
    }
}

/// Whether a variable holds anything: text that is not empty, not the empty list and not null.
fn asks(text: &str) -> bool {
    let is_empty_list = || matches!(serde_json::from_str::<Vec<&RawValue>>(text), Ok(list) if list.is_empty());
    !matches!(text.trim(), "" | "null") && !is_empty_list()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn config(variables: &[(&str, &str)]) -> Result<Config, Failure> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Config::from_env(find)
    }

    #[test]
    fn an_empty_recipe_asks_for_nothing() {
        let config = config(&[("AGENT_SKILLS", "[]"), ("AGENT_REPOS", " [ ] "), ("AGENT_FILES", "null"), ("HOME", "")]);
        let config = config.unwrap();
        assert!(config.repos.is_empty() && config.home.is_none() && config.vendor == Vendor::Claude);
        assert_eq!(config.workspace, PathBuf::from("/workspace"));
    }

    #[test]
    fn a_repository_that_does_not_decode_is_left_out() {
        let repos = r#"[{"name":"a","url":"o/a","ref":"v1"}, 7]"#;
        let config = config(&[("AGENT_REPOS", repos)]).unwrap();
        let expected = Repo { name: "a".into(), url: "o/a".into(), reference: "v1".into(), ..Repo::default() };
        assert_eq!(config.repos, [expected]);
    }

    #[rstest]
    #[case::files(&[("AGENT_FILES", r#"[{"path":"a","url":"http://h/"}]"#)], "files")]
    #[case::skills(&[("AGENT_SKILLS", r#"["s"]"#)], "skills")]
    #[case::skills_source(&[("AGENT_SKILLS_SOURCE", "http://h/")], "skills")]
    #[case::restore(&[("AGENT_CONVERSATION_SOURCE", "http://h/"), ("AGENT_CONVERSATION_ID", "x")], "conversation")]
    #[case::save(&[("AGENT_CONVERSATION_SOURCE", "http://h/"), ("AGENT_CONVERSATION_PIN", "x")], "conversation")]
    #[case::broker(&[("AGENT_GIT_CREDENTIAL", "x"), ("AGENT_GIT_CREDENTIAL_URL", "http://h/")], "git")]
    #[case::no_list(&[("AGENT_REPOS", "{}")], "git")]
    fn what_this_version_cannot_do_fails_the_run_by_name(#[case] variables: &[(&str, &str)], #[case] tool: &str) {
        let failure = config(variables).unwrap_err();
        assert_eq!((failure.tool, failure.code), (Some(tool), 2));
        assert!(failure.reason.unwrap().contains(variables.last().unwrap().0.split('_').nth(1).unwrap()));
    }

    #[rstest]
    #[case::pin_without_store(&[("AGENT_CONVERSATION_PIN", "x")])]
    #[case::store_without_id(&[("AGENT_CONVERSATION_SOURCE", "http://h/")])]
    #[case::exec_has_no_state(&[("AGENT_MODEL", "exec"), ("AGENT_CONVERSATION_SOURCE", "u"), ("AGENT_CONVERSATION_ID", "x")])]
    fn what_needs_no_store_is_no_reason_to_fail(#[case] variables: &[(&str, &str)]) {
        assert!(config(variables).is_ok());
    }
}
