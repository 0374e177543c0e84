//! Runs that do not end by themselves. Those that wait for a deadline of one minute wait side by side.

use signalbox_types::Phase;

use crate::harness::{Scene, ending, lifecycle, output};

/// Ignores SIGTERM, and is silent for ever.
const STUBBORN: &str = "trap '' TERM; echo hello; while :; do sleep 1; done";

#[tokio::test]
async fn case_70_a_cli_that_has_its_result_and_never_exits_ends_with_its_verdict() {
    let scene = Scene::calm("lingers").await;
    let script = |is_error| {
        format!(r#"trap '' TERM; echo '{{"type":"result","is_error":{is_error}}}'; while :; do sleep 1; done"#)
    };
    let good = scene.run_as("-good", "shell", &script(false)).await;
    let bad = scene.run_as("-bad", "shell", &script(true)).await;
    let good = scene.ended(&good).await;
    assert_eq!(ending(&good), (Phase::Succeeded, Some(0), String::new()));
    assert_eq!(lifecycle(output(&good)).last().unwrap(), "agent succeeded exit=0");
    let (phase, code, _) = ending(&scene.ended(&bad).await);
    assert_eq!((phase, code), (Phase::Failed, Some(1)));
}

#[tokio::test]
async fn case_71_a_grandchild_that_holds_standard_output_does_not_hold_the_run() {
    let scene = Scene::calm("holds").await;
    // One in the agent's process group, and one that has left it.
    let agent = scene.run("shell", "sleep 600 & setsid sleep 600 & echo the agent is done; exit 4").await;
    let agent = scene.ended(&agent).await;
    let (phase, code, reason) = ending(&agent);
    assert_eq!((phase, code), (Phase::Failed, Some(4)), "{reason}");
    assert!(output(&agent).contains("the agent is done"));
}

#[tokio::test]
async fn case_72_a_cli_that_is_silent_for_ever_ends_with_124_before_kubernetes_acts() {
    let scene = Scene::calm("silent").await;
    scene.station("{deadlineMinutes: 1}");
    let agent = scene.run(&scene.name, STUBBORN).await;
    let agent = scene.ended(&agent).await;
    let (phase, code, reason) = ending(&agent);
    assert_eq!((phase, code), (Phase::Failed, Some(124)), "{reason}");
    assert!(reason.starts_with("BackoffLimitExceeded: "), "{reason}");
    assert_eq!(lifecycle(output(&agent)), ["agent started", "agent failed exit=124"]);
}

#[tokio::test]
async fn a_clone_that_hangs_meets_the_same_deadline() {
    let scene = Scene::calm("hangs").await;
    scene.apply(include_str!("../fixtures/hanging-git.yaml"));
    scene.server_ready(&format!("{}-git", scene.name)).await;
    let agent = scene.run(&scene.name, "echo never").await;
    let agent = scene.ended(&agent).await;
    let (phase, code, reason) = ending(&agent);
    assert_eq!((phase, code), (Phase::Failed, Some(124)), "{reason}");
    assert_eq!(lifecycle(output(&agent)).last().unwrap(), "init failed reason=deadline exit=124");
}

#[tokio::test]
async fn case_23_a_key_that_is_not_in_agent_secrets_fails_the_run_at_its_deadline() {
    let scene = Scene::calm("no-key").await;
    scene.apply(include_str!("../fixtures/missing-key.yaml"));
    let agent = scene.run(&scene.name, "echo never").await;
    let (phase, code, reason) = ending(&scene.ended(&agent).await);
    assert_eq!((phase, code), (Phase::Failed, Some(1)), "{reason}");
    assert!(reason.starts_with("DeadlineExceeded: "), "{reason}");
}

#[tokio::test]
async fn case_40_a_sidecar_that_never_exits_fails_the_run_at_its_deadline() {
    let scene = Scene::calm("stays").await;
    let sidecar = "{name: aside, command: [/bin/sleep, '600']}";
    let pod = format!("{{terminationGracePeriodSeconds: 1, containers: [{{name: agent}}, {sidecar}]}}");
    scene.station(&format!("{{deadlineMinutes: 1, template: {{spec: {pod}}}}}"));
    let agent = scene.run(&scene.name, "echo the agent is done").await;
    let agent = scene.ended(&agent).await;
    let (phase, code, reason) = ending(&agent);
    assert_eq!((phase, code), (Phase::Failed, Some(1)), "{reason}");
    assert!(reason.starts_with("DeadlineExceeded: "), "{reason}");
}
