use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use rstest::rstest;
use serde_json::{Value, json};
use signalbox_output::{Class, Output};
use signalbox_types::event::{Lifecycle, LifecycleStatus, Stage};
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{header, method, path},
};

use crate::log::Log;

const BOUND: Duration = Duration::from_secs(20);

fn output(variables: &[(&str, &str)]) -> Output {
    let variables: HashMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Output::from_env(|name| variables.get(name).cloned())
}

fn http(url: &str) -> String {
    json!([{"type": "http", "url": url}]).to_string()
}

async fn server(answers: impl IntoIterator<Item = (ResponseTemplate, u64)>) -> MockServer {
    let server = MockServer::start().await;
    for (answer, times) in answers {
        Mock::given(method("POST")).respond_with(answer).up_to_n_times(times).mount(&server).await;
    }
    server
}

async fn bodies(server: &MockServer) -> Vec<Value> {
    let requests = server.received_requests().await.unwrap();
    requests.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

#[tokio::test]
async fn every_line_goes_to_every_sink_once_in_order_and_in_an_envelope() {
    let (one, two) =
        (server([(ResponseTemplate::new(200), 99)]).await, server([(ResponseTemplate::new(202), 99)]).await);
    let sinks = json!([{"type": "http", "url": one.uri()}, {"type": "stdout"}, {"type": "http", "url": two.uri()}]);
    let output = output(&[
        ("AGENT_SINKS", &sinks.to_string()),
        ("AGENT_NAME", "a"),
        ("STATION_NAME", "s"),
        ("TASK_ID", ""),
        ("POD_NAME", "p"),
        ("POD_NAMESPACE", "n"),
    ]);
    output.event(&Lifecycle::new(Stage::Agent, LifecycleStatus::Started)).await;
    for n in 0..20 {
        output.line(format!("{{\"n\":{n}}}").as_bytes(), None).await;
    }
    output.line(b"plain", None).await;
    output.finish(BOUND).await;

    let source = json!({"agent": "a", "station": "s", "pod": "p", "namespace": "n"});
    let mut expected = vec![json!({"source": source,
        "event": {"kind": "lifecycle", "phase": "agent", "status": "started"}})];
    expected.extend((0..20).map(|n| json!({"source": source, "event": {"n": n}})));
    expected.push(json!({"source": source, "event": "plain"}));
    assert_eq!(bodies(&one).await, expected);
    assert_eq!(bodies(&two).await, expected);
    let first = &one.received_requests().await.unwrap()[0];
    assert_eq!(first.headers.get("content-type").unwrap(), "application/json");
}

#[tokio::test]
async fn a_sink_that_recovers_gets_the_events_in_order() {
    let server = server([(ResponseTemplate::new(503), 2), (ResponseTemplate::new(200), 99)]).await;
    let output = output(&[("AGENT_SINKS", &http(&server.uri())), ("AGENT_SINK_RETRY_BASE_MS", "1")]);
    for line in ["1", "2", "3"] {
        output.line(line.as_bytes(), None).await;
    }
    output.finish(BOUND).await;
    let events: Vec<_> = bodies(&server).await.into_iter().map(|body| body["event"].clone()).collect();
    assert_eq!(events, [1, 1, 1, 2, 3]);
}

#[tokio::test]
async fn case_75_a_sink_that_answers_500_three_times_loses_the_event_and_nothing_else() {
    let (log, _guard) = Log::catch();
    let server = server([(ResponseTemplate::new(500), 3), (ResponseTemplate::new(200), 99)]).await;
    let sink = format!("{}/in?token=s3cret", server.uri());
    let output = output(&[("AGENT_SINKS", &http(&sink)), ("AGENT_SINK_RETRY_BASE_MS", "1")]);
    output.line(b"1", None).await;
    output.line(b"2", None).await;
    output.finish(BOUND).await;

    let events: Vec<_> = bodies(&server).await.into_iter().map(|body| body["event"].clone()).collect();
    assert_eq!(events, [1, 1, 1, 2]);
    let expected = format!("http sink failed after retries: {}/in", server.uri());
    assert!(log.text().contains(&expected) && !log.text().contains("s3cret"), "{}", log.text());
}

#[tokio::test]
async fn a_sink_that_cannot_be_reached_is_logged_without_its_query() {
    let (log, _guard) = Log::catch();
    let sink = "http://user:s3cret@127.0.0.1:1/in?token=s3cret";
    let output = output(&[("AGENT_SINKS", &http(sink)), ("AGENT_SINK_RETRY_BASE_MS", "0")]);
    output.line(b"1", None).await;
    output.finish(BOUND).await;
    let text = log.text();
    assert!(
        text.contains("http sink failed after retries: http://127.0.0.1:1/in") && !text.contains("s3cret"),
        "{text}"
    );
}

#[tokio::test]
async fn case_74_a_line_with_source_and_event_is_logged_and_not_sent() {
    let (log, _guard) = Log::catch();
    let server = server([(ResponseTemplate::new(200), 99)]).await;
    let output = output(&[("AGENT_SINKS", &http(&server.uri()))]);
    output.line(br#"{"source":{},"event":{}}"#, None).await;
    output.finish(BOUND).await;
    assert!(bodies(&server).await.is_empty());
    assert!(log.text().contains("this is a bug"), "{}", log.text());
}

#[tokio::test]
async fn the_headers_come_from_the_variable_that_the_sink_names_and_are_never_logged() {
    let (log, _guard) = Log::catch();
    let server = MockServer::start().await;
    Mock::given(header("authorization", "Bearer s3cret"))
        .and(header("x-tenant", "t"))
        .respond_with(ResponseTemplate::new(200))
        .expect(1)
        .mount(&server)
        .await;
    let sinks = json!([{"type": "http", "url": server.uri(), "headers_secret": "sink-auth"}]).to_string();
    let output = output(&[
        ("AGENT_SINKS", &sinks),
        ("sink-auth", "Authorization: Bearer s3cret\ns3cret without colon\nX-Tenant: t\n"),
    ]);
    output.line(b"1", None).await;
    output.finish(BOUND).await;
    assert!(
        log.text().contains("sink-auth: lines [2] are no headers") && !log.text().contains("s3cret"),
        "{}",
        log.text()
    );
}

#[tokio::test]
async fn the_notify_url_is_one_more_http_sink() {
    let server = server([(ResponseTemplate::new(200), 99)]).await;
    let output = output(&[("AGENT_NOTIFY_URL", &server.uri())]);
    output.line(b"1", None).await;
    output.finish(BOUND).await;
    assert_eq!(bodies(&server).await.len(), 1);
}

#[tokio::test]
async fn lines_are_selected_and_events_of_our_own_are_not() {
    let server = server([(ResponseTemplate::new(200), 99)]).await;
    let output = output(&[
        ("AGENT_SINKS", &http(&server.uri())),
        ("AGENT_SELECT", r#"[{"event":"tool_call","tool":"Bash"},{"event":7}]"#),
    ]);
    assert!(output.needs_class());
    let class = |tool| Some(Class { event: "tool_call", tool, text: "" });
    output.line(b"1", class("Bash")).await;
    output.line(b"2", class("Read")).await;
    output.line(b"3", None).await;
    output.event(&Lifecycle::new(Stage::Agent, LifecycleStatus::Succeeded).with_exit_code(0)).await;
    output.finish(BOUND).await;
    let events: Vec<_> = bodies(&server).await.into_iter().map(|body| body["event"].clone()).collect();
    let end = json!({"kind": "lifecycle", "phase": "agent", "status": "succeeded", "exitCode": 0});
    assert_eq!(events, [json!(1), end]);
}

#[rstest]
#[case::not_json("AGENT_SINKS", "{", "AGENT_SINKS is no JSON list")]
#[case::file_without_path("AGENT_SINKS", r#"[{"type":"file"}]"#, "a file sink has no path")]
#[case::file_in_no_folder("AGENT_SINKS", r#"[{"type":"file","path":"/no/such/x"}]"#, "file sink failed: /no/such/x")]
#[case::file_that_is_none("AGENT_SINKS", r#"[{"type":"file","path":"/dev/null"}]"#, "not a regular file")]
#[case::no_address("AGENT_SINKS", r#"[{"type":"http","url":"s3cret"}]"#, "neither http nor https")]
#[case::other_scheme("AGENT_NOTIFY_URL", "ftp://s3cret/", "neither http nor https")]
#[case::no_headers(
    "AGENT_SINKS",
    r#"[{"type":"http","url":"http://127.0.0.1:1/?s3cret","headers_secret":"absent"}]"#,
    "http sink http://127.0.0.1:1/: the variable absent with its headers is not set"
)]
#[case::misspelt("AGENT_SELECT", r#"[{"event":"tool-call"}]"#, "no event is called \"tool-call\"")]
#[tokio::test]
async fn what_cannot_be_used_costs_one_log_line(#[case] name: &str, #[case] value: &str, #[case] expected: &str) {
    let (log, _guard) = Log::catch();
    let output = output(&[(name, value)]);
    output.line(b"1", None).await;
    output.line(b"2", None).await;
    output.finish(BOUND).await;
    let text = log.text();
    assert!(text.matches(expected).count() == 1 && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_file_sink_is_appended_to_and_follows_a_file_that_is_moved_away() {
    let folder = tempfile::tempdir().unwrap();
    let (file, moved) = (folder.path().join("events"), folder.path().join("moved"));
    std::fs::write(&file, "before\n").unwrap();
    let sinks = json!([{"type": "file", "path": "events"}]).to_string();
    let variables = [("AGENT_SINKS", sinks.as_str()), ("WORKSPACE_DIR", folder.path().to_str().unwrap())];
    for line in ["1", "plain"] {
        let output = output(&variables);
        output.line(line.as_bytes(), None).await;
        output.finish(BOUND).await;
    }
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "before\n{\"source\":{},\"event\":1}\n{\"source\":{},\"event\":\"plain\"}\n"
    );
    let output = output(&variables);
    std::fs::rename(&file, moved).unwrap();
    output.line(b"2", None).await;
    output.finish(BOUND).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"source\":{},\"event\":2}\n");
}

#[tokio::test]
async fn a_file_sink_goes_through_no_link_and_waits_for_no_pipe() {
    let (log, _guard) = Log::catch();
    let folder = tempfile::tempdir().unwrap();
    let (target, link, pipe) = (folder.path().join("target"), folder.path().join("link"), folder.path().join("pipe"));
    std::fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, mode, 0).unwrap();
    let sinks = json!([{"type": "file", "path": link}, {"type": "file", "path": pipe}]).to_string();
    let output = output(&[("AGENT_SINKS", &sinks)]);
    output.line(b"1", None).await;
    output.finish(BOUND).await;
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "");
    assert_eq!(log.text().matches("file sink failed: ").count(), 2, "{}", log.text());
}

#[rstest]
#[case::of_the_run("", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
#[case::the_recipe_s_own_wins("traceparent: mine", "mine")]
#[tokio::test]
async fn the_trace_of_the_run_goes_with_each_event(#[case] block: &str, #[case] expected: &str) {
    let server = server([(ResponseTemplate::new(200), 99)]).await;
    let sinks = json!([{"type": "http", "url": server.uri(), "headers_secret": "sink-auth"}]).to_string();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let output = output(&[("AGENT_SINKS", &sinks), ("sink-auth", block), ("TRACEPARENT", trace)]);
    output.line(b"1", None).await;
    output.finish(BOUND).await;
    let requests = server.received_requests().await.unwrap();
    let sent: Vec<_> = requests[0].headers.get_all("traceparent").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!((requests.len(), sent), (1, vec![expected]));
}

#[rstest]
#[case::a_get_would_lose_the_event(302, false)]
#[case::the_post_is_kept(307, true)]
#[tokio::test]
async fn a_redirect_is_followed_where_it_keeps_the_event(#[case] status: u16, #[case] delivered: bool) {
    let server = MockServer::start().await;
    let moved = ResponseTemplate::new(status).insert_header("location", "/new");
    Mock::given(path("/old")).respond_with(moved).mount(&server).await;
    Mock::given(path("/new")).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    let output =
        output(&[("AGENT_SINKS", &http(&format!("{}/old", server.uri()))), ("AGENT_SINK_RETRY_ATTEMPTS", "1")]);
    output.line(b"1", None).await;
    output.finish(BOUND).await;
    let at_new: Vec<_> =
        server.received_requests().await.unwrap().into_iter().filter(|request| request.url.path() == "/new").collect();
    assert_eq!(at_new.len(), usize::from(delivered));
    assert!(at_new.iter().all(|request| request.method == "POST" && !request.body.is_empty()));
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let other = server([(ResponseTemplate::new(200), 99)]).await;
    let server = MockServer::start().await;
    let location = format!("http://localhost:{}/", other.address().port());
    let moved = ResponseTemplate::new(307).insert_header("location", location.as_str());
    Mock::given(method("POST")).respond_with(moved).mount(&server).await;
    let output = output(&[("AGENT_SINKS", &http(&server.uri())), ("AGENT_SINK_RETRY_BASE_MS", "0")]);
    output.line(b"1", None).await;
    output.finish(BOUND).await;
    assert_eq!(server.received_requests().await.unwrap().len(), 3);
    assert!(other.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_end_of_a_run_waits_for_a_dead_sink_no_longer_than_its_bound() {
    let (log, _guard) = Log::catch();
    let server = server([(ResponseTemplate::new(200).set_delay(Duration::from_secs(9)), 99)]).await;
    let output = output(&[("AGENT_SINKS", &http(&server.uri()))]);
    for _ in 0..3 {
        output.line(b"1", None).await;
    }
    let start = Instant::now();
    output.finish(Duration::from_millis(300)).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert!(log.text().contains("did not take the last 3 events in time"), "{}", log.text());
}

#[tokio::test]
async fn a_slow_sink_does_not_hold_a_fast_one_up() {
    let slow = server([(ResponseTemplate::new(200).set_delay(Duration::from_secs(9)), 99)]).await;
    let fast = server([(ResponseTemplate::new(200), 99)]).await;
    let sinks = json!([{"type": "http", "url": slow.uri()}, {"type": "http", "url": fast.uri()}]).to_string();
    let output = output(&[("AGENT_SINKS", &sinks)]);
    for _ in 0..50 {
        output.line(b"1", None).await;
    }
    output.finish(Duration::from_secs(2)).await;
    assert_eq!(fast.received_requests().await.unwrap().len(), 50);
}

#[tokio::test]
async fn a_full_queue_makes_the_newest_wait_once_then_drops_with_a_count() {
    let (log, _guard) = Log::catch();
    let server = server([(ResponseTemplate::new(200).set_delay(Duration::from_secs(60)), 99)]).await;
    let output = output(&[("AGENT_SINKS", &http(&server.uri()))]);
    // Two of these leave no room for a third, nor for any of the smaller ones that follow.
    for _ in 0..2 {
        output.line(&vec![b'x'; 31 * 1024 * 1024 / 2], None).await;
    }
    let start = Instant::now();
    for _ in 0..20 {
        output.line(&vec![b'x'; 2 * 1024 * 1024], None).await;
    }
    let waited = start.elapsed();
    output.finish(Duration::from_millis(100)).await;
    assert!((Duration::from_secs(1)..Duration::from_secs(15)).contains(&waited), "{waited:?}");
    assert!(log.text().contains("too slow, 20 events were dropped"), "{}", log.text());
    assert!(log.text().contains("did not take the last 2 events in time"), "{}", log.text());
}
