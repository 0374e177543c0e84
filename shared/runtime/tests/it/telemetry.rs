//! Logs and traces of a process: this test program starts itself again, since a process has one subscriber.

use std::process::{Command, Output};

use serde_json::Value;
use signalbox_runtime::{health, health::Health, metrics::Metrics, telemetry};
use tokio_util::sync::CancellationToken;
use wiremock::{
    Mock, MockServer, ResponseTemplate,
    matchers::{header, method, path},
};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

async fn run(test: &'static str, endpoint: Option<String>) -> Output {
    let started = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", test, "--nocapture"]).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.envs(endpoint.map(|endpoint| ("ENDPOINT", endpoint))).output().unwrap()
    });
    let output = started.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The log lines among what a test program prints.
fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

fn said(output: &Output, word: &str) -> Option<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().find_map(|line| line.strip_prefix(word).map(str::to_owned))
}

#[tokio::test]
async fn a_log_line_is_json_with_its_fields_and_those_of_its_spans() {
    let output = run("telemetry::process_that_logs", None).await;
    let lines = lines(&output);
    let line = lines.iter().find(|line| line["fields"]["message"] == "begun").expect("the line");
    assert_eq!((&line["level"], &line["fields"]["attempt"]), (&"INFO".into(), &2.into()));
    assert_eq!(line["target"], "it::telemetry");
    assert!(line["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{line}");
    assert_eq!(line["span"]["agent"], "run-1");
    assert_eq!(said(&output, "traceparent: ").as_deref(), Some("None"), "no traces without an endpoint");
}

#[tokio::test]
async fn the_filter_can_be_changed_from_within_the_pod() {
    let output = run("telemetry::process_that_logs", None).await;
    let messages: Vec<_> = lines(&output).iter().map(|line| line["fields"]["message"].clone()).collect();
    assert!(!messages.contains(&"hidden".into()) && messages.contains(&"shown".into()), "{messages:?}");
    assert_eq!(said(&output, "refused: ").as_deref(), Some("400 Bad Request"), "and a bad one is refused");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the tests above, in a process of its own"]
async fn process_that_logs() {
    let telemetry = telemetry::init("test", "info", None).unwrap();
    tracing::info_span!("reconcile", agent = "run-1").in_scope(|| {
        tracing::info!(attempt = 2, "begun");
        println!("traceparent: {:?}", telemetry::traceparent());
    });
    tracing::debug!("hidden");
    let listener = health::bind(0).await.unwrap();
    let url = format!("http://127.0.0.1:{}/log-filter", listener.local_addr().unwrap().port());
    let (metrics, filter) = (Metrics::new().unwrap(), Some(telemetry.log_filter()));
    tokio::spawn(health::serve(listener, Health::new(), metrics, filter, CancellationToken::new()));
    signalbox_runtime::client::install_crypto();
    let client = reqwest::Client::new();
    let refused = client.put(&url).body("info,=").send().await.unwrap();
    println!("refused: {}", refused.status());
    client.put(&url).body("off,it=debug").send().await.unwrap().error_for_status().unwrap();
    tracing::debug!("shown");
}

#[tokio::test]
async fn spans_of_one_run_are_one_trace_and_the_last_are_sent_at_the_end() {
    let collector = MockServer::start().await;
    let received =
        Mock::given(method("POST")).and(path("/v1/traces")).and(header("content-type", "application/x-protobuf"));
    received.respond_with(ResponseTemplate::new(200)).expect(1..).mount(&collector).await;
    let output = run("telemetry::process_that_traces", Some(collector.uri())).await;
    let traceparent = said(&output, "traceparent: ").expect("a trace");
    let (trace, parent) = (PARENT.split('-').nth(1).unwrap(), PARENT.split('-').nth(2).unwrap());
    let parts: Vec<_> = traceparent.split('-').collect();
    assert_eq!((parts[0], parts[1], parts[3]), ("00", trace, "01"));
    assert_ne!(parts[2], parent, "the child has an id of its own");
    // Protobuf keeps ids as raw bytes and names as text.
    let bodies: Vec<u8> =
        collector.received_requests().await.unwrap().iter().flat_map(|request| request.body.clone()).collect();
    let contains = |wanted: &[u8]| bodies.windows(wanted.len()).any(|window| window == wanted);
    let id = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    };
    assert!(contains(&id(trace)) && contains(&id(parent)) && contains(b"signalbox-test") && contains(b"reconcile"));
}

#[tokio::test]
async fn requests_to_the_api_server_carry_the_trace_of_whoever_asks() {
    let server = MockServer::start().await;
    Mock::given(wiremock::matchers::any()).respond_with(ResponseTemplate::new(404)).mount(&server).await;
    run("telemetry::process_that_asks", Some(server.uri())).await;
    let requests = server.received_requests().await.unwrap();
    let asked = requests.iter().find(|request| request.method.as_str() == "GET").expect("the request");
    let traceparent = asked.headers["traceparent"].to_str().unwrap();
    assert_eq!(traceparent.split('-').nth(1), PARENT.split('-').nth(1));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the test above, in a process of its own"]
async fn process_that_asks() {
    let endpoint = std::env::var("ENDPOINT").unwrap();
    let _telemetry = telemetry::init("signalbox-test", "off", Some(&endpoint)).unwrap();
    let config = kube::Config::new(endpoint.parse().unwrap());
    let clients = signalbox_runtime::client::Clients::from_config(config, &Metrics::new().unwrap()).unwrap();
    let leases: kube::Api<k8s_openapi::api::coordination::v1::Lease> = kube::Api::all(clients.reader);
    let span = tracing::info_span!(target: "signalbox_test", "reconcile");
    telemetry::continue_trace(&span, PARENT);
    tracing::Instrument::instrument(async { leases.list(&Default::default()).await.unwrap_err() }, span).await;
}

#[tokio::test]
async fn a_collector_that_is_away_does_not_hold_up_the_end() {
    // A port that accepts and never answers.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let output = run("telemetry::process_that_traces", Some(endpoint)).await;
    let took: u64 = said(&output, "flushed in ms: ").unwrap().parse().unwrap();
    assert!(took < 500, "{took} ms");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by the tests above, in a process of its own"]
async fn process_that_traces() {
    let endpoint = std::env::var("ENDPOINT").unwrap();
    // A quiet log must not cut the trace.
    let telemetry = telemetry::init("signalbox-test", "off", Some(&endpoint)).unwrap();
    let span = tracing::info_span!(target: "signalbox_test", "reconcile");
    telemetry::continue_trace(&span, PARENT);
    telemetry::continue_trace(&tracing::info_span!(target: "signalbox_test", "forged"), "no trace context");
    span.in_scope(|| println!("traceparent: {}", telemetry::traceparent().unwrap()));
    drop(span);
    let began = std::time::Instant::now();
    drop(telemetry);
    println!("flushed in ms: {}", began.elapsed().as_millis());
}
