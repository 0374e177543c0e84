//! The server as its clients see it, without a socket but where that is the point.

use std::time::Duration;

use axum::body::to_bytes;
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{Api, CACHED_TOKENS, FakeVendors, INPUT_TOKENS, OUTPUT_TOKENS, TOOL_OUTPUT};

const LIMIT: Duration = Duration::from_secs(10);
const KEY: &str = "k3y";

/// A request for the next message, in the API's own words.
fn body(api: Api, prompt: &str, streams: bool) -> Value {
    match api {
        Api::Anthropic => json!({
            "model": "m", "stream": streams, "tools": [{ "name": "Bash" }],
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": prompt }] }],
        }),
        Api::Responses => json!({
            "model": "m", "stream": streams, "tools": [{ "type": "function", "name": "exec_command" }],
            "input": [{ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": prompt }] }],
        }),
        Api::Chat => json!({
            "model": "m", "stream": streams, "tools": [{ "type": "function", "function": { "name": "bash" } }],
            "messages": [{ "role": "system", "content": "fake:500" }, { "role": "user", "content": prompt }],
        }),
        Api::Gemini => json!({
            "tools": [{ "functionDeclarations": [{ "name": "run_shell_command" }] }],
            "contents": [{ "role": "user", "parts": [{ "text": prompt }] }],
        }),
        Api::Mcp => json!({ "jsonrpc": "2.0", "id": 1, "method": prompt }),
    }
}

fn path(api: Api, streams: bool) -> &'static str {
    match (api, streams) {
        (Api::Anthropic, _) => "/anthropic/v1/messages?beta=true",
        (Api::Responses, _) => "/openai/v1/responses",
        (Api::Chat, _) => "/compatible/v1/chat/completions",
        (Api::Gemini, false) => "/gemini/v1beta/models/m:generateContent",
        (Api::Gemini, true) => "/gemini/v1beta/models/m:streamGenerateContent?alt=sse",
        (Api::Mcp, _) => "/mcp",
    }
}

const MODELS: [Api; 4] = [Api::Anthropic, Api::Responses, Api::Chat, Api::Gemini];

/// Status and body of the answer to a request with a key.
async fn ask(server: &FakeVendors, api: Api, prompt: &str, streams: bool) -> (u16, String) {
    let headers = [(api.key_header(), KEY)];
    let response = server.serve("POST", path(api, streams), &headers, &body(api, prompt, streams).to_string()).await;
    let status = response.status().as_u16();
    let bytes = timeout(LIMIT, to_bytes(response.into_body(), usize::MAX)).await.unwrap().unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

async fn whole(server: &FakeVendors, api: Api, prompt: &str) -> (u16, Value) {
    let (status, text) = ask(server, api, prompt, false).await;
    (status, serde_json::from_str(&text).unwrap())
}

/// The data of the events of a stream.
fn events(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[tokio::test]
async fn each_api_answers_in_text_and_says_what_it_has_used() {
    let server = FakeVendors::start().await;
    let places = [
        (Api::Anthropic, "/content/0/text", "/usage/output_tokens"),
        (Api::Responses, "/output/0/content/0/text", "/usage/output_tokens"),
        (Api::Chat, "/choices/0/message/content", "/usage/completion_tokens"),
        (Api::Gemini, "/candidates/0/content/parts/0/text", "/usageMetadata/candidatesTokenCount"),
    ];
    for (api, text, written) in places {
        let (status, answer) = whole(&server, api, "fake:text").await;
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer.pointer(text).unwrap(), "The prompts asked for: text.", "{answer}");
        assert_eq!(answer.pointer(written).unwrap(), OUTPUT_TOKENS, "{answer}");
    }
}

#[tokio::test]
async fn a_stream_says_the_same_as_a_whole_answer() {
    let server = FakeVendors::start().await;
    let part = |event: &Value| {
        let places = ["/delta/text", "/choices/0/delta/content", "/candidates/0/content/parts/0/text"];
        let of_responses = (event["type"] == "response.output_text.delta").then(|| &event["delta"]);
        let found = of_responses.or_else(|| places.into_iter().find_map(|place| event.pointer(place)));
        found.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for api in MODELS {
        let (status, stream) = ask(&server, api, "fake:text", true).await;
        let said: String = events(&stream).iter().map(part).collect();
        assert_eq!((status, said.as_str()), (200, "The prompts asked for: text."), "{stream}");
    }
}

#[tokio::test]
async fn the_blocks_of_a_message_are_begun_empty_filled_and_ended() {
    let server = FakeVendors::start().await;
    let (_, stream) = ask(&server, Api::Anthropic, "fake:tool", true).await;
    let kinds: Vec<&str> = stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let expected = [&["message_start"], &block[..], &block[..], &["message_delta", "message_stop"]].concat();
    assert_eq!(kinds, expected);
    let events = events(&stream);
    assert_eq!(events[4]["content_block"]["input"], json!({}));
    let input: Value = serde_json::from_str(events[5]["delta"]["partial_json"].as_str().unwrap()).unwrap();
    assert_eq!(input["command"], format!("echo {TOOL_OUTPUT}"));
    assert_eq!(events[7]["delta"]["stop_reason"], "tool_use");
    assert_eq!(events[0]["message"]["usage"]["input_tokens"], INPUT_TOKENS);
    assert_eq!(events[0]["message"]["usage"]["cache_read_input_tokens"], CACHED_TOKENS);
}

#[tokio::test]
async fn the_tool_of_each_cli_is_called_by_its_own_name() {
    let server = FakeVendors::start().await;
    let places = [
        (Api::Anthropic, "/content/1/name", "Bash"),
        (Api::Responses, "/output/0/name", "exec_command"),
        (Api::Chat, "/choices/0/message/tool_calls/0/function/name", "bash"),
        (Api::Gemini, "/candidates/0/content/parts/1/functionCall/name", "run_shell_command"),
    ];
    for (api, place, name) in places {
        let (_, answer) = whole(&server, api, "fake:tool").await;
        assert_eq!(answer.pointer(place).unwrap(), name, "{answer}");
        assert!(answer.to_string().contains(TOOL_OUTPUT));
    }
}

#[tokio::test]
async fn after_the_tool_s_result_comes_a_text() {
    let server = FakeVendors::start().await;
    let results = [
        (Api::Anthropic, "messages", json!({ "role": "user", "content": [{ "type": "tool_result" }] })),
        (Api::Responses, "input", json!({ "type": "function_call_output", "output": "x" })),
        (Api::Chat, "messages", json!({ "role": "tool", "content": "x" })),
        (Api::Gemini, "contents", json!({ "role": "user", "parts": [{ "functionResponse": {} }] })),
    ];
    for (api, list, result) in results {
        let mut body = body(api, "fake:tool", false);
        body[list].as_array_mut().unwrap().push(result);
        let headers = [(api.key_header(), KEY)];
        let response = server.serve("POST", path(api, false), &headers, &body.to_string()).await;
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.contains("The prompts asked for: tool."), "{text}");
    }
}

#[tokio::test]
async fn a_status_is_an_error_in_the_api_s_own_shape() {
    let server = FakeVendors::start().await;
    let kinds = [
        (Api::Anthropic, "/error/type", "rate_limit_error"),
        (Api::Responses, "/error/code", "rate_limit_exceeded"),
        (Api::Chat, "/error/code", "rate_limit_exceeded"),
        (Api::Gemini, "/error/status", "RESOURCE_EXHAUSTED"),
    ];
    for (api, place, kind) in kinds {
        let (status, answer) = whole(&server, api, "fake:429").await;
        assert_eq!((status, answer.pointer(place)), (429, Some(&json!(kind))), "{answer}");
        assert_eq!(whole(&server, api, "fake:500").await.0, 500);
    }
}

#[tokio::test]
async fn a_slow_answer_begins_and_does_not_end() {
    let server = FakeVendors::start().await;
    for api in MODELS {
        let headers = [(api.key_header(), KEY)];
        let text = body(api, "fake:slow", true).to_string();
        let response = server.serve("POST", path(api, true), &headers, &text).await;
        let mut frames = response.into_body().into_data_stream();
        let mut seen = String::new();
        let pinged = async {
            // The ping comes after all that is said.
            while !seen.contains("ping") && !seen.contains("still there") {
                let frame = frames.next().await.expect("it goes on").unwrap();
                seen.push_str(str::from_utf8(&frame).unwrap());
            }
        };
        timeout(LIMIT, pinged).await.unwrap();
        assert!(seen.contains("It will take a while. "), "{seen}");
        assert!(!seen.contains("message_stop") && !seen.contains("completed") && !seen.contains("STOP"), "{seen}");
    }
}

#[tokio::test]
async fn the_key_that_is_expected_is_the_only_one_and_without_any_a_request_is_refused() {
    let server = FakeVendors::start().await;
    for api in MODELS {
        let text = body(api, "fake:text", false).to_string();
        let status = async |headers: &[(&str, &str)]| {
            server.serve("POST", path(api, false), headers, &text).await.status().as_u16()
        };
        let header = api.key_header();
        assert_eq!(status(&[]).await, 401);
        assert_eq!(status(&[(header, "")]).await, 401);
        assert_eq!(status(&[(header, "any")]).await, 200);
        server.take_only(api, KEY);
        assert_eq!(status(&[(header, "any")]).await, 401);
        assert_eq!(status(&[(header, KEY)]).await, 200);
    }
}

#[tokio::test]
async fn it_is_known_which_key_came_and_where_else_it_went() {
    let server = FakeVendors::start().await;
    whole(&server, Api::Anthropic, "fake:text").await;
    assert_eq!(server.requests()[0].key(), Some(KEY));
    assert_eq!(server.places_of(KEY).into_iter().collect::<Vec<_>>(), ["Anthropic header x-api-key"]);

    whole(&server, Api::Chat, "a prompt with k3y in it").await;
    server.serve("GET", "/elsewhere?key=k3y", &[("cookie", "a=k3y")], "").await;
    let expected = [
        "/elsewhere?key=k3y header cookie",
        "/elsewhere?key=k3y path",
        "Anthropic header x-api-key",
        "Chat body",
        "Chat header authorization",
    ];
    assert_eq!(server.places_of(KEY).into_iter().collect::<Vec<_>>(), expected);
    assert!(server.places_of("another").is_empty());
}

#[tokio::test]
async fn what_it_does_not_know_is_not_found_and_is_kept_all_the_same() {
    let server = FakeVendors::start().await;
    for (method, path) in [("GET", "/openai/v1/responses"), ("POST", "/"), ("POST", "/anthropicv1/messages")] {
        assert_eq!(server.serve(method, path, &[("x-api-key", KEY)], "{}").await.status(), 404, "{method} {path}");
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!((requests[0].api, requests[1].api, requests[2].api), (Some(Api::Responses), None, None));
    assert!(requests.iter().all(|request| request.status == 404 && !request.asks_for_a_message()));
}

#[tokio::test]
async fn the_tool_server_has_a_tool_and_keeps_silent_about_notifications() {
    let server = FakeVendors::start().await;
    let (_, tools) = whole(&server, Api::Mcp, "tools/list").await;
    assert_eq!(tools["result"]["tools"][0]["name"], "ping");
    let (_, done) = whole(&server, Api::Mcp, "tools/call").await;
    assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(1), &json!("pong")));
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
    assert_eq!(server.serve("POST", "/mcp", &[], &note).await.status(), 202);
    server.take_only(Api::Mcp, "t0ken");
    assert_eq!(server.serve("POST", "/mcp", &[("authorization", "Bearer ${T0KEN}")], &note).await.status(), 401);
    assert_eq!(server.serve("POST", "/mcp", &[("authorization", "Bearer t0ken")], &note).await.status(), 202);
}

#[tokio::test]
async fn it_listens_where_it_says_and_ends_when_it_is_dropped() {
    let server = FakeVendors::start().await;
    let address = server.url(Api::Mcp).trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let mut stream = TcpStream::connect(&address).await.unwrap();
    stream.write_all(b"HEAD / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(LIMIT, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert_eq!(server.requests()[0].method, "HEAD");
    drop(server);
    crate::eventually("it is gone", LIMIT, || async { TcpStream::connect(&address).await.is_err() }).await;
}

#[tokio::test]
async fn the_variables_lead_each_cli_to_its_api_and_never_hold_a_key() {
    let server = FakeVendors::start().await;
    for (api, name) in [
        (Api::Anthropic, "ANTHROPIC_BASE_URL"),
        (Api::Responses, "OPENAI_BASE_URL"),
        (Api::Gemini, "GOOGLE_GEMINI_BASE_URL"),
    ] {
        assert_eq!(server.environment(api, "KEY"), [(name.to_owned(), server.url(api))]);
    }
    let [(name, config)] = &server.environment(Api::Chat, "CHAT_KEY")[..] else { panic!("one variable") };
    let config: Value = serde_json::from_str(config).unwrap();
    assert_eq!(name, "OPENCODE_CONFIG_CONTENT");
    let options = json!({ "baseURL": server.url(Api::Chat), "apiKey": "{env:CHAT_KEY}" });
    assert_eq!(config["provider"]["fake"]["options"], options);
    assert!(server.environment(Api::Mcp, "KEY").is_empty());
}
