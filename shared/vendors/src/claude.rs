//! Claude Code, as seen in version 2.1.332.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use signalbox_types::{McpServer, McpTransport, PermissionMode};

use crate::{
    Class, Cli, Install, Invocation,
    ending::Sign,
    line, mcp_headers, model_or_default,
    usage::{Part, cost, total},
};

/// The settings file; the CLI ends with code 1 and without a word where it is missing, so the initializer always leaves
/// one.
pub const SETTINGS_PATH: &str = "/agent/.claude/settings.json";

/// No calls home: with egress dropped they cost seconds at the start. No background tasks: they would print a result
/// after the result.
pub(crate) const ENV: &[(&str, &str)] =
    &[("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"), ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1")];

pub(crate) const CLI: Cli = Cli {
    command: "claude",
    seen: "2.1.332",
    install: Install::Script { url: "https://claude.ai/install.sh", shell: "bash", leaves: ".local/bin/claude" },
    needs: &["bash", "curl", "sha256sum"],
};

/// What is enough to resume a session.
pub(crate) const STATE: &[&str] = &[".claude/projects"];

pub(crate) fn argv(invocation: &Invocation<'_>) -> Vec<String> {
    let recipe = invocation.definition;
    let model = model_or_default(invocation.model);
    let mut argv = ["claude", "--print", "--verbose", "--output-format", "stream-json", "--model", model]
        .map(str::to_owned)
        .to_vec();
    let mut push = |words: &[&str]| argv.extend(words.iter().copied().map(str::to_owned));
    match recipe.permission_mode {
        PermissionMode::Bypass => push(&["--dangerously-skip-permissions"]),
        PermissionMode::Auto => recipe.allowed_tools.iter().for_each(|tool| push(&["--allowedTools", tool])),
    }
    recipe.disallowed_tools.iter().for_each(|tool| push(&["--disallowedTools", tool]));
    if !recipe.resources.mcp_servers.is_empty() {
        push(&["--mcp-config", &mcp_config(&recipe.resources.mcp_servers), "--strict-mcp-config"]);
    }
    push(&["--settings", SETTINGS_PATH]);
    if let Some(turns) = recipe.max_turns {
        push(&["--max-turns", &turns.to_string()]);
    }
    let conversation = &recipe.resources.conversation;
    if !conversation.id.is_empty() {
        push(&["--resume", &conversation.id]);
    }
    // A pinned id cannot name the session that is resumed, only a copy of it.
    if !conversation.id.is_empty() && !conversation.pin.is_empty() {
        push(&["--fork-session"]);
    }
    if !conversation.pin.is_empty() {
        push(&["--session-id", &conversation.pin]);
    }
    push(&["--", invocation.prompt]);
    argv
}

/// The value of `--mcp-config`. Secrets are named, never written: the CLI expands `${NAME}` itself.
fn mcp_config(servers: &[McpServer]) -> String {
    let servers: Map<String, Value> = servers.iter().map(|server| (server.name.clone(), mcp_server(server))).collect();
    json!({ "mcpServers": servers }).to_string()
}

fn mcp_server(server: &McpServer) -> Value {
    let kind = server.transport.as_str();
    match server.transport {
        McpTransport::Stdio if server.args.is_empty() => json!({ "type": kind, "command": server.command }),
        McpTransport::Stdio => json!({ "type": kind, "command": server.command, "args": server.args }),
        McpTransport::Http | McpTransport::Sse if server.headers_secret.is_empty() => {
            json!({ "type": kind, "url": server.url })
        }
        McpTransport::Http | McpTransport::Sse => {
            json!({ "type": kind, "url": server.url, "headers": mcp_headers(server) })
        }
    }
}

/// What tells the end. The keys of a line come in any order, so it is parsed: a prefix says nothing.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    subtype: Option<Cow<'a, str>>,
    #[serde(default)]
    is_error: Option<bool>,
}

/// A `result` ends the turn. The CLI may go on after one, with a new `init` and more messages, when a background task
/// ends.
pub(crate) fn sign(line: &str) -> Sign {
    let Some(line) = line::parse::<Line<'_>>(line) else { return Sign::Other };
    match (line.kind.as_ref(), line.subtype.as_deref()) {
        ("result", _) => Sign::Result { ok: line.is_error != Some(true) },
        ("system", Some("init")) | ("assistant", _) => Sign::Work,
        _ => Sign::Other,
    }
}

pub(crate) fn classify(line: &str) -> Option<Class> {
    let line: Value = line::parse(line)?;
    match line["type"].as_str()? {
        "result" => Some(Class::new("result", "", line["result"].as_str().unwrap_or_default())),
        "assistant" | "user" => Some(message(&line["message"]["content"])),
        "system" if line["subtype"].as_str()?.contains("token") => Some(Class::new("usage", "", "")),
        _ => None,
    }
}

/// The class of a message: that of its first tool block, else a message with the joined text.
fn message(content: &Value) -> Class {
    let block = content.as_array().into_iter().flatten().find_map(|block| match block["type"].as_str()? {
        "tool_use" => Some(Class::new("tool_call", block["name"].as_str().unwrap_or_default(), "")),
        "tool_result" => Some(Class::new("tool_result", "", &text(&block["content"]))),
        _ => None,
    });
    block.unwrap_or_else(|| Class::new("message", "", &text(content)))
}

/// A content's text: the string it is, or its text blocks, a line each.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// What a `result` says of the turn that it ends. `total_cost_usd` and `modelUsage` count earlier runs of a resumed
/// session too. `input_tokens` leaves out what came from a cache or went into it.
pub(crate) fn spent(line: &str) -> Option<Part> {
    let line = line::of_kind(line, "result")?;
    let told = |key: &str| line["usage"][key].as_u64();
    let input = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let mut part = Part::default();
    part.usage.input_tokens = total(input.map(told));
    part.usage.output_tokens = told("output_tokens");
    part.usage.cached_input_tokens = told("cache_read_input_tokens");
    part.usage.turns = line["num_turns"].as_u64();
    part.usage.duration_ms = line["duration_ms"].as_u64();
    part.index = line["result_index"].as_u64();
    if let Some(models) = line["model_usage_since_last_result"].as_object() {
        part.usage.cost_usd = cost(models.values().map(|model| &model["costUSD"]));
        part.written =
            models.iter().filter_map(|(name, model)| Some((name.clone(), model["outputTokens"].as_u64()?))).collect();
    }
    // After an interrupt `usage` is all zeros, whatever the models have read and written until then.
    if part.usage.output_tokens == Some(0) && part.written.values().any(|tokens| *tokens > 0) {
        part.usage.input_tokens = None;
        part.usage.output_tokens = None;
        part.usage.cached_input_tokens = None;
    }
    Some(part)
}
