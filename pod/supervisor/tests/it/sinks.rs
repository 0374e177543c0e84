use std::{fs, time::Duration};

use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::{run::Supervisor, server::Server};

struct Sink(Server);

impl Sink {
    fn that_answers(answer: ResponseTemplate) -> Self {
        Self(Server::that_answers(answer))
    }

    fn env(&self, supervisor: Supervisor) -> Supervisor {
        let sinks = json!([{"type": "http", "url": self.0.uri()}]).to_string();
        supervisor.env("AGENT_SINKS", &sinks).env("AGENT_NAME", "a").env("AGENT_SINK_RETRY_BASE_MS", "1")
    }

    fn events(&self) -> Vec<Value> {
        let requests = self.0.requests();
        let bodies = requests.iter().map(|request| serde_json::from_slice::<Value>(&request.body).unwrap());
        bodies
            .inspect(|body| assert_eq!(body["source"], json!({"agent": "a"})))
            .map(|body| body["event"].clone())
            .collect()
    }
}

#[test]
fn the_sinks_get_what_standard_output_gets_in_its_order() {
    let sink = Sink::that_answers(ResponseTemplate::new(200));
    let ended = sink.env(Supervisor::over("seq 1 50; echo plain")).run();
    ended.assert_ended(0);
    let printed = ended.lines.iter().map(|line| {
        serde_json::from_slice(line).unwrap_or_else(|_| Value::from(String::from_utf8(line.clone()).unwrap()))
    });
    assert_eq!(sink.events(), printed.collect::<Vec<_>>());
}

#[test]
fn the_selected_lines_and_all_events_reach_the_sinks() {
    let sink = Sink::that_answers(ResponseTemplate::new(200));
    let script =
        r#"echo '{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]}}'; echo plain; echo "$1""#;
    let supervisor = Supervisor::over(script).claude().env("AGENT_SELECT", r#"[{"event":"result"}]"#);
    let ended = sink.env(supervisor).run();
    ended.assert_ended(0);
    let kinds: Vec<_> = sink
        .events()
        .iter()
        .map(|event| event["status"].as_str().or(event["type"].as_str()).unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["started", "result", "succeeded"]);
    assert_eq!(ended.printed().len(), 3);
}

#[test]
fn case_74_a_line_that_is_an_envelope_is_printed_and_logged_and_not_sent() {
    let sink = Sink::that_answers(ResponseTemplate::new(200));
    let ended = sink.env(Supervisor::over(r#"echo '{"source":{},"event":{}}'"#)).run();
    ended.assert_ended(0);
    assert_eq!(ended.printed(), [r#"{"source":{},"event":{}}"#]);
    assert_eq!(sink.events().len(), 2);
    assert!(ended.log.contains("already has `source` and `event`"), "{}", ended.log);
}

#[test]
fn fix_0_6_2_lines_are_bare_on_standard_output_and_in_one_envelope_in_a_sink() {
    let sink = Sink::that_answers(ResponseTemplate::new(200));
    let ended = sink.env(Supervisor::over(r#"echo '{"event":{"source":1,"event":2}}'"#)).run();
    ended.assert_ended(0);
    assert_eq!(ended.printed(), [r#"{"event":{"source":1,"event":2}}"#]);
    assert_eq!(sink.events()[1], json!({"event": {"source": 1, "event": 2}}));
}

#[test]
fn a_file_sink_gets_an_envelope_a_line_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let absolute = folder.path().join("absolute");
    let sinks = json!([{"type": "file", "path": "relative"}, {"type": "file", "path": absolute}]).to_string();
    let supervisor = Supervisor::over("seq 1 50; exit 3").env("AGENT_NAME", "a").env("AGENT_SINKS", &sinks);
    let ended = supervisor.env("WORKSPACE_DIR", folder.path().to_str().unwrap()).run();
    ended.assert_ended(3);
    let printed = ended.lines.iter().map(|line| {
        let event: Value = serde_json::from_slice(line).unwrap();
        json!({"source": {"agent": "a"}, "event": event})
    });
    let printed: Vec<_> = printed.collect();
    for file in [absolute, folder.path().join("relative")] {
        let text = fs::read_to_string(file).unwrap();
        let written: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(written, printed);
    }
}

#[test]
fn case_75_a_sink_that_only_answers_500_leaves_the_run_as_it_is() {
    let sink = Sink::that_answers(ResponseTemplate::new(500));
    let ended = sink.env(Supervisor::over("echo 1; exit 3")).run();
    ended.assert_ended(3);
    assert_eq!(sink.events().len(), 9);
    assert_eq!(ended.log.matches("http sink failed after retries: ").count(), 3, "{}", ended.log);
}

#[test]
fn at_the_deadline_a_sink_that_never_answers_costs_one_second() {
    let sink = Sink::that_answers(ResponseTemplate::new(200).set_delay(Duration::from_secs(60)));
    let ended = sink.env(Supervisor::over("exec sleep 60").deadline(2000)).run();
    ended.assert_ended(124);
    ended.assert_took(3000, 20_000);
    assert!(ended.log.contains("did not take the last 2 events in time"), "{}", ended.log);
}
