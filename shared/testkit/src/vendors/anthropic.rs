//! Anthropic's messages: <https://docs.claude.com/en/api/messages>.

use serde_json::{Value, json};

use super::{
    CACHED_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS, READ_FILE,
    answer::{Act, Event, Events, Reply, id, texts},
    script::Asked,
};

pub(super) fn asked(body: &Value) -> Asked {
    let of_user = || body["messages"].as_array().into_iter().flatten().filter(|message| message["role"] == "user");
    let is_result = |block: &Value| block["type"] == "tool_result";
    let last = of_user().next_back().and_then(|message| message["content"].as_array());
    let tools = body["tools"].as_array().into_iter().flatten();
    Asked {
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        texts: of_user().flat_map(|message| texts(&message["content"], &["text"])).collect(),
        answers_a_tool: last.is_some_and(|blocks| blocks.iter().any(is_result)),
        tools: tools.filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect(),
        streams: body["stream"] == true,
    }
}

/// The blocks of a message.
fn content(reply: &Reply) -> Vec<Value> {
    let text = |text: &str| json!({ "type": "text", "text": text });
    match reply {
        Reply::Text(told) | Reply::Unfinished(told) => vec![text(told)],
        Reply::Act(act) => {
            let (name, input) = call(*act);
            vec![text(Act::PREFACE), json!({ "type": "tool_use", "id": id("toolu"), "name": name, "input": input })]
        }
        Reply::Error(_) => Vec::new(),
    }
}

/// The tool as Claude Code names it, and its input.
fn call(act: Act) -> (&'static str, Value) {
    match act {
        Act::Run(command) => ("Bash", json!({ "command": command, "description": "Run a command" })),
        Act::Leave(command) => {
            ("Bash", json!({ "command": command, "description": "Run a command", "run_in_background": true }))
        }
        Act::Read => ("Read", json!({ "file_path": READ_FILE })),
        Act::Ping => ("mcp__tools__ping", json!({})),
    }
}

fn stop_reason(reply: &Reply) -> &'static str {
    if matches!(reply, Reply::Act(_)) { "tool_use" } else { "end_turn" }
}

fn usage(written: u64) -> Value {
    json!({
        "input_tokens": INPUT_TOKENS,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": CACHED_TOKENS,
        "output_tokens": written,
        "service_tier": "standard",
    })
}

fn message(asked: &Asked, content: &[Value], stop_reason: Option<&str>, written: u64) -> Value {
    json!({
        "id": id("msg"),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": usage(written),
    })
}

pub(super) fn whole(asked: &Asked, reply: &Reply) -> Value {
    message(asked, &content(reply), Some(stop_reason(reply)), OUTPUT_TOKENS)
}

pub(super) fn events(asked: &Asked, reply: &Reply) -> Events {
    let mut events = vec![json!({ "type": "message_start", "message": message(asked, &[], None, 1) })];
    for (index, block) in content(reply).into_iter().enumerate() {
        events.extend(pieces(index, block));
    }
    if matches!(reply, Reply::Unfinished(_)) {
        // Without the end of its block.
        events.pop();
        let ping = Some(Event::typed(&json!({ "type": "ping" })));
        return Events { events: events.iter().map(Event::typed).collect(), ping };
    }
    let delta = json!({ "stop_reason": stop_reason(reply), "stop_sequence": null });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": OUTPUT_TOKENS } }));
    events.push(json!({ "type": "message_stop" }));
    Events { events: events.iter().map(Event::typed).collect(), ping: None }
}

/// A block, as it is begun empty, filled and ended.
fn pieces(index: usize, mut block: Value) -> [Value; 3] {
    let delta = if block["type"] == "tool_use" {
        let input = std::mem::replace(&mut block["input"], json!({}));
        json!({ "type": "input_json_delta", "partial_json": input.to_string() })
    } else {
        let text = std::mem::replace(&mut block["text"], json!(""));
        json!({ "type": "text_delta", "text": text })
    };
    [
        json!({ "type": "content_block_start", "index": index, "content_block": block }),
        json!({ "type": "content_block_delta", "index": index, "delta": delta }),
        json!({ "type": "content_block_stop", "index": index }),
    ]
}

pub(super) fn error(status: u16) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    let error = json!({ "type": kind, "message": format!("refused with {status}") });
    json!({ "type": "error", "error": error, "request_id": "req_fake" })
}
