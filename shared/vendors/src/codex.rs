//! OpenAI Codex, as seen in version 0.171.0.
//!
//! MCP servers of a recipe do not reach it, nor do lists of tools, `max_turns` and pins.

use serde_json::Value;
use toml_edit::{DocumentMut, Item, Table, value};

use crate::{Class, Cli, Install, Invocation, argv::owned, ending::Sign, line, usage::Part};

/// The settings file, which the initializer completes with [`complete_config`].
pub const CONFIG_PATH: &str = "/agent/.codex/config.toml";

pub(crate) const CLI: Cli = Cli {
    command: "codex",
    seen: "0.171.0",
    install: Install::Script { url: "https://chatgpt.com/codex/install.sh", shell: "sh", leaves: ".local/bin/codex" },
    needs: &["sh", "curl", "tar"],
};

/// The built-in provider does not look at `OPENAI_API_KEY`.
pub(crate) const ENV_COPIES: &[(&str, &str)] = &[("CODEX_API_KEY", "OPENAI_API_KEY")];

/// What is enough to resume a session.
pub(crate) const STATE: &[&str] = &[".codex/sessions"];

/// In a pod the CLI's own sandbox cannot start (no user namespaces under RuntimeDefault seccomp): every command fails,
/// and the turn still reports success. The pod is the sandbox, so `auto` is `bypass` here. The root of the workspace is
/// no repository, and the CLI would refuse to start there.
const ALWAYS: &[&str] = &["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];

pub(crate) fn argv(invocation: &Invocation<'_>) -> Vec<String> {
    let mut argv = vec!["codex", "exec"];
    let id = invocation.resumed();
    if !id.is_empty() {
        argv.extend(["resume", id]);
    }
    argv.push("--json");
    // Bare, it names the vendor and no model.
    if !invocation.model.eq_ignore_ascii_case("codex") {
        argv.extend(["--model", invocation.model]);
    }
    argv.extend(ALWAYS);
    // A dash alone would mean standard input, even here.
    argv.extend(["--", if invocation.prompt == "-" { "-\n" } else { invocation.prompt }]);
    owned(&argv)
}

/// The thread that a line starts or goes on with.
pub(crate) fn thread(line: &str) -> Option<String> {
    line::of_kind(line, "thread.started")?["thread_id"].as_str().map(str::to_owned)
}

/// A turn ends the run. A bare `error` line is a try that is repeated, an item of type `error` a warning.
pub(crate) fn sign(line: &str) -> Sign {
    match line::kind(line).as_deref() {
        Some("turn.completed") => Sign::Result { ok: true },
        Some("turn.failed") => Sign::Result { ok: false },
        _ => Sign::Other,
    }
}

pub(crate) fn classify(line: &str) -> Option<Class> {
    let line: Value = line::parse(line)?;
    match line["type"].as_str()? {
        "turn.completed" => Some(Class::new("usage", "", "")),
        "item.completed" => item(&line["item"]),
        _ => None,
    }
}

fn item(item: &Value) -> Option<Class> {
    let text = |key: &str| item[key].as_str().unwrap_or_default();
    match item["type"].as_str()? {
        "agent_message" => Some(Class::new("message", "", text("text"))),
        "command_execution" => Some(Class::new("tool_call", "", text("command"))),
        "mcp_tool_call" => Some(Class::new("tool_call", text("tool"), "")),
        "file_change" | "web_search" => Some(Class::new("tool_call", "", "")),
        _ => None,
    }
}

/// What a turn says of its thread, all earlier runs of it included. Its `input_tokens` have the cached ones in them.
pub(crate) fn spent(line: &str) -> Option<Part> {
    let line = line::of_kind(line, "turn.completed")?;
    let told = |key: &str| line["usage"][key].as_u64();
    let mut part = Part::default();
    part.usage.input_tokens = told("input_tokens");
    part.usage.output_tokens = told("output_tokens");
    part.usage.cached_input_tokens = told("cached_input_tokens");
    Some(part)
}

/// Why a settings file cannot be completed. The text names the place and what is wrong there, never a value: the file
/// may hold keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("config.toml is not TOML: {message} (byte {at})")]
pub struct ConfigError {
    message: String,
    at: usize,
}

/// The settings file `existing`, which may be empty, with what a run in a pod needs. What is there stays as it is, and
/// wins: no calls home (with egress dropped the CLI would exit ten seconds late), no plugins, and the vendor's address
/// of the recipe's `OPENAI_BASE_URL`, a variable that the CLI does not look at.
///
/// # Errors
/// `existing` is not TOML.
pub fn complete_config(existing: &str, openai_base_url: Option<&str>) -> Result<String, ConfigError> {
    let mut config: DocumentMut = existing.parse().map_err(|error: toml_edit::TomlError| ConfigError {
        message: error.message().to_owned(),
        at: error.span().map_or(0, |span| span.start),
    })?;
    turn_off(&mut config, "analytics", "enabled");
    turn_off(&mut config, "features", "plugins");
    if let Some(url) = openai_base_url.filter(|url| !url.is_empty()) {
        config.entry("openai_base_url").or_insert_with(|| value(url));
    }
    Ok(config.to_string())
}

fn turn_off(config: &mut DocumentMut, table: &str, key: &str) {
    let item = config.entry(table).or_insert_with(|| Item::Table(Table::new()));
    if let Some(table) = item.as_table_like_mut()
        && !table.contains_key(key)
    {
        table.insert(key, value(false));
    }
}
