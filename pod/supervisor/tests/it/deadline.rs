use std::{
    fs,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use wiremock::ResponseTemplate;

use crate::{run::Supervisor, server::Server};

#[rstest]
#[case::quiet("exec sleep 60", 2000)]
#[case::that_exits_with_0("trap 'exit 0' TERM; while :; do sleep 0.05; done", 2000)]
#[case::that_ignores_sigterm("trap '' TERM; while :; do sleep 0.05; done", 2300)]
fn case_72_an_agent_that_is_silent_for_ever_ends_with_124_and_an_event(#[case] script: &str, #[case] from: u64) {
    let ended = Supervisor::over(script).deadline(2000).grace(300).run();
    ended.assert_ended(124);
    ended.assert_took(from, 20_000);
    assert!(ended.log.contains("run deadline expired"), "{}", ended.log);
}

#[test]
fn case_72_whatever_holds_the_end_up_there_is_124_and_an_event() {
    let dead = Server::that_answers(ResponseTemplate::new(200).set_delay(Duration::from_secs(120)));
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap();
    // The CLI ignores SIGTERM, and a grandchild out of reach holds its pipes.
    let script = r#"trap '' TERM; setsid sleep 60 & echo pid $! >&2; cd "$HOME"; mkdir -p .claude/projects
        echo text > report; while :; do sleep 0.05; done"#;
    let supervisor = Supervisor::over(script)
        .claude()
        .deadline(5000)
        .grace(60_000)
        .env("HOME", home)
        .env("WORKSPACE_DIR", home)
        .env("AGENT_SINKS", &json!([{"type": "http", "url": dead.uri()}]).to_string())
        .env("AGENT_WATCH", &json!([{"event": "r", "path": "report", "upload": {"url": dead.uri()}}]).to_string())
        .env("AGENT_CONVERSATION_SOURCE", &dead.uri())
        .env("AGENT_CONVERSATION_PIN", "x");
    let ended = supervisor.run();
    let holder = ended.log.lines().find_map(|line| line.strip_prefix("[agent] pid ")).unwrap();
    kill_process(Pid::from_raw(holder.parse().unwrap()).unwrap(), Signal::KILL).unwrap();

    ended.assert_ended(124);
    ended.assert_took(7000, 30_000);
    assert!(ended.printed().last().unwrap().contains("upload-failed"), "{:?}", ended.printed());
    for expected in ["the conversation is not saved: there was no time left", "did not take the last 3 events in time"]
    {
        assert!(ended.log.contains(expected), "{}", ended.log);
    }
}

#[test]
fn case_72_a_reader_of_our_output_that_is_stuck_does_not_hold_the_end_up() {
    let mut supervisor = Command::new(env!("CARGO_BIN_EXE_ai-agent-supervisor"));
    supervisor.args(["--agent-dir", "/no/such/folder", "--", "sh", "-c", "trap '' TERM; yes"]);
    supervisor.env("AGENT_MODEL", "exec").env("AGENT_DEADLINE_MS", "2000");
    let mut child = supervisor.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // Held, and never read.
    let _stdout = child.stdout.take();
    let end = Instant::now() + Duration::from_secs(30);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "the supervisor is still there");
        sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(124));
}

#[test]
fn fix_0_8_1_a_wedged_agent_that_floods_its_output_ends_with_124_too() {
    Supervisor::over("trap '' TERM; yes").deadline(2000).grace(300).run().assert_ended(124);
}

#[test]
fn at_the_deadline_an_agent_that_had_its_result_has_not_failed_by_it() {
    let ended = Supervisor::over("echo \"$1\"; exec sleep 60").deadline(2000).grace(30_000).run();
    ended.assert_ended(0);
    ended.assert_took(2000, 20_000);
}

#[test]
fn the_deadline_counts_from_the_start_that_the_initializer_left() {
    let supervisor = Supervisor::over("exec sleep 60").deadline(62_000);
    let start = signalbox_output::deadline::boottime_ms() - 60_000;
    fs::write(supervisor.folder().join(".started-boottime-ms"), start.to_string()).unwrap();
    let ended = supervisor.run();
    ended.assert_ended(124);
    ended.assert_took(0, 20_000);
}

#[test]
fn an_agent_whose_deadline_has_passed_is_not_started_any_more() {
    let supervisor = Supervisor::over("echo started").deadline(1000);
    fs::write(supervisor.folder().join(".started-boottime-ms"), "1").unwrap();
    let ended = supervisor.run();
    ended.assert_last(124, &json!({}));
    assert_eq!(ended.lines.len(), 1);
}

#[rstest]
#[case("0")]
#[case("-10000")]
#[case("")]
fn a_deadline_that_is_not_positive_is_off(#[case] value: &str) {
    Supervisor::over("sleep 0.2").env("AGENT_DEADLINE_MS", value).run().assert_ended(0);
}
