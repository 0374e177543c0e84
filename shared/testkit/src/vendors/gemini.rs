//! Google's content generation: <https://ai.google.dev/api/generate-content>.

use serde_json::{Value, json};

use super::{
    CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, READ_FILE,
    answer::{Act, Event, Events, Reply, id, texts},
    script::Asked,
};

/// `model` is the path before the verb.
pub(super) fn asked(body: &Value, model: &str, streams: bool) -> Asked {
    let contents = body["contents"].as_array();
    let of_user = contents.into_iter().flatten().filter(|content| content["role"] == "user");
    let parts = contents.and_then(|all| all.last()).and_then(|last| last["parts"].as_array());
    let tools = body["tools"].as_array().into_iter().flatten();
    let declared = tools.flat_map(|tool| tool["functionDeclarations"].as_array().into_iter().flatten());
    let config = &body["generationConfig"];
    let wants_an_object = ["responseSchema", "responseJsonSchema"].iter().any(|key| config.get(key).is_some());
    Asked {
        model: model.rsplit('/').next().unwrap_or_default().to_owned(),
        // What asks for an object is the CLI's own question about a conversation.
        texts: if wants_an_object {
            Vec::new()
        } else {
            of_user.flat_map(|content| texts(&content["parts"], &["text"])).collect()
        },
        answers_a_tool: parts.is_some_and(|parts| parts.iter().any(|part| part.get("functionResponse").is_some())),
        tools: declared.filter_map(|function| function["name"].as_str().map(str::to_owned)).collect(),
        streams,
    }
}

/// The tool as Gemini CLI names it, and its arguments. The name of an MCP tool has its server's in it, in a way that has
/// changed between versions.
fn call(act: Act, tools: &[String]) -> Value {
    let (name, args) = match act {
        Act::Run(command) | Act::Leave(command) => {
            ("run_shell_command", json!({ "command": command, "description": "Run a command" }))
        }
        Act::Read => ("read_file", json!({ "file_path": READ_FILE })),
        Act::Ping => (tools.iter().find(|tool| tool.ends_with("ping")).map_or("ping", String::as_str), json!({})),
    };
    json!({ "functionCall": { "name": name, "args": args } })
}

fn chunk(asked: &Asked, parts: &[Value]) -> Value {
    let candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
    json!({ "candidates": [candidate], "modelVersion": asked.model, "responseId": id("resp") })
}

/// The chunk that ends an answer.
fn last(asked: &Asked, parts: &[Value]) -> Value {
    let mut chunk = chunk(asked, parts);
    chunk["candidates"][0]["finishReason"] = json!("STOP");
    let input = INPUT_TOKENS + CACHED_TOKENS;
    chunk["usageMetadata"] = json!({
        "promptTokenCount": input,
        "candidatesTokenCount": OUTPUT_TOKENS,
        "totalTokenCount": input + OUTPUT_TOKENS,
        "cachedContentTokenCount": CACHED_TOKENS,
    });
    chunk
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    match reply {
        Reply::Text(_) if asked.texts.is_empty() => last(asked, &[text("{}")]),
        Reply::Text(told) | Reply::Unfinished(told) => last(asked, &[text(told)]),
        Reply::Act(act) => last(asked, &[text(Act::PREFACE), call(*act, &asked.tools)]),
        Reply::Error(status) => error(*status),
    }
}

pub(super) fn events(asked: &Asked, reply: &Reply) -> Events {
    let (chunks, ping) = match reply {
        Reply::Unfinished(told) => (vec![chunk(asked, &[text(told)])], Some(Event::comment())),
        Reply::Act(act) => (vec![chunk(asked, &[text(Act::PREFACE)]), last(asked, &[call(*act, &asked.tools)])], None),
        Reply::Text(_) | Reply::Error(_) => (vec![whole(asked, reply)], None),
    };
    Events { events: chunks.iter().map(Event::data).collect(), ping }
}

pub(super) fn error(status: u16) -> Value {
    let name = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    };
    json!({ "error": { "code": status, "message": format!("refused with {status}"), "status": name } })
}
