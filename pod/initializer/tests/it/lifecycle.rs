use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rstest::rstest;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use wiremock::{Mock, MockServer, ResponseTemplate, matchers::method};

use crate::{init::Init, server::GitServer, web::Web};

#[test]
fn a_recipe_that_asks_for_nothing_gets_the_supervisor_and_the_start_of_the_run() {
    let mut init = Init::new();
    let ended = init.run();
    let event = |status: &str| json!({"kind": "lifecycle", "phase": "init", "status": status});
    let running = |tool: &str| json!({"kind": "lifecycle", "phase": "init", "status": "running", "tool": tool});
    let expected = [event("started"), running("supervisor"), running("skills"), event("succeeded")];
    assert_eq!(ended.events, expected, "{}", ended.log);
    assert_eq!(fs::read_to_string(init.home().join("bin/ai-agent-supervisor")).unwrap(), "supervisor");
    let stamp: u64 = fs::read_to_string(init.home().join(".started-boottime-ms")).unwrap().parse().unwrap();
    let now = signalbox_output::deadline::boottime_ms();
    assert!(stamp <= now && now - stamp < 60_000, "{stamp} {now}");
    // A command of the recipe's own is not Claude Code.
    assert!(!init.home().join(".claude").exists());
}

#[test]
fn claude_finds_a_settings_file() {
    let mut init = Init::new().env("AGENT_MODEL", "claude-opus-5-5");
    init.run().assert_succeeded();
    assert_eq!(fs::read_to_string(init.home().join(".claude/settings.json")).unwrap(), "{}\n");
}

#[test]
fn a_restarted_initializer_does_not_extend_the_deadline() {
    let mut init = Init::new();
    fs::write(init.home().join(".started-boottime-ms"), "1").unwrap();
    init.run().assert_succeeded();
    assert_eq!(fs::read_to_string(init.home().join(".started-boottime-ms")).unwrap(), "1");
    let mut again = init.env("AGENT_DEADLINE_MS", "1000");
    again.run().assert_failed(124, &json!({"reason": "deadline"}));
}

#[test]
fn case_85_a_home_that_is_not_set_or_not_there_fails_by_name() {
    Init::new().without("HOME").run().assert_failed(2, &json!({"reason": "home"}));
    Init::new().env("HOME", "").run().assert_failed(2, &json!({"reason": "home"}));
    Init::new().env("HOME", "/proc/self").run().assert_failed(2, &json!({"reason": "home"}));
}

#[rstest]
#[case::files("AGENT_FILES", "files")]
#[case::repos("AGENT_REPOS", "git")]
fn a_list_that_is_none_fails_the_run_and_is_named(#[case] name: &str, #[case] tool: &str) {
    let reason = format!("{name} is no JSON list");
    Init::new().env(name, "{").run().assert_failed(2, &json!({"tool": tool, "reason": reason}));
}

#[test]
fn a_clone_that_hangs_ends_at_the_deadline_with_124() {
    let server = GitServer::start();
    let start = Instant::now();
    let ended = Init::new()
        .env("AGENT_DEADLINE_MS", "500")
        .repos(&json!([{"name": "app", "url": format!("{}/hang/app.git", server.url)}]))
        .run();
    ended.assert_failed(124, &json!({"reason": "deadline"}));
    assert!((500..20_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}

#[rstest]
#[case(Signal::TERM, 143)]
#[case(Signal::INT, 130)]
fn a_signal_ends_it_at_once(#[case] signal: Signal, #[case] code: i32) {
    let server = GitServer::start();
    let mut init = Init::new().repos(&json!([{"name": "app", "url": format!("{}/hang/app.git", server.url)}]));
    let start = Instant::now();
    let ended = init.run_until(|event: &Value, pid| {
        if event["tool"] == "git" && event["status"] == "running" {
            kill_process(pid, signal).unwrap();
        }
    });
    ended.assert_failed(code, &json!({"reason": "signal"}));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn fix_101_the_headers_of_a_sink_are_in_no_argv() {
    let (server, sink) = (GitServer::start(), Web::start());
    sink.answer_all(ResponseTemplate::new(200));
    let mut init = Init::new()
        .env("AGENT_SINKS", &json!([{"type": "http", "url": sink.at("/"), "headers_secret": "SINK"}]).to_string())
        .env("SINK", "X-Key: s3cret")
        .repos(&json!([{"name": "app", "url": format!("{}/hang/app.git", server.url)}]));
    let ended = init.run_until(|event: &Value, pid| {
        if event["tool"] == "git" && event["status"] == "running" {
            let process = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
            let argv = fs::read_to_string(process.join("cmdline")).unwrap();
            assert!(argv.contains("ai-agent-init") && !argv.contains("s3cret"), "{argv}");
            // There is nobody else whose argv could have it.
            for thread in fs::read_dir(process.join("task")).unwrap() {
                assert_eq!(fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default(), "");
            }
            kill_process(pid, Signal::TERM).unwrap();
        }
    });
    ended.assert_failed(143, &json!({"reason": "signal"}));
    assert!(!sink.seen("x-key").is_empty() && sink.seen("x-key").iter().all(|value| value == "s3cret"));
}

#[test]
fn the_sinks_get_every_event_in_its_envelope() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let sink = runtime.block_on(async {
        let sink = MockServer::start().await;
        Mock::given(method("POST")).respond_with(ResponseTemplate::new(200)).mount(&sink).await;
        sink
    });
    let ended = Init::new()
        .env("AGENT_SINKS", &json!([{"type": "http", "url": sink.uri()}]).to_string())
        .env("AGENT_NAME", "a")
        .run();
    ended.assert_succeeded();
    let requests = runtime.block_on(sink.received_requests()).unwrap();
    let bodies: Vec<Value> = requests.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect();
    let wrapped: Vec<_> = ended.events.iter().map(|event| json!({"source": {"agent": "a"}, "event": event})).collect();
    assert_eq!(bodies, wrapped);
}

#[test]
fn a_dead_sink_does_not_fail_the_run() {
    let ended = Init::new().env("AGENT_NOTIFY_URL", "http://127.0.0.1:1/").env("AGENT_SINK_RETRY_BASE_MS", "1").run();
    ended.assert_succeeded();
    assert!(ended.log.contains("http sink failed after retries: http://127.0.0.1:1/"), "{}", ended.log);
}
