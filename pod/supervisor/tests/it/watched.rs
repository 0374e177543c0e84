//! Watched files and their uploads.

use std::{
    fs,
    io::{ErrorKind, Read},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::fs::symlink,
    time::{Duration, Instant},
};

use rstest::rstest;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::{
    run::{Ended, Supervisor},
    server::Server,
};

const SHA256_OF_TEXT: &str = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1";

/// Over a script that runs in the workspace.
fn supervisor(script: &str, watches: &Value) -> Supervisor {
    let supervisor = Supervisor::over(&format!("cd \"$WORKSPACE_DIR\"; {script}"));
    let workspace = supervisor.folder().join("w");
    fs::create_dir(&workspace).unwrap();
    supervisor.env("WORKSPACE_DIR", workspace.to_str().unwrap()).env("AGENT_WATCH", &watches.to_string())
}

fn uploaded_to(url: &str) -> Value {
    json!([{"event": "r", "path": "report", "upload": {"url": url, "headers_secret": "up-auth"}}])
}

fn events(ended: &Ended) -> Vec<Value> {
    ended.printed().iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn watched_files_are_events_in_the_recipe_s_order_before_the_last() {
    let watches = json!([
        {"event": "b", "path": "deep/../deep/b"},
        {"event": "a", "path": "a"},
        {"event": "b", "path": "largest"},
    ]);
    let script =
        "mkdir deep; printf 'text\\n\"' > deep/b; : > a; head -c 131072 /dev/zero | tr '\\0' x > largest; exit 3";
    let ended = supervisor(script, &watches).run();
    ended.assert_ended(3);
    let expected = [
        json!({"kind": "file", "event": "b", "path": "deep/../deep/b", "content": "text\n\""}),
        json!({"kind": "file", "event": "a", "path": "a", "content": ""}),
        json!({"kind": "file", "event": "b", "path": "largest", "content": "x".repeat(131_072)}),
    ];
    assert_eq!(events(&ended), expected);
}

#[rstest]
#[case::case_77_missing("true", "missing")]
#[case::no_regular_file("mkdir report", "missing")]
#[case::too_large("head -c 131073 /dev/zero > report", "too-large")]
#[case::no_text("printf '\\377' > report", "unreadable")]
#[case::link_to_itself("ln -s report report", "unreadable")]
fn case_77_a_watched_file_that_cannot_be_told_has_a_reason_before_the_last_event(
    #[case] script: &str,
    #[case] reason: &str,
) {
    let ended = supervisor(script, &json!([{"event": "r", "path": "report"}])).run();
    ended.assert_ended(0);
    assert_eq!(events(&ended), [json!({"kind": "file", "event": "r", "path": "report", "reason": reason})]);
}

#[rstest]
#[case::above("../x")]
#[case::absolute("/etc/hostname")]
#[case::the_workspace_itself(".")]
#[case::link_to_a_file("link")]
#[case::link_to_a_folder("folder/hostname")]
fn case_78_a_watched_path_that_leads_out_of_the_workspace_has_no_event(#[case] path: &str) {
    let supervisor = supervisor("true", &json!([{"event": "r", "path": path}]));
    fs::write(supervisor.folder().join("x"), "secret").unwrap();
    symlink("/etc/hostname", supervisor.folder().join("w/link")).unwrap();
    symlink("/etc", supervisor.folder().join("w/folder")).unwrap();
    let ended = supervisor.run();
    ended.assert_ended(0);
    assert_eq!(ended.lines.len(), 2);
    assert!(ended.log.contains("is not below the workspace"), "{}", ended.log);
}

#[test]
fn a_watched_file_reaches_the_sinks_whatever_is_selected() {
    let sink = Server::that_answers(ResponseTemplate::new(200));
    let sinks = json!([{"type": "http", "url": sink.uri()}]).to_string();
    let supervisor = supervisor("printf text > report", &json!([{"event": "r", "path": "report"}]));
    let ended = supervisor.env("AGENT_SINKS", &sinks).env("AGENT_SELECT", r#"[{"event":"result"}]"#).run();
    ended.assert_ended(0);
    let bodies: Vec<Value> =
        sink.requests().iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect();
    assert_eq!(bodies[1]["event"], json!({"kind": "file", "event": "r", "path": "report", "content": "text"}));
    assert_eq!(bodies.len(), 3);
}

#[test]
fn an_upload_has_the_run_in_its_address_its_headers_its_trace_and_its_digest_in_the_event() {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let server = Server::that_answers(ResponseTemplate::new(201));
    let url = format!("{}/in/{{agent}}/{{event}}?token=s3cret", server.uri());
    let watches = json!([{"event": "r/ é", "path": "report", "upload": {"url": url, "headers_secret": "up-auth"}}]);
    let supervisor = supervisor("printf text > report", &watches)
        .env("AGENT_NAME", "run-1")
        .env("up-auth", "Authorization: Bearer s3cret\nX-Two: 2")
        .env("TRACEPARENT", trace);
    let ended = supervisor.run();
    ended.assert_ended(0);
    let event = json!({"kind": "file", "event": "r/ é", "path": "report",
        "uploaded": true, "bytes": 4, "sha256": SHA256_OF_TEXT});
    assert_eq!(events(&ended), [event]);

    let requests = server.requests();
    assert_eq!((requests.len(), requests[0].body.as_slice()), (1, b"text".as_slice()));
    assert_eq!(requests[0].url.path(), "/in/run-1/r%2F%20%C3%A9");
    let header = |name: &str| requests[0].headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/octet-stream");
    assert_eq!((header("authorization").as_str(), header("x-two").as_str()), ("Bearer s3cret", "2"));
    assert_eq!(header("traceparent"), trace);
    assert!(!ended.log.contains("s3cret"), "{}", ended.log);
}

#[rstest]
#[case::refused(403, 1)]
#[case::gone_elsewhere(302, 1)]
fn an_upload_that_is_refused_is_not_tried_again(#[case] status: u16, #[case] tries: usize) {
    let server = Server::that_answers(ResponseTemplate::new(status));
    let url = format!("{}/in?token=s3cret", server.uri());
    let ended = supervisor("printf text > report", &uploaded_to(&url)).run();
    ended.assert_ended(0);
    assert_eq!(events(&ended), [json!({"kind": "file", "event": "r", "path": "report", "reason": "upload-failed"})]);
    assert_eq!(server.requests().len(), tries);
    let expected = format!("the upload to {}/in failed ({status}", server.uri());
    assert!(ended.log.contains(&expected) && !ended.log.contains("s3cret"), "{}", ended.log);
}

#[rstest]
#[case::too_large("truncate -s 67108865 report", "too-large")]
#[case::missing("true", "missing")]
fn a_file_that_cannot_be_uploaded_is_not_sent(#[case] script: &str, #[case] reason: &str) {
    let server = Server::that_answers(ResponseTemplate::new(200));
    let ended = supervisor(script, &uploaded_to(&server.uri())).run();
    ended.assert_ended(0);
    assert_eq!(events(&ended)[0]["reason"], reason);
    assert!(server.requests().is_empty());
}

#[test]
fn a_file_that_is_no_text_can_be_uploaded() {
    let server = Server::that_answers(ResponseTemplate::new(200));
    let ended = supervisor("printf '\\377\\0' > report", &uploaded_to(&server.uri())).run();
    ended.assert_ended(0);
    assert_eq!((&events(&ended)[0]["bytes"], server.requests()[0].body.as_slice()), (&json!(2), b"\xff\0".as_slice()));
}

#[test]
fn an_upload_without_an_address_has_failed() {
    let ended = supervisor("printf text > report", &uploaded_to("s3cret")).run();
    ended.assert_ended(0);
    assert_eq!(events(&ended)[0]["reason"], "upload-failed");
    assert!(!ended.log.contains("s3cret"), "{}", ended.log);
}

#[test]
fn a_signal_while_a_file_is_uploaded_cuts_the_upload_short_and_changes_no_code() {
    let server = Server::that_answers(ResponseTemplate::new(200).set_delay(Duration::from_secs(60)));
    let watches = json!([
        {"event": "first", "path": "report"},
        {"event": "r", "path": "report", "upload": {"url": server.uri()}},
    ]);
    let ended = supervisor("printf text > report", &watches).run_at(|line, pid| {
        if line.starts_with(br#"{"kind":"file","event":"first""#) {
            kill_process(pid, Signal::TERM).unwrap();
        }
    });
    ended.assert_ended(0);
    assert_eq!(events(&ended)[1]["reason"], "upload-failed");
    ended.assert_took(0, 30_000);
}

/// The first connection that comes.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) => assert!(error.kind() == ErrorKind::WouldBlock && Instant::now() < end, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn fix_0_11_1_an_upload_survives_a_receiver_that_is_started_again() {
    let first = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = first.local_addr().unwrap();
    let supervisor = supervisor("printf text > report", &uploaded_to(&format!("http://{address}/in")));
    let run = std::thread::spawn(move || supervisor.run());

    // It goes down in the middle of the first try, and comes up again at the same address.
    let mut request = accept(&first);
    request.read_exact(&mut [0; 1]).unwrap();
    drop(first);
    let _ = request.shutdown(Shutdown::Both);
    drop(request);
    let second = Server::at(address, ResponseTemplate::new(200));
    let ended = run.join().unwrap();

    ended.assert_ended(0);
    assert_eq!((&events(&ended)[0]["uploaded"], second.requests().len()), (&json!(true), 1));
}
