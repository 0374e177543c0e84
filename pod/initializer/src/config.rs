use std::{ffi::OsString, path::PathBuf};

use clap::{Parser, Subcommand};
use serde::de::DeserializeOwned;
use serde_json::Deserializer;
use signalbox_output::list;
use signalbox_types::{InputFile, PermissionMode, Repo, lenient, names};
use signalbox_vendors::{Vendor, state_paths};

use crate::{conversation::Conversation, git::broker::Secret, prepare::Failure, settings::Wanted, skills};

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
    /// CLIs in this image, a folder a vendor, each in the layout of `~/.local`, with its version in `VERSION`.
    #[arg(long, default_value = "/usr/local/lib/ai-agent/cli")]
    pub(crate) baked_clis: PathBuf,
    /// Put in front of the addresses that CLIs come from, `https://` left out. For tests; no recipe can set it.
    #[arg(long, hide = true)]
    pub(crate) installer_base: Option<String>,
    /// Where a repository `owner/name` is. For tests; no recipe can set it.
    #[arg(long, hide = true, default_value = "https://github.com")]
    pub(crate) github_base: String,
    /// What to do instead of preparing a run.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What this program can do beside preparing a run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A credential helper of git, which asks a broker.
    #[command(hide = true)]
    GitCredential(CredentialArgs),
}

/// What a credential helper is told.
#[derive(Debug, clap::Args)]
pub(crate) struct CredentialArgs {
    /// Where the broker is asked.
    #[arg(long)]
    pub(crate) broker: String,
    /// `owner/name`
    #[arg(long)]
    pub(crate) repository: String,
    /// The file with the credential of the run.
    #[arg(long)]
    pub(crate) credential_file: PathBuf,
    /// `get`, `store` or `erase`, in git's own words.
    pub(crate) operation: String,
}

/// What the recipe asks for, read from the environment.
#[derive(Debug)]
pub(crate) struct Config {
    /// `HOME`, where set.
    pub(crate) home: Option<PathBuf>,
    /// `PATH`, on which programs are looked for.
    pub(crate) search: OsString,
    /// `WORKSPACE_DIR`.
    pub(crate) workspace: PathBuf,
    /// Whose CLI will run.
    pub(crate) vendor: Vendor,
    /// The repositories to clone.
    pub(crate) repos: Vec<Repo>,
    /// The broker of tokens for them: its address, and the credential of the run.
    pub(crate) broker: Option<(String, Secret)>,
    /// The files to fetch.
    pub(crate) files: Vec<InputFile>,
    /// The skills to fetch.
    pub(crate) skills: Vec<String>,
    /// Their registry, else empty.
    pub(crate) skills_source: String,
    /// The conversation to go on with.
    pub(crate) conversation: Option<Conversation>,
    /// What the CLI's settings depend on.
    pub(crate) settings: Wanted,
}

impl Config {
    /// Reads the environment.
    ///
    /// # Errors
    /// What makes the run fail at once: a list that is none. A run that goes on without a part of its recipe would look
    /// like a success.
    pub(crate) fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let text = |name: &str| env(name).unwrap_or_default();
        let vendor = Vendor::route(&text("AGENT_MODEL"));
        let broker = (text("AGENT_GIT_CREDENTIAL_URL"), text("AGENT_GIT_CREDENTIAL"));
        let skills: Vec<String> = list("AGENT_SKILLS", text("AGENT_SKILLS").trim());
        Ok(Self {
            home: env("HOME").filter(|home| !home.is_empty()).map(PathBuf::from),
            search: text("PATH").into(),
            workspace: env("WORKSPACE_DIR").unwrap_or_else(|| names::WORKSPACE.to_owned()).into(),
            vendor,
            repos: needed("git", "AGENT_REPOS", &text("AGENT_REPOS"))?,
            broker: (!broker.0.is_empty() && !broker.1.is_empty()).then_some((broker.0, Secret(broker.1))),
            files: needed("files", "AGENT_FILES", &text("AGENT_FILES"))?,
            skills: skills.into_iter().filter(|name| is_skill(name)).collect(),
            skills_source: text("AGENT_SKILLS_SOURCE"),
            conversation: conversation(&text, vendor),
            settings: Wanted {
                mcp_servers: list("AGENT_MCP_SERVERS", text("AGENT_MCP_SERVERS").trim()),
                permission_mode: PermissionMode::from_text(&text("AGENT_PERMISSION_MODE")),
                openai_base_url: env("OPENAI_BASE_URL"),
                google_base_url: env("GOOGLE_GEMINI_BASE_URL"),
            },
        })
    }
}

/// A list that the run must not go on without.
fn needed<T: DeserializeOwned>(tool: &'static str, name: &str, text: &str) -> Result<Vec<T>, Failure> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    lenient::list(&mut Deserializer::from_str(text))
        .map_err(|_| Failure::of(tool, 2).because(format!("{name} is no JSON list")))
}

fn is_skill(name: &str) -> bool {
    if !skills::is_name(name) {
        tracing::warn!("skill {name:?} is left out: that is no name of one");
    }
    skills::is_name(name)
}

fn conversation(text: &impl Fn(&str) -> String, vendor: Vendor) -> Option<Conversation> {
    let (source, id, state) = (text("AGENT_CONVERSATION_SOURCE"), text("AGENT_CONVERSATION_ID"), state_paths(vendor));
    // A realtime recipe cannot name a conversation, so there the id is that of a session to resume.
    let required = text("AGENT_EXECUTION") == "realtime";
    let asked = !source.is_empty() && !id.is_empty() && !state.is_empty();
    asked.then(|| Conversation { source, id, auth: text("AGENT_CONVERSATION_AUTH"), state, required })
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
        assert!(config.files.is_empty() && config.skills.is_empty() && config.conversation.is_none());
        assert!(config.broker.is_none() && config.settings.permission_mode == PermissionMode::Auto);
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
    #[case::repos("AGENT_REPOS", "{}", "git")]
    #[case::files("AGENT_FILES", "[", "files")]
    fn a_list_that_is_none_fails_the_run_by_name(#[case] name: &str, #[case] value: &str, #[case] tool: &str) {
        let failure = config(&[(name, value)]).unwrap_err();
        assert_eq!((failure.tool, failure.code), (Some(tool), 2));
        assert!(failure.reason.unwrap().contains(name));
    }

    #[test]
    fn a_skill_without_a_plain_name_is_left_out() {
        let config = config(&[("AGENT_SKILLS", r#"["review", "../x", ".hidden", "", "a b", "b-1"]"#)]).unwrap();
        assert_eq!(config.skills, ["review", "b-1"]);
    }

    #[rstest]
    #[case::pin_without_store(&[("AGENT_CONVERSATION_PIN", "x")])]
    #[case::store_without_id(&[("AGENT_CONVERSATION_SOURCE", "http://h/")])]
    #[case::id_without_store(&[("AGENT_CONVERSATION_ID", "x")])]
    #[case::exec_has_no_state(&[("AGENT_MODEL", "exec"), ("AGENT_CONVERSATION_SOURCE", "u"), ("AGENT_CONVERSATION_ID", "x")])]
    fn a_conversation_needs_a_store_an_id_and_a_vendor_that_keeps_some(#[case] variables: &[(&str, &str)]) {
        assert!(config(variables).unwrap().conversation.is_none());
    }

    #[test]
    fn a_conversation_is_required_where_a_session_is_resumed() {
        let variables =
            [("AGENT_CONVERSATION_SOURCE", "u"), ("AGENT_CONVERSATION_ID", "x"), ("AGENT_EXECUTION", "realtime")];
        assert!(config(&variables).unwrap().conversation.unwrap().required);
        assert!(!config(&variables[..2]).unwrap().conversation.unwrap().required);
    }
}
