//! Following runs. The job-launcher, the Job controller and the kubelet are played by the tests.

use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use signalbox_testkit::{eventually, kubelet};
use signalbox_types::Agent;

use crate::{
    program::LIMIT,
    scene::{Scene, stamped},
};

const STARTED: &str = r#"{"kind":"lifecycle","phase":"agent","status":"started"}"#;
const SAYS: &str = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Hello Ada."}]}}"#;
const TOOL: &str =
    r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"wc -l x"}}]}}"#;
const SHOWN: &str = r#"{"type":"user","message":{"content":[{"type":"tool_result","content":"42 x"}]}}"#;
const RESULT: &str = r#"{"type":"result","is_error":true,"result":"It is too long."}"#;

/// Flags of `run` for an Agent of that name.
fn run<'a>(name: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    [&["run", "hello", "--set", "name=Ada", "--set", "text=x", "--name", name], flags].concat()
}

#[tokio::test]
async fn a_followed_run_shows_phases_tools_and_result_and_gives_its_code_with_a_played_launcher_and_kubelet() {
    let scene = Scene::new().await;
    let (client, namespace) = (scene.client(), scene.namespace.name.clone());
    let node = kubelet::Node::start(scene.namespace.plane()).await;
    let cli = scene.start(&run("a", &["--follow"]));
    cli.shows("agent.agents.re-cinq.com/a created\n").await;
    cli.shows("Pending    on station hello").await;

    let pod = scene.play_start("a").await.name_any();
    cli.shows("Running    job/agent-job-a").await;
    node.take(&namespace, &pod).await;
    let init = r#"{"kind":"lifecycle","phase":"init","status":"installing","tool":"git"}"#;
    node.set_log(&namespace, &pod, "init", stamped(&[init]));
    node.set_log(&namespace, &pod, "agent", stamped(&[STARTED, SAYS, TOOL]));
    kubelet::run_pod(&client, &namespace, &pod).await;
    cli.shows("init       installing git\n").await;
    cli.shows("tool       Bash  wc -l x\n").await;
    // The played kubelet ends each connection at once: what follows comes over another one.
    node.set_log(&namespace, &pod, "agent", stamped(&[STARTED, SAYS, TOOL, SHOWN, RESULT]));
    cli.shows("42 x\n").await;
    kubelet::end_pod(&client, &namespace, &pod, 3).await;
    scene.play_end("a", 3, "not shown, since the log was").await;

    let ran = cli.end().await;
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert_eq!(ran.stderr, "");
    let words: Vec<String> =
        ran.stdout.lines().skip(1).map(|line| line.get(8..).unwrap_or_default().trim_end().to_owned()).collect();
    let expected = [
        "Pending    on station hello",
        "Running    job/agent-job-a",
        "init       installing git",
        "agent      started",
        "says       Hello Ada.",
        "tool       Bash  wc -l x",
        "           42 x",
        "result     It is too long.",
        "Failed     exit code 3, Job failed; ran 12s",
    ];
    assert_eq!(words, expected, "{}", ran.stdout);
}

#[tokio::test]
async fn each_reason_to_wait_is_shown_live_with_a_played_launcher_and_kubelet() {
    let scene = Scene::new().await;
    let cli = scene.start(&run("a", &["-f"]));
    scene.appears("a").await;
    let full = json!([{"type": "Admitted", "status": "False", "reason": "StationFull", "message": "2 of 2 runs",
                       "lastTransitionTime": "2026-06-22T12:00:00Z"}]);
    scene.patch_status("a", json!({"conditions": full})).await;
    cli.shows("waiting    StationFull: 2 of 2 runs\n").await;
    let pod = scene.play_start("a").await.name_any();
    let message = "Back-off pulling image \"played\"";
    kubelet::block_pod(&scene.client(), &scene.namespace.name, &pod, "ImagePullBackOff", message).await;
    cli.shows(&format!("waiting    ImagePullBackOff: {message}\n")).await;
    scene.play_end("a", 1, "").await;
    assert_eq!(cli.end().await.code, Some(1));
}

#[tokio::test]
async fn a_run_whose_init_container_failed_shows_its_log_with_a_played_launcher_and_kubelet() {
    let scene = Scene::new().await;
    let (client, namespace) = (scene.client(), scene.namespace.name.clone());
    let node = kubelet::Node::start(scene.namespace.plane()).await;
    scene.agent("a").await;
    let pod = scene.play_start("a").await.name_any();
    node.take(&namespace, &pod).await;
    let failed = r#"{"kind":"lifecycle","phase":"init","status":"failed","tool":"git","reason":"no such branch"}"#;
    node.set_log(&namespace, &pod, "init", stamped(&[failed]));
    kubelet::fail_init(&client, &namespace, &pod, 4).await;
    for (flag, shown) in [("--pretty", "init       failed git: no such branch\n"), ("--raw", failed)] {
        let cli = scene.start(&["logs", "-f", "a", flag]);
        cli.shows(shown).await;
        drop(cli);
    }
    let cli = scene.start(&["logs", "-f", "a"]);
    scene.play_end("a", 4, "").await;
    let ran = cli.end().await;
    assert_eq!((ran.code, ran.stdout), (Some(4), format!("{failed}\n")));
}

#[tokio::test]
async fn raw_lines_are_the_agents_alone_and_each_comes_once_with_a_played_launcher_and_kubelet() {
    let scene = Scene::new().await;
    let (client, namespace) = (scene.client(), scene.namespace.name.clone());
    let node = kubelet::Node::start(scene.namespace.plane()).await;
    scene.agent("a").await;
    let pod = scene.play_start("a").await.name_any();
    node.take(&namespace, &pod).await;
    node.set_log(&namespace, &pod, "init", stamped(&["from init"]));
    node.set_log(&namespace, &pod, "agent", stamped(&["one", "two"]));
    kubelet::run_pod(&client, &namespace, &pod).await;
    let cli = scene.start(&["logs", "a", "-f", "--raw"]);
    cli.shows("two\n").await;
    node.set_log(&namespace, &pod, "agent", stamped(&["one", "two", "three"]));
    cli.shows("three\n").await;
    kubelet::end_pod(&client, &namespace, &pod, 0).await;
    scene.play_end("a", 0, "").await;
    assert_eq!(cli.end().await.ok(), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_run_whose_pod_is_gone_shows_the_output_of_its_status_with_a_played_launcher() {
    let scene = Scene::new().await;
    let output = format!("{STARTED}\n{SAYS}\n");
    scene.agent_with("a", json!({"phase": "Failed", "exitCode": 7, "output": output})).await;
    let ran = scene.cli(&["logs", "-f", "a", "--pretty"]).await;
    assert_eq!(ran.code, Some(7), "{ran:?}");
    assert!(ran.stdout.contains("says       Hello Ada.\n"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("Failed     exit code 7\n"), "{}", ran.stdout);
}

#[tokio::test]
async fn an_interrupt_leaves_the_run_alone_and_says_how_to_follow_it_again() {
    let scene = Scene::new().await;
    let cli = scene.start(&run("a", &["-f"]));
    cli.shows("Pending").await;
    cli.interrupt();
    let ran = cli.end().await;
    assert_eq!(ran.code, Some(130), "{ran:?}");
    let namespace = &scene.namespace.name;
    assert!(ran.stderr.contains(&format!("kubectl signalbox logs -f a -n {namespace}\n")), "{}", ran.stderr);
    assert!(!scene.get("a").await.is_cancel_requested());
}

#[tokio::test]
async fn an_interrupt_cancels_the_run_where_that_was_asked_for_with_a_played_launcher() {
    let scene = Scene::new().await;
    let cli = scene.start(&run("a", &["-f", "--cancel-on-interrupt"]));
    cli.shows("Pending").await;
    cli.interrupt();
    cli.notes("cancel of agent \"a\" is requested").await;
    eventually("the cancel is on the Agent", LIMIT, || async { scene.get("a").await.is_cancel_requested() }).await;
    scene.patch_status("a", json!({"phase": "Failed", "exitCode": 1, "failureReason": "canceled"})).await;
    let ran = cli.end().await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.ends_with("Failed     exit code 1, canceled\n"), "{}", ran.stdout);
}

#[tokio::test]
async fn a_second_interrupt_leaves_a_run_that_is_canceled() {
    let scene = Scene::new().await;
    let cli = scene.start(&run("a", &["--wait", "--cancel-on-interrupt"]));
    cli.shows("created").await;
    cli.interrupt();
    cli.notes("Ctrl-C again leaves it alone").await;
    assert!(scene.get("a").await.is_cancel_requested());
    cli.interrupt();
    assert_eq!(cli.end().await.code, Some(130));
}

#[tokio::test]
async fn a_run_that_is_deleted_while_it_is_followed_is_an_error() {
    let scene = Scene::new().await;
    let cli = scene.start(&run("a", &["-f"]));
    cli.shows("Pending").await;
    scene.namespace.api::<Agent>().delete("a", &DeleteParams::default()).await.unwrap();
    let stderr = cli.end().await.failed(1);
    assert!(stderr.starts_with("error: agent \"a\" in namespace"), "{stderr}");
    assert!(stderr.contains("was deleted while it was followed"), "{stderr}");
}

#[tokio::test]
async fn wait_with_an_output_format_keeps_progress_off_standard_output_with_a_played_launcher() {
    let scene = Scene::new().await;
    let cli = scene.start(&run("a", &["--wait", "-o", "json"]));
    scene.appears("a").await;
    scene.play_end("a", 0, "done").await;
    let ran = cli.end().await;
    let agent: Agent = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(agent.status.unwrap().output.as_deref(), Some("done"));
    let expected = "agent.agents.re-cinq.com/a created\nagent.agents.re-cinq.com/a succeeded: exit code 0\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), expected));
}

#[tokio::test]
async fn a_caller_with_the_agent_launcher_role_alone_can_follow_a_run_with_a_played_launcher() {
    let mut scene = Scene::new().await;
    let namespace = scene.namespace.name.clone();
    scene.namespace.apply(include_str!("../../../k8s/base/agent-launcher.yaml")).await;
    let binding = format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {{name: caller}}, \
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: agent-launcher}}, \
         subjects: [{{kind: ServiceAccount, name: caller, namespace: {namespace}}}]}}"
    );
    scene.namespace.apply(&binding).await;
    scene.kubeconfig = scene.namespace.plane().kubeconfig_as(&namespace, "caller").await;
    let cli = scene.start(&run("a", &["-f"]));
    cli.notes("note: you may not watch pods here: only the phases are shown\n").await;
    scene.play_end("a", 5, &format!("{SAYS}\n")).await;
    let ran = cli.end().await;
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stdout.contains("says       Hello Ada.\n"), "{}", ran.stdout);

    let refused = scene.cli(&["cancel", "a"]).await.failed(1);
    assert!(refused.contains("has ended already"), "{refused}");
    scene.agent("b").await;
    let refused = scene.cli(&["cancel", "b"]).await.failed(1);
    assert!(refused.starts_with("error: you may not patch agent \"b\" in namespace"), "{refused}");
}

#[tokio::test]
async fn cancel_with_wait_ends_once_the_run_has_with_a_played_launcher() {
    let scene = Scene::new().await;
    scene.agent("a").await;
    let cli = scene.start(&["cancel", "a", "--wait"]);
    cli.shows("agent.agents.re-cinq.com/a cancel requested\n").await;
    assert!(scene.get("a").await.is_cancel_requested());
    scene.patch_status("a", json!({"phase": "Failed", "exitCode": 1, "failureReason": "canceled"})).await;
    assert!(cli.end().await.ok().ends_with("a failed: exit code 1, canceled\n"));
}

#[tokio::test]
async fn a_new_run_of_the_name_is_not_taken_for_the_one_that_was_followed() {
    let scene = Scene::new().await;
    scene.agent("a").await;
    let hold = Patch::Merge(json!({"metadata": {"finalizers": ["signalbox.example/hold"]}}));
    let agents = scene.namespace.api::<Agent>();
    agents.patch("a", &PatchParams::default(), &hold).await.unwrap();
    let cli = scene.start(&["logs", "-f", "a", "--pretty"]);
    cli.shows("Pending").await;
    agents.delete("a", &DeleteParams::default()).await.unwrap();
    cli.shows("delete     requested\n").await;
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    agents.patch("a", &PatchParams::default(), &free).await.unwrap();
    scene.agent("a").await;
    assert!(cli.end().await.failed(1).contains("was deleted while it was followed"));
}
