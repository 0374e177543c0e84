use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use rstest::rstest;
use serde_json::json;

use crate::run::{OK, Supervisor};

#[rstest]
#[case(&[])]
#[case(&["--"])]
#[case(&["sh"])]
fn without_an_agent_it_says_how_it_is_used(#[case] arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_ai-agent-supervisor")).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "usage: ai-agent-supervisor -- <agent> [args...]\n");
    assert!(output.stdout.is_empty());
}

#[rstest]
#[case::on_path("no-such-agent")]
#[case::as_a_path("/no/such/agent")]
#[case::empty("")]
fn an_agent_that_is_not_there_is_not_found(#[case] program: &str) {
    let ended = Supervisor::of(&[program]).run();
    ended.assert_last(1, &json!({"reason": "not-found"}));
    assert_eq!(ended.lines.len(), 1);
}

#[test]
fn an_agent_that_cannot_be_started_is_not_the_same_as_one_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("agent");
    // No permission, then an interpreter that is not there.
    fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    for mode in [0o644, 0o755] {
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        Supervisor::of(&[program.to_str().unwrap()]).run().assert_last(1, &json!({"reason": "spawn"}));
    }
}

#[test]
fn the_agent_has_nothing_on_standard_input_and_does_not_ignore_sigpipe_as_we_do() {
    let script = "readlink /proc/self/fd/0; sed -n 's/^SigIgn:[[:space:]]*//p' /proc/self/status; yes | head -n 1";
    let ended = Supervisor::over(script).run();
    ended.assert_ended(0);
    assert_eq!(ended.printed()[0], "/dev/null");
    let ignored = u64::from_str_radix(&ended.printed()[1], 16).unwrap();
    assert_eq!(ignored & (1 << (13 - 1)), 0, "{ignored:x}");
}

#[test]
fn case_84_a_conversation_that_the_initializer_has_not_found_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("claude");
    fs::write(&program, format!("#!/bin/sh\necho \"$*\"\necho '{OK}'\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let argv = [program.to_str().unwrap(), "--print", "--resume", "ID", "--fork-session", "--", "--resume ID"];
    let run = |mark: bool| {
        let supervisor = Supervisor::of(&argv).claude().env("AGENT_CONVERSATION_ID", "ID");
        if mark {
            fs::write(supervisor.folder().join(".fresh-conversation"), "").unwrap();
        }
        let ended = supervisor.run();
        ended.assert_last(0, &json!({}));
        String::from_utf8(ended.lines[1].clone()).unwrap()
    };
    assert_eq!(run(true), "--print -- --resume ID");
    assert_eq!(run(false), "--print --resume ID --fork-session -- --resume ID");
}
