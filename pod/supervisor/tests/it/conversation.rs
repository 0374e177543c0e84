//! The save of a conversation.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use rstest::rstest;
use rustix::process::Signal;
use wiremock::ResponseTemplate;

use crate::{
    run::{OK, Supervisor},
    server::Server,
};

const PIN: &str = "2a3b8c62-6d0c-4c3b-8f0c-0e9c4f2d9a11";

/// Over a script that runs in an empty home, and saves to `server`.
fn supervisor(script: &str, model: &str, server: &Server) -> Supervisor {
    let supervisor = Supervisor::of(&["/bin/sh", "-c", &format!("cd \"$HOME\"; {script}"), "sh", OK]);
    let home = supervisor.folder().join("home");
    fs::create_dir(&home).unwrap();
    supervisor
        .env("HOME", home.to_str().unwrap())
        .env("AGENT_MODEL", model)
        .env("AGENT_CONVERSATION_SOURCE", &format!("{}/talks/?of=x", server.uri()))
        .env("AGENT_CONVERSATION_PIN", PIN)
}

/// What GNU tar makes of the one archive that the server got: its members, extracted into `target`.
fn members(server: &Server, target: &Path) -> Vec<String> {
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].url.path(), requests[0].url.query()), (format!("/talks/{PIN}").as_str(), Some("of=x")));
    assert_eq!(requests[0].headers.get("content-type").unwrap(), "application/gzip");
    let mut tar = Command::new("tar");
    tar.args(["-xvzf", "-", "-C"]).arg(target).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut tar = tar.spawn().unwrap();
    tar.stdin.take().unwrap().write_all(&requests[0].body).unwrap();
    let output = tar.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn fix_0_10_4_a_conversation_is_saved_on_an_image_without_tar_and_gnu_tar_extracts_it() {
    let (server, target) = (Server::that_answers(ResponseTemplate::new(200)), tempfile::tempdir().unwrap());
    let script = r#"/bin/mkdir -p .claude/projects/-workspace .claude/plugins
        echo talk > .claude/projects/-workspace/id.jsonl; echo '{}' > .claude/settings.json; echo "$1""#;
    let supervisor = supervisor(script, "claude-x", &server)
        .env("PATH", "/no/such/folder")
        .env("AGENT_CONVERSATION_AUTH", "talks-auth")
        .env("talks-auth", "Authorization: Bearer s3cret");
    let ended = supervisor.run();
    ended.assert_ended(0);
    let expected = [".claude/projects/", ".claude/projects/-workspace/", ".claude/projects/-workspace/id.jsonl"];
    assert_eq!(members(&server, target.path()), expected);
    let talk = fs::read_to_string(target.path().join(".claude/projects/-workspace/id.jsonl")).unwrap();
    assert_eq!(talk, "talk\n");
    assert!(ended.log.contains("the conversation is saved") && !ended.log.contains("s3cret"), "{}", ended.log);
}

#[test]
fn fix_0_10_2_the_credential_is_one_whole_header_sent_once() {
    let server = Server::that_answers(ResponseTemplate::new(200));
    let supervisor = supervisor("mkdir -p .codex/sessions; echo '{\"type\":\"turn.completed\"}'", "gpt-5.5", &server)
        .env("AGENT_CONVERSATION_AUTH", "talks-auth")
        .env("talks-auth", "Authorization: Bearer s3cret");
    supervisor.run().assert_ended(0);
    let headers = &server.requests()[0].headers;
    assert_eq!(headers.get_all("authorization").iter().collect::<Vec<_>>(), ["Bearer s3cret"]);
}

#[test]
fn of_gemini_no_policy_and_no_settings_are_saved() {
    let (server, target) = (Server::that_answers(ResponseTemplate::new(200)), tempfile::tempdir().unwrap());
    let script = r#"mkdir -p .gemini/tmp .gemini/policies; for f in tmp/talk projects.json policies/bypass.toml settings.json
        do echo $f > .gemini/$f; done; echo '{"type":"result","status":"success"}'"#;
    supervisor(script, "gemini-x", &server).run().assert_ended(0);
    assert_eq!(members(&server, target.path()), [".gemini/projects.json", ".gemini/tmp/", ".gemini/tmp/talk"]);
}

#[test]
fn of_opencode_is_saved_what_it_wrote_last_when_it_was_ended() {
    let (server, target) = (Server::that_answers(ResponseTemplate::new(200)), tempfile::tempdir().unwrap());
    let script = "mkdir -p .local/share/opencode; echo begun > .local/share/opencode/db
        trap 'echo ended > .local/share/opencode/db; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    supervisor(script, "opencode/x", &server).run_with(Signal::TERM).assert_ended(143);
    assert_eq!(members(&server, target.path()), [".local/share/opencode/", ".local/share/opencode/db"]);
    assert_eq!(fs::read_to_string(target.path().join(".local/share/opencode/db")).unwrap(), "ended\n");
}

#[test]
fn the_conversation_of_a_run_that_failed_is_saved_too() {
    let server = Server::that_answers(ResponseTemplate::new(200));
    supervisor("mkdir -p .claude/projects; exit 3", "claude-x", &server).run().assert_ended(3);
    assert_eq!(server.requests().len(), 1);
}

#[rstest]
#[case::of_a_recipe_s_own_command("mkdir -p .claude/projects", "exec")]
#[case::without_state("true", "opencode/x")]
fn where_there_is_no_conversation_nothing_is_sent(#[case] script: &str, #[case] model: &str) {
    let server = Server::that_answers(ResponseTemplate::new(200));
    supervisor(script, model, &server).run().assert_ended(0);
    assert!(server.requests().is_empty());
}

#[rstest]
#[case::refused(404, "mkdir -p .claude/projects; echo \"$1\"", "failed (404")]
#[case::a_path_that_ustar_cannot_hold(
    200,
    "mkdir -p .claude/projects/$(printf %0101d 0); echo \"$1\"",
    ".claude/projects/000"
)]
fn a_save_that_fails_is_logged_and_the_run_has_not_failed(
    #[case] status: u16,
    #[case] script: &str,
    #[case] expected: &str,
) {
    let server = Server::that_answers(ResponseTemplate::new(status));
    let ended = supervisor(script, "claude-x", &server).run();
    ended.assert_ended(0);
    assert!(ended.log.contains("the conversation is not saved: ") && ended.log.contains(expected), "{}", ended.log);
}
