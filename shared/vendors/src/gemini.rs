//! Gemini CLI, as seen in version 0.61.0.
//!
//! Without `bypass` it has tools that read and no others: no shell, no tools of MCP servers. Lists of tools,
//! `max_turns` and pins do not reach it.

use serde_json::{Map, Value, json};
use signalbox_types::{McpServer, McpTransport, PermissionMode, names::WORKSPACE};

use crate::{Class, Cli, Install, Invocation, argv::owned, ending::Sign, line, mcp_headers, usage::Part};

/// The settings file, which the initializer completes with [`complete_settings`]. The user's, not the system's: the CLI
/// refuses a system scope in a folder of uid 1000.
pub const SETTINGS_PATH: &str = "/agent/.gemini/settings.json";

/// Where the policy goes that lets a `bypass` run use every tool. Before an `auto` run it is to be deleted: it alone
/// opens the shell, without any option on the command line.
pub const BYPASS_POLICY_PATH: &str = "/agent/.gemini/policies/bypass.toml";

/// The policy of a `bypass` run: every tool, but no questions, since no one would answer. Redirections are a question
/// of their own. Format: <https://geminicli.com/docs/reference/policy-engine/>.
pub const BYPASS_POLICY: &str = r#"[[rule]]
toolName = "ask_user"
decision = "deny"
priority = 999

[[rule]]
toolName = "*"
decision = "allow"
priority = 998
allowRedirection = true
"#;

/// Where the CLI reads the experiments that it would ask its vendor for.
pub const EXPERIMENTS_PATH: &str = "/agent/.gemini/experiments.json";

/// No experiments, so that a run does what the one before it did.
pub const EXPERIMENTS: &str = r#"{"flags":[],"experimentIds":[]}"#;

/// The model of a recipe that names the vendor alone. It has to be one that is served.
const DEFAULT_MODEL: &str = "gemini-3.1-flash-lite";

pub(crate) const CLI: Cli = Cli {
    command: "gemini",
    seen: "0.61.0",
    install: Install::NpmPackage {
        package: "@google/gemini-cli",
        folder: ".local/share/gemini-cli",
        entry: "bundle/gemini.js",
    },
    needs: &["node"],
};

/// Without a relaunch there is one process: the parent of two ignores SIGTERM and SIGINT.
pub(crate) const ENV: &[(&str, &str)] = &[("GEMINI_EXP", EXPERIMENTS_PATH), ("GEMINI_CLI_NO_RELAUNCH", "true")];

/// What is enough to resume a session. The whole of `.gemini` would carry a policy into a later run.
pub(crate) const STATE: &[&str] = &[".gemini/tmp", ".gemini/projects.json"];

pub(crate) fn argv(invocation: &Invocation<'_>) -> Vec<String> {
    // In one argument: as a second one, a prompt with a dash would be an option.
    let prompt = format!("--prompt={}", invocation.prompt);
    let named_alone = invocation.model.eq_ignore_ascii_case("gemini");
    let model = if named_alone { DEFAULT_MODEL } else { invocation.model };
    let mut argv = vec!["gemini", &prompt, "--output-format", "stream-json", "--model", model];
    argv.extend(["--skip-trust", "--include-directories", WORKSPACE]);
    if invocation.definition.permission_mode == PermissionMode::Bypass {
        argv.push("--yolo");
    }
    let id = invocation.resumed();
    if !id.is_empty() {
        argv.extend(["--resume", id]);
    }
    owned(&argv)
}

/// The one `result` ends the run.
pub(crate) fn sign(line: &str) -> Sign {
    match line::of_kind(line, "result") {
        Some(line) => Sign::Result { ok: line["status"] == "success" },
        None => Sign::Other,
    }
}

pub(crate) fn classify(line: &str) -> Option<Class> {
    let line: Value = line::parse(line)?;
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    match line["type"].as_str()? {
        // The prompt itself.
        "message" if line["role"] == "user" => None,
        "message" => Some(Class::new("message", "", text("content"))),
        "tool_use" => Some(Class::new("tool_call", text("tool_name"), "")),
        "tool_result" => Some(Class::new("tool_result", "", text("output"))),
        "result" => Some(Class::new("result", "", "")),
        _ => None,
    }
}

/// What the `result` says of this process. Its `input_tokens` have the cached ones in them, its `output_tokens` leave
/// thoughts out. The model that answered may not be the one that was asked for.
pub(crate) fn spent(line: &str) -> Option<Part> {
    let line = line::of_kind(line, "result")?;
    let stats = &line["stats"];
    let mut part = Part::default();
    part.usage.input_tokens = stats["input_tokens"].as_u64();
    part.usage.output_tokens = stats["output_tokens"].as_u64();
    part.usage.cached_input_tokens = stats["cached"].as_u64();
    part.usage.duration_ms = stats["duration_ms"].as_u64();
    let models = stats["models"].as_object().into_iter().flatten();
    part.written = models.filter_map(|(name, model)| Some((name.clone(), model["output_tokens"].as_u64()?))).collect();
    Some(part)
}

/// The settings `existing` (anything but an object counts as empty) with what a run in a pod needs: the recipe's MCP
/// servers beside those that are there (of two with one name the recipe's), no usage statistics, and the key as the way
/// to sign in where the recipe sets `GOOGLE_GEMINI_BASE_URL`, without which the CLI ends with code 41. Apart from the
/// servers, what is there wins.
pub fn complete_settings(existing: Value, mcp_servers: &[McpServer], google_base_url: Option<&str>) -> Value {
    let Value::Object(mut settings) = existing else {
        return complete_settings(json!({}), mcp_servers, google_base_url);
    };
    if !mcp_servers.is_empty()
        && let Some(servers) = object(&mut settings, "mcpServers")
    {
        servers.extend(mcp_servers.iter().map(|server| (server.name.clone(), mcp_server(server))));
    }
    if let Some(privacy) = object(&mut settings, "privacy") {
        privacy.entry("usageStatisticsEnabled").or_insert(json!(false));
    }
    if google_base_url.is_some_and(|url| !url.is_empty())
        && let Some(auth) = object(&mut settings, "security").and_then(|security| object(security, "auth"))
    {
        auth.entry("selectedType").or_insert(json!("gemini-api-key"));
    }
    Value::Object(settings)
}

/// The object of that name, made where there is none; `None` where something else is in its place.
fn object<'a>(settings: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    settings.entry(name).or_insert(json!({})).as_object_mut()
}

fn mcp_server(server: &McpServer) -> Value {
    let key = match server.transport {
        McpTransport::Stdio if server.args.is_empty() => return json!({ "command": server.command }),
        McpTransport::Stdio => return json!({ "command": server.command, "args": server.args }),
        McpTransport::Http => "httpUrl",
        McpTransport::Sse => "url",
    };
    if server.headers_secret.is_empty() {
        json!({ key: server.url })
    } else {
        json!({ key: server.url, "headers": mcp_headers(server) })
    }
}
