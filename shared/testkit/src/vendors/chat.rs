//! OpenAI's chat completions, which OpenCode speaks to a provider that it does not know:
//! <https://platform.openai.com/docs/api-reference/chat>.

use serde_json::{Value, json};

use super::{
    CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, READ_FILE,
    answer::{Act, Event, Events, Reply, id, texts},
    script::Asked,
};

/// The settings that lead OpenCode here: a provider `fake` with the model `m1`, which is `fake/m1` to the CLI. The key is
/// named, not written: the CLI puts the variable's value in.
pub(super) fn opencode_config(url: &str, key_variable: &str) -> String {
    let options = json!({ "baseURL": url, "apiKey": format!("{{env:{key_variable}}}") });
    let limit = json!({ "context": 100_000, "output": 8_000 });
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "Fake",
        "options": options,
        "models": { "m1": { "name": "M1", "limit": limit, "cost": { "input": 1, "output": 2, "cache_read": 0.5 } } },
    });
    json!({ "provider": { "fake": provider }, "share": "disabled", "autoupdate": false }).to_string()
}

pub(super) fn asked(body: &Value) -> Asked {
    let messages = body["messages"].as_array();
    let of_user = messages.into_iter().flatten().filter(|message| message["role"] == "user");
    let tools = body["tools"].as_array().into_iter().flatten();
    Asked {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        texts: of_user.flat_map(|message| texts(&message["content"], &["text"])).collect(),
        answers_a_tool: messages.and_then(|all| all.last()).is_some_and(|message| message["role"] == "tool"),
        tools: tools.filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned)).collect(),
        streams: body["stream"] == true,
    }
}

/// The tool as OpenCode names it, and its arguments.
fn call(act: Act) -> Value {
    let (name, arguments) = match act {
        Act::Run(command) | Act::Leave(command) => {
            ("bash", json!({ "command": command, "description": "Run a command" }))
        }
        Act::Read => ("read", json!({ "filePath": READ_FILE })),
        Act::Ping => ("tools_ping", json!({})),
    };
    let function = json!({ "name": name, "arguments": arguments.to_string() });
    json!({ "index": 0, "id": id("call"), "type": "function", "function": function })
}

fn usage() -> Value {
    let input = INPUT_TOKENS + CACHED_TOKENS;
    json!({
        "prompt_tokens": input,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": input + OUTPUT_TOKENS,
        "prompt_tokens_details": { "cached_tokens": CACHED_TOKENS },
    })
}

/// What is said and what is called.
fn parts(reply: &Reply) -> (&str, Option<Value>) {
    match reply {
        Reply::Text(text) | Reply::Unfinished(text) => (text, None),
        Reply::Act(act) => (Act::PREFACE, Some(call(*act))),
        Reply::Error(_) => ("", None),
    }
}

pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    let (text, call) = parts(reply);
    let reason = if call.is_some() { "tool_calls" } else { "stop" };
    let message = json!({ "role": "assistant", "content": text, "tool_calls": call.map(|call| json!([call])) });
    json!({
        "id": id("chatcmpl"),
        "object": "chat.completion",
        "created": 0,
        "model": asked.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
        "usage": usage(),
    })
}

pub(super) fn events(asked: &Asked, reply: &Reply) -> Events {
    let id = id("chatcmpl");
    let chunk = |delta: Value, reason: Option<&str>| {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": reason }]);
        json!({ "id": id, "object": "chat.completion.chunk", "created": 0, "model": asked.model, "choices": choices })
    };
    let (text, call) = parts(reply);
    let mut chunks =
        vec![chunk(json!({ "role": "assistant", "content": "" }), None), chunk(json!({ "content": text }), None)];
    if matches!(reply, Reply::Unfinished(_)) {
        return Events { events: chunks.iter().map(Event::data).collect(), ping: Some(Event::comment()) };
    }
    let reason = if call.is_some() { "tool_calls" } else { "stop" };
    chunks.extend(call.map(|call| chunk(json!({ "tool_calls": [call] }), None)));
    let mut last = chunk(json!({}), Some(reason));
    last["usage"] = usage();
    chunks.push(last);
    let done = Event(None, Some("[DONE]".to_owned()));
    Events { events: chunks.iter().map(Event::data).chain([done]).collect(), ping: None }
}
