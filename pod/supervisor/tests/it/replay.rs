//! What real CLIs have printed, through the supervisor: their exit code and their output give the run's code.

use std::{collections::BTreeSet, fs, path::PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::run::Supervisor;

/// How the CLI ended.
#[derive(Clone, Copy)]
enum End {
    /// With a code, by itself.
    Exit(i32),
    /// By SIGKILL, which was not ours.
    Killed,
    /// With a code, at a signal to the pod.
    At(Signal, i32),
}

use End::{At, Exit, Killed};

/// The recording, how the CLI ended, the code that the run has to have, and the reason in its last event.
const RUNS: &[(&str, End, i32, &str)] = &[
    ("claude/background_task", Exit(0), 0, ""),
    ("claude/bypass", Exit(0), 0, ""),
    ("claude/error_401", Exit(1), 1, ""),
    ("claude/error_401_no_retry", Exit(1), 1, ""),
    ("claude/error_429", Exit(1), 1, ""),
    ("claude/error_500", Exit(1), 1, ""),
    ("claude/error_no_key", Exit(1), 1, ""),
    ("claude/max_turns", Exit(1), 1, ""),
    ("claude/mcp_tool", Exit(0), 0, ""),
    ("claude/pin", Exit(0), 0, ""),
    ("claude/read", Exit(0), 0, ""),
    ("claude/resume", Exit(0), 0, ""),
    ("claude/resume_fresh_home", Exit(0), 0, ""),
    ("claude/resume_unknown", Exit(1), 1, ""),
    ("claude/sigint", At(Signal::INT, 0), 130, ""),
    // Its own SIGINT, of which the supervisor knows nothing.
    ("claude/sigint", Exit(0), 1, ""),
    ("claude/sigterm", At(Signal::TERM, 143), 143, ""),
    ("claude/sigterm", Exit(0), 1, "no-result"),
    ("claude/text", Exit(0), 0, ""),
    ("claude/tool", Exit(0), 0, ""),
    ("claude/tool_denied", Exit(0), 0, ""),
    // The command failed, and the CLI says that all is well.
    ("codex/auto_sandbox_blocked", Exit(0), 0, ""),
    ("codex/auto_sandbox_read_only", Exit(0), 0, ""),
    ("codex/error_401", Exit(1), 1, ""),
    ("codex/error_429", Exit(1), 1, ""),
    ("codex/error_500", Exit(1), 1, ""),
    ("codex/error_no_key", Exit(1), 1, ""),
    ("codex/resume", Exit(0), 0, ""),
    ("codex/resume_fresh_home", Exit(0), 0, ""),
    ("codex/resume_unknown_name", Exit(0), 1, "resume started another session"),
    ("codex/sigterm", At(Signal::TERM, 143), 143, ""),
    ("codex/sigterm", Exit(0), 1, "no-result"),
    ("codex/text", Exit(0), 0, ""),
    ("codex/tool", Exit(0), 0, ""),
    ("codex/websocket_fallback", Exit(0), 0, ""),
    ("gemini/error_400", Exit(144), 144, ""),
    ("gemini/error_401", Exit(145), 145, ""),
    ("gemini/error_429", Exit(173), 173, ""),
    ("gemini/error_500", Exit(244), 244, ""),
    ("gemini/mcp_tool", Exit(0), 0, ""),
    ("gemini/policy_without_yolo", Exit(0), 0, ""),
    ("gemini/resume", Exit(0), 0, ""),
    ("gemini/resume_fresh_home", Exit(0), 0, ""),
    ("gemini/sigterm", At(Signal::TERM, 0), 143, ""),
    ("gemini/sigterm", Exit(0), 1, "no-result"),
    ("gemini/sigterm_parent_only", Killed, 137, ""),
    ("gemini/text", Exit(0), 0, ""),
    ("gemini/tool", Exit(0), 0, ""),
    ("gemini/tool_not_registered", Exit(0), 0, ""),
    ("opencode/error_401", Exit(1), 1, ""),
    ("opencode/error_401", Exit(0), 1, ""),
    ("opencode/error_429", Exit(1), 1, ""),
    ("opencode/permission_rejected", Exit(0), 0, ""),
    ("opencode/resume", Exit(0), 0, ""),
    ("opencode/resume_fresh_home", Exit(0), 0, ""),
    ("opencode/sigterm", At(Signal::TERM, 143), 143, ""),
    ("opencode/sigterm_tool", At(Signal::TERM, 143), 143, ""),
    ("opencode/text", Exit(0), 0, ""),
    ("opencode/tool", Exit(0), 0, ""),
];

/// Recordings of modes in which a CLI takes prompts over time.
const SESSIONS: &[&str] = &["realtime_", "app_server_", "acp_"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/vendors/tests/recordings")
}

fn model(recording: &str) -> &'static str {
    match recording.split('/').next().unwrap() {
        "claude" => "claude-opus-5-5",
        "codex" => "gpt-5.5",
        "gemini" => "gemini-3.1-flash-lite",
        "opencode" => "opencode/fake/m1",
        vendor => panic!("{vendor}"),
    }
}

/// The session that the recorded run was to go on with.
fn resumed(recording: &str, lines: &[String]) -> String {
    match recording {
        "codex/resume" | "codex/resume_fresh_home" => {
            let first: Value = serde_json::from_str(&lines[0]).unwrap();
            first["thread_id"].as_str().unwrap().to_owned()
        }
        "codex/resume_unknown_name" => "nosuch".to_owned(),
        _ => String::new(),
    }
}

#[test]
fn each_recorded_run_ends_with_the_code_that_the_rules_say() {
    for (recording, end, code, reason) in RUNS {
        let file = folder().join(recording).with_extension("jsonl");
        let lines: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
        let rest = match end {
            Exit(code) => format!("exit {code}"),
            Killed => "kill -9 $$".to_owned(),
            At(_, code) => format!("trap 'exit {code}' TERM INT; echo ready; while :; do sleep 0.05; done"),
        };
        let supervisor = Supervisor::over(&format!("cat \"$RECORDING\"; {rest}"))
            .env("RECORDING", file.to_str().unwrap())
            .env("AGENT_MODEL", model(recording))
            .env("AGENT_CONVERSATION_ID", &resumed(recording, &lines));
        let ended = if let At(signal, _) = end { supervisor.run_with(*signal) } else { supervisor.run() };

        let mut event = json!({"kind": "lifecycle", "phase": "agent", "exitCode": code});
        event["status"] = json!(if *code == 0 { "succeeded" } else { "failed" });
        if !reason.is_empty() {
            event["reason"] = json!(reason);
        }
        assert_eq!((ended.code, ended.last()), (*code, event), "{recording}: {}", ended.log);
        assert_eq!(ended.printed()[..lines.len()], lines, "{recording}");
    }
}

#[test]
fn no_recorded_run_is_left_out() {
    let vendors = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = vendors.flat_map(|vendor| fs::read_dir(vendor).unwrap().map(|entry| entry.unwrap().path()));
    let recordings = files.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    let name = |file: PathBuf| {
        let name = file.strip_prefix(folder()).unwrap().with_extension("");
        name.to_str().unwrap().to_owned()
    };
    let is_session =
        |name: &String| SESSIONS.iter().any(|start| name.split('/').next_back().unwrap().starts_with(start));
    let found: BTreeSet<_> = recordings.map(name).filter(|name| !is_session(name)).collect();
    let replayed: BTreeSet<_> = RUNS.iter().map(|(recording, ..)| (*recording).to_owned()).collect();
    assert_eq!(found, replayed);
}
