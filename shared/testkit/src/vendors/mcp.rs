//! An MCP server over HTTP that answers each message at once, without a session:
//! <https://modelcontextprotocol.io/specification/2025-06-18/basic/transports>.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::answer::json as answer_json;

/// The answer to one JSON-RPC message.
pub(super) fn answer(body: &Value) -> Response {
    let Some(id) = body.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let result = match body["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": body["params"]["protocolVersion"],
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "fake", "version": "1" },
        }),
        "tools/list" => {
            let schema = json!({ "type": "object", "properties": {} });
            json!({ "tools": [{ "name": "ping", "description": "Answers pong", "inputSchema": schema }] })
        }
        "tools/call" => json!({ "content": [{ "type": "text", "text": "pong" }] }),
        _ => json!({}),
    };
    answer_json(200, &json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}
