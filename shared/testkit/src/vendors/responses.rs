//! OpenAI's responses: <https://platform.openai.com/docs/api-reference/responses>.

use serde_json::{Value, json};

use super::{
    CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS,
    answer::{Act, Event, Events, Reply, id, texts},
    script::Asked,
};

pub(super) fn asked(body: &Value) -> Asked {
    let input = body["input"].as_array();
    let of_user = input.into_iter().flatten().filter(|item| item["role"] == "user");
    let last = input.and_then(|items| items.last()).and_then(|item| item["type"].as_str()).unwrap_or_default();
    let tools = body["tools"].as_array().into_iter().flatten();
    let name = |tool: &Value| tool["name"].as_str().or(tool["type"].as_str()).map(str::to_owned);
    Asked {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        texts: match &body["input"] {
            Value::String(prompt) => vec![prompt.clone()],
            _ => of_user.flat_map(|item| texts(&item["content"], &["text"])).collect(),
        },
        answers_a_tool: last.ends_with("_output"),
        tools: tools.filter_map(name).collect(),
        streams: body["stream"] == true,
    }
}

/// What the model puts out: one item. Codex has no tools but the shell.
fn item(asked: &Asked, reply: &Reply) -> Value {
    let command = match reply {
        Reply::Act(act) => act.command(),
        Reply::Text(_) | Reply::Unfinished(_) | Reply::Error(_) => None,
    };
    match (command, reply) {
        (Some(command), _) => call(&asked.tools, command),
        (None, Reply::Text(text) | Reply::Unfinished(text)) => text_item(text),
        (None, Reply::Act(_) | Reply::Error(_)) => text_item(Act::PREFACE),
    }
}

fn text_item(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
    json!({ "type": "message", "id": id("msg"), "role": "assistant", "status": "completed", "content": content })
}

/// The shell as Codex offers it: `exec_command` for most models, `exec` (a program that calls it) where the model runs
/// code, `shell_command` or `shell` for others.
fn call(tools: &[String], command: &str) -> Value {
    let has = |name: &str| tools.iter().any(|tool| tool == name);
    let call_id = id("call");
    if !has("exec_command") && has("exec") {
        let program =
            format!("const done = await tools.exec_command({}); text(done.output);", json!({ "cmd": command }));
        let custom = json!({ "type": "custom_tool_call", "id": id("ctc"), "call_id": call_id, "status": "completed" });
        return with(custom, &[("name", json!("exec")), ("input", json!(program))]);
    }
    let (name, arguments) = if has("exec_command") {
        ("exec_command", json!({ "cmd": command }))
    } else if has("shell_command") {
        ("shell_command", json!({ "command": command }))
    } else {
        ("shell", json!({ "command": ["bash", "-lc", command] }))
    };
    let function = json!({ "type": "function_call", "id": id("fc"), "call_id": call_id, "status": "completed" });
    with(function, &[("name", json!(name)), ("arguments", json!(arguments.to_string()))])
}

fn with(mut object: Value, fields: &[(&str, Value)]) -> Value {
    for (name, value) in fields {
        object[*name] = value.clone();
    }
    object
}

fn usage() -> Value {
    let input = INPUT_TOKENS + CACHED_TOKENS;
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": CACHED_TOKENS },
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input + OUTPUT_TOKENS,
    })
}

fn response(asked: &Asked, id: &str, status: &str, output: &[Value]) -> Value {
    json!({ "id": id, "object": "response", "created_at": 0, "status": status, "model": asked.model, "output": output })
}

pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    with(response(asked, &id("resp"), "completed", &[item(asked, reply)]), &[("usage", usage())])
}

pub(super) fn events(asked: &Asked, reply: &Reply) -> Events {
    let (id, item) = (id("resp"), item(asked, reply));
    let mut events = vec![json!({ "type": "response.created", "response": response(asked, &id, "in_progress", &[]) })];
    if let Some(text) = item["content"][0]["text"].as_str() {
        let begun = with(item.clone(), &[("content", json!([])), ("status", json!("in_progress"))]);
        events.push(json!({ "type": "response.output_item.added", "output_index": 0, "item": begun }));
        let delta = json!({ "type": "response.output_text.delta", "item_id": item["id"], "delta": text });
        events.push(with(delta, &[("output_index", json!(0)), ("content_index", json!(0))]));
    }
    let is_unfinished = matches!(reply, Reply::Unfinished(_));
    if !is_unfinished {
        events.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": item }));
        let done = with(response(asked, &id, "completed", &[item]), &[("usage", usage())]);
        events.push(json!({ "type": "response.completed", "response": done }));
    }
    let numbered = events.into_iter().enumerate();
    let events = numbered.map(|(number, event)| Event::typed(&with(event, &[("sequence_number", json!(number))])));
    Events { events: events.collect(), ping: is_unfinished.then(Event::comment) }
}

/// The same for chat completions.
pub(super) fn error(status: u16) -> Value {
    let (kind, code) = match status {
        401 => ("invalid_request_error", "invalid_api_key"),
        429 => ("rate_limit_exceeded", "rate_limit_exceeded"),
        500.. => ("server_error", "server_error"),
        _ => ("invalid_request_error", "invalid_request_error"),
    };
    json!({ "error": { "message": format!("refused with {status}"), "type": kind, "code": code, "param": null } })
}
