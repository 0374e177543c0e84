//! OpenCode, as seen in version 1.18.33.
//!
//! Permission modes, MCP servers, lists of tools, `max_turns` and pins of a recipe do not reach it: `auto` is `bypass`.

use serde_json::Value;

use crate::{
    Class, Cli, Install, Invocation,
    argv::owned,
    ending::Sign,
    line,
    usage::{Part, cost, total},
};

pub(crate) const CLI: Cli = Cli {
    command: "opencode",
    seen: "1.18.33",
    install: Install::Script { url: "https://opencode.ai/install", shell: "bash", leaves: ".opencode/bin/opencode" },
    needs: &["bash", "curl", "tar"],
};

/// The list of models comes with the CLI.
pub(crate) const ENV: &[(&str, &str)] = &[("OPENCODE_DISABLE_MODELS_FETCH", "1")];

/// What is enough to resume a session: databases, to be saved only once the process has gone.
pub(crate) const STATE: &[&str] = &[".local/share/opencode"];

pub(crate) fn argv(invocation: &Invocation<'_>) -> Vec<String> {
    let mut argv = vec!["opencode", "run", "--format", "json"];
    if let Some(model) = model(invocation.model) {
        argv.extend(["--model", model]);
    }
    let id = invocation.resumed();
    if !id.is_empty() {
        argv.extend(["--session", id]);
    }
    argv.extend(["--", invocation.prompt]);
    owned(&argv)
}

/// The model as the CLI names it (`provider/model`): without the prefix that chose the vendor. `None` for the vendor
/// alone, where the CLI has a default of its own.
fn model(model: &str) -> Option<&str> {
    const PREFIX: &str = "opencode/";
    let own = match model.get(..PREFIX.len()) {
        Some(start) if start.eq_ignore_ascii_case(PREFIX) => &model[PREFIX.len()..],
        _ => model,
    };
    (!own.is_empty() && !own.eq_ignore_ascii_case("opencode")).then_some(own)
}

/// No line says that the run is done; its exit does. After an `error` it has failed, whatever the exit code.
pub(crate) fn sign(line: &str) -> Sign {
    match line::kind(line).as_deref() {
        Some("error") => Sign::Failure,
        _ => Sign::Other,
    }
}

pub(crate) fn classify(line: &str) -> Option<Class> {
    let line: Value = line::parse(line)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let part = &line["part"];
    match line["type"].as_str()? {
        "text" => Some(Class::new("message", "", &text(&part["text"]))),
        "tool_use" => Some(Class::new("tool_call", &text(&part["tool"]), &text(&part["state"]["input"]["command"]))),
        "step_finish" => Some(Class::new("usage", "", "")),
        "result" => Some(Class::new("result", "", &text(&line["result"]))),
        _ => None,
    }
}

/// What one step says of itself: a step is a turn of the model. Cached tokens and reasoning are told apart from `input`
/// and `output`.
pub(crate) fn spent(line: &str) -> Option<Part> {
    let line = line::of_kind(line, "step_finish")?;
    let tokens = &line["part"]["tokens"];
    let (cached, written) = (tokens["cache"]["read"].as_u64(), tokens["cache"]["write"].as_u64());
    let mut part = Part::default();
    part.usage.input_tokens = total([tokens["input"].as_u64(), cached, written]);
    part.usage.output_tokens = total([tokens["output"].as_u64(), tokens["reasoning"].as_u64()]);
    part.usage.cached_input_tokens = cached;
    part.usage.cost_usd = cost([&line["part"]["cost"]]);
    part.usage.turns = Some(1);
    Some(part)
}
