//! Commands that run to their end.

use std::process::Stdio;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{ResourceExt, api::ListParams};
use rstest::rstest;
use serde_json::{Value, json};
use signalbox_testkit::{kubelet, program};
use signalbox_types::Agent;

use crate::{
    program::{EXE, LIMIT, command, run},
    scene::Scene,
};

#[tokio::test]
async fn run_makes_an_agent_of_its_arguments_and_names_it() {
    let scene = Scene::new().await;
    let args = ["run", "hello", "--set", "name=Ada", "--task-id", "t1", "--", "--text", "one two"];
    let said = scene.cli(&args).await.ok();
    let name = said.trim_end().strip_prefix("agent.agents.re-cinq.com/").and_then(|rest| rest.strip_suffix(" created"));
    let name = name.unwrap_or_else(|| panic!("{said}"));
    assert!(name.starts_with("hello-"), "{name}");
    let spec = serde_json::to_value(scene.get(name).await.spec).unwrap();
    assert_eq!(spec, json!({"stationRef": "hello", "taskId": "t1", "parameters": {"name": "Ada", "text": "one two"}}));

    let yaml = scene.cli(&["run", "hello", "--name", "b", "-o", "yaml"]).await;
    let warning = "warning: parameter name is not given: {name} stays in the prompt as it is\n";
    assert!(yaml.stderr.starts_with(warning), "{yaml:?}");
    let agent: Agent = serde_saphyr::from_str(&yaml.ok()).unwrap();
    assert_eq!(agent.name_any(), "b");
}

#[tokio::test]
async fn run_refuses_what_could_only_fail() {
    let scene = Scene::new().await;
    let missing = scene.cli(&["run", "helo"]).await.failed(1);
    assert!(missing.starts_with("error: station \"helo\" in namespace"), "{missing}");
    assert!(missing.ends_with("is not there; there are: hello\n"), "{missing}");
    let flag = scene.cli(&["run", "hello", "--", "--nmae", "Ada"]).await.failed(2);
    assert!(
        flag.starts_with("error: --nmae: the prompt of agentdefinition \"greeter\" has no such parameter"),
        "{flag}"
    );
    let twice = scene.cli(&["run", "hello", "--set", "name=a", "--", "--name", "b"]).await.failed(2);
    assert_eq!(twice, "error: parameter name is given more than once\n");
    scene.agent("a").await;
    let taken = scene.cli(&["run", "hello", "--name", "a", "--set", "name=a", "--set", "text=b"]).await.failed(1);
    assert!(taken.contains("agents.agents.re-cinq.com \"a\" already exists"), "{taken}");
    let invalid = scene.cli(&["run", "hello", "--name", "A_", "--set", "name=a", "--set", "text=b"]).await.failed(1);
    assert!(invalid.contains("metadata.name: Invalid value"), "{invalid}");
    let agents = scene.namespace.api::<Agent>().list(&ListParams::default()).await.unwrap();
    assert_eq!(agents.items.len(), 1, "nothing was made");
}

#[rstest]
#[case(&["run"], "STATION")]
#[case(&["run", "hello", "--set", "novalue"], "NAME=VALUE is wanted")]
#[case(&["run", "hello", "--name", "a", "--generate-name", "b"], "cannot be used with")]
#[case(&["run", "hello", "--cancel-on-interrupt"], "--cancel-on-interrupt needs --follow or --wait")]
#[case(&["run", "hello", "--", "name"], "parameters are given as --name value")]
#[case(&["cancel"], "<AGENTS>")]
#[case(&["prune", "-o", "json"], "--dry-run")]
#[case(&["top", "-A", "-n", "x"], "cannot be used with")]
#[case(&["nonsense"], "unrecognized subcommand")]
#[tokio::test]
async fn arguments_that_make_no_sense_give_exit_code_2(#[case] args: &[&str], #[case] message: &str) {
    let stderr = run(args).await.failed(2);
    assert!(stderr.contains(message), "{stderr}");
}

#[tokio::test]
async fn without_a_cluster_the_error_names_the_way_out() {
    let absent = run(&["top", "--kubeconfig", "/nonexistent/config"]).await.failed(1);
    assert!(
        absent.starts_with("error: kubeconfig /nonexistent/config: give another one with --kubeconfig"),
        "{absent}"
    );
    let none = run(&["top"]).await.failed(1);
    assert!(none.starts_with("error: no usable kubeconfig: set KUBECONFIG"), "{none}");
    let scene = Scene::new().await;
    let context = scene.cli(&["top", "--context", "elsewhere"]).await.failed(1);
    assert!(context.contains("kubeconfig"), "{context}");

    let text = std::fs::read_to_string(&scene.kubeconfig).unwrap();
    let dead = text.replace(&scene.namespace.plane().address().to_string(), "127.0.0.1:1");
    let file = signalbox_testkit::TempDir::new("dead-kubeconfig");
    let path = file.write("config", &dead);
    let silent = run(&["top", "--kubeconfig", path.to_str().unwrap()]).await.failed(1);
    assert!(silent.starts_with("error: cannot list stations: the API server does not answer"), "{silent}");
    let stranger = file.write("stranger", &text.replace("\"token\":\"", "\"token\":\"not-"));
    let refused = run(&["top", "--kubeconfig", stranger.to_str().unwrap()]).await.failed(1);
    assert!(refused.contains("does not accept your credentials"), "{refused}");
}

#[tokio::test]
async fn credentials_of_an_exec_plugin_are_taken_and_a_proxy_is_refused_by_name() {
    let scene = Scene::new().await;
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&scene.kubeconfig).unwrap()).unwrap();
    let token = config["users"][0]["user"]["token"].clone();
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                            "status": {"token": token}});
    config["users"][0]["user"] = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh",
        "args": ["-c", "printf %s \"$CREDENTIAL\""], "env": [{"name": "CREDENTIAL", "value": credential.to_string()}],
        "interactiveMode": "Never"}});
    let dir = signalbox_testkit::TempDir::new("kubeconfigs");
    let exec = dir.write("exec", &config.to_string());
    let table = run(&["top", "-n", &scene.namespace.name, "--kubeconfig", exec.to_str().unwrap()]).await.ok();
    assert!(table.contains("hello    greeter"), "{table}");

    config["users"][0]["user"]["exec"]["args"] = json!(["-c", "exit 3"]);
    let failing = dir.write("failing", &config.to_string());
    let refused = run(&["top", "--kubeconfig", failing.to_str().unwrap()]).await.failed(1);
    assert!(refused.contains("auth exec command"), "{refused}");
    config["clusters"][0]["cluster"]["proxy-url"] = json!("http://127.0.0.1:9");
    let proxied = dir.write("proxied", &config.to_string());
    let refused = run(&["top", "--kubeconfig", proxied.to_str().unwrap()]).await.failed(1);
    assert!(refused.contains("proxy"), "{refused}");
}

#[tokio::test]
async fn logs_come_from_the_pod_and_from_the_status_once_it_is_gone_with_a_played_launcher_and_kubelet() {
    let scene = Scene::new().await;
    let (client, namespace) = (scene.client(), scene.namespace.name.clone());
    let node = kubelet::Node::start(scene.namespace.plane()).await;
    scene.agent("a").await;
    let early = scene.cli(&["logs", "a"]).await.failed(1);
    assert!(early.contains("has printed nothing that is still there: it is Pending"), "{early}");
    let pod = scene.play_start("a").await.name_any();
    node.take(&namespace, &pod).await;
    node.set_log(&namespace, &pod, "agent", "{\"type\":\"result\",\"result\":\"Done.\"}\nplain \u{1b}[31m\n");
    kubelet::run_pod(&client, &namespace, &pod).await;
    let raw = scene.cli(&["logs", "a"]).await.ok();
    assert_eq!(raw, "{\"type\":\"result\",\"result\":\"Done.\"}\nplain \u{1b}[31m\n", "not a terminal: as it is");
    let pretty = scene.cli(&["logs", "a", "--pretty"]).await.ok();
    assert_eq!(pretty, "result  Done.\n        plain  [31m\n");

    kubelet::end_pod(&client, &namespace, &pod, 0).await;
    scene.play_end("a", 0, "from the status\n").await;
    kubelet::remove_pod(&client, &namespace, &pod).await;
    assert_eq!(scene.cli(&["logs", "a"]).await.ok(), "from the status\n");
    let missing = scene.cli(&["logs", "b"]).await.failed(1);
    let expected = format!(
        "error: agent \"b\" in namespace \"{namespace}\" is not there; `kubectl get agents -n {namespace}` lists those that are\n"
    );
    assert_eq!(missing, expected);
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_the_program_without_a_word() {
    let scene = Scene::new().await;
    scene.agent_with("a", json!({"phase": "Succeeded", "exitCode": 0, "output": "line\n".repeat(40_000)})).await;
    let kubeconfig = scene.kubeconfig.to_str().unwrap();
    let mut command = command(&["logs", "a", "-n", &scene.namespace.name, "--kubeconfig", kubeconfig]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(141), ""));
}

#[tokio::test]
async fn cancel_asks_for_the_end_and_refuses_what_has_ended() {
    let scene = Scene::new().await;
    scene.agent("a").await;
    scene.agent_with("b", json!({"phase": "Succeeded", "exitCode": 0})).await;
    let ran = scene.cli(&["cancel", "b", "a", "c"]).await;
    assert_eq!(ran.stdout, "agent.agents.re-cinq.com/a cancel requested\n");
    let stderr = ran.failed(1);
    assert!(
        stderr.contains("error: agent \"b\" has ended already (Succeeded): there is nothing to cancel"),
        "{stderr}"
    );
    assert!(stderr.contains("error: agent \"c\" in namespace"), "{stderr}");
    assert!(scene.get("a").await.is_cancel_requested());
    assert!(!scene.get("b").await.is_cancel_requested());
    let again = scene.cli(&["cancel", "a"]).await.ok();
    assert_eq!(again, "agent.agents.re-cinq.com/a cancel was requested before\n");
}

#[tokio::test]
async fn prune_deletes_what_the_limits_do_not_keep_and_only_when_told_to() {
    let scene = Scene::new().await;
    for (name, minute) in [("old", 1), ("older", 0), ("newest", 2)] {
        let at = format!("2026-06-22T12:0{minute}:00Z");
        scene.agent_with(name, json!({"phase": "Succeeded", "exitCode": 0, "completedAt": at})).await;
    }
    scene.agent_with("running", json!({"phase": "Running"})).await;
    let names = async || {
        let agents = scene.namespace.api::<Agent>().list(&ListParams::default()).await.unwrap();
        agents.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    let dry = scene.cli(&["prune", "--dry-run"]).await.ok();
    let rows: Vec<_> = dry.lines().map(|line| line.split("  ").next().unwrap().to_owned()).collect();
    assert_eq!(rows, ["NAME", "old", "older"], "{dry}");
    let list: Value = serde_json::from_str(&scene.cli(&["prune", "--dry-run", "-o", "json"]).await.ok()).unwrap();
    assert_eq!(list[0]["name"], "old");
    let refused = scene.cli(&["prune"]).await.failed(1);
    assert!(refused.contains("nothing was deleted: there is no terminal to ask on; give --yes"), "{refused}");
    assert_eq!(names().await, ["newest", "old", "older", "running"]);

    let deleted = scene.cli(&["prune", "--yes"]).await.ok();
    assert!(
        deleted.ends_with("agent.agents.re-cinq.com \"old\" deleted\nagent.agents.re-cinq.com \"older\" deleted\n"),
        "{deleted}"
    );
    assert_eq!(names().await, ["newest", "running"]);
    let ran = scene.cli(&["prune", "--yes"]).await;
    assert_eq!((ran.code, ran.stderr), (Some(0), format!("Nothing to prune in {} namespace.\n", scene.namespace.name)));
}

#[tokio::test]
async fn top_shows_this_namespace_or_all_and_numbers_for_programs() {
    let scene = Scene::new().await;
    let usage = json!({"inputTokens": 1500, "outputTokens": 20, "costUSD": 0.5});
    scene.agent_with("a", json!({"phase": "Succeeded", "exitCode": 0, "usage": usage})).await;
    scene.agent("b").await;
    let table = scene.cli(&["top"]).await.ok();
    let lines: Vec<_> = table.lines().collect();
    let header = "STATION  RECIPE   POLICY  LIMIT  PENDING  WAIT  RUNNING  SUCCEEDED  FAILED  INPUT  OUTPUT  COST";
    assert_eq!(lines[0], header);
    assert!(lines[1].starts_with("hello    greeter  Allow   2      1"), "{table}");
    assert!(lines[1].ends_with("0        1          0       1,500  20      $0.50"), "{table}");
    let kubeconfig = scene.kubeconfig.to_str().unwrap();
    let all = run(&["top", "-A", "--kubeconfig", kubeconfig]).await.ok();
    assert!(all.lines().any(|line| line.starts_with(&format!("{}  hello", scene.namespace.name))), "{all}");
    let top: Value = serde_json::from_str(&scene.cli(&["top", "-o", "json"]).await.ok()).unwrap();
    assert_eq!(top["stations"][0]["costUSD"], 0.5);
    assert_eq!(top["total"]["pending"], 1);
}

#[tokio::test]
async fn top_w_prints_anew_at_a_change_where_nobody_looks_at_a_terminal() {
    let scene = Scene::new().await;
    let cli = scene.start(&["top", "-w"]);
    cli.shows("hello    greeter  Allow   2      0").await;
    scene.agent_with("a", json!({"phase": "Running"})).await;
    cli.shows("\n\nSTATION").await;
    cli.shows("-     1        0").await;
    cli.interrupt();
    let stdout = cli.end().await.ok();
    assert!(!stdout.contains('\u{1b}'), "{stdout:?}");
}

#[tokio::test]
async fn explain_names_what_the_pod_waits_for_with_a_played_launcher_and_kubelet() {
    let scene = Scene::new().await;
    scene.agent("a").await;
    let pod = scene.play_start("a").await.name_any();
    let message = "secret \"agent-secrets\" not found";
    let reason = "CreateContainerConfigError";
    kubelet::block_pod(&scene.client(), &scene.namespace.name, &pod, reason, message).await;
    let event = |name: &str, uid: &str| {
        json!({"metadata": {"name": name}, "type": "Warning", "reason": "Failed", "message": format!("{name} says so"),
               "involvedObject": {"kind": "Pod", "name": pod, "namespace": scene.namespace.name, "uid": uid},
               "lastTimestamp": "2026-06-22T12:00:00Z", "count": 3})
    };
    let uid = scene.namespace.api::<Pod>().get(&pod).await.unwrap().metadata.uid.unwrap();
    let _: Event = scene.create(event("this-pod", &uid)).await;
    let _: Event = scene.create(event("its-predecessor", "another-uid")).await;
    let page = scene.cli(&["explain", "a"]).await.ok();
    assert!(page.contains("this-pod says so") && !page.contains("its-predecessor"), "{page}");
    for line in [
        "Phase       Running",
        "Station     hello: 2 at a time (Allow), deadline 30m",
        "Recipe      greeter: model exec, interactive",
        "Queue       0 of 2 slots are taken by others",
        "Job         agent-job-a: running",
        &format!("  agent     waits, {reason}: {message}"),
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line} is not in\n{page}");
    }
    assert!(
        page.trim_end().lines().last().unwrap().starts_with("What to do: put the key that the message names"),
        "{page}"
    );
    let yaml: Value = serde_saphyr::from_str(&scene.cli(&["explain", "a", "-o", "yaml"]).await.ok()).unwrap();
    assert_eq!(yaml["pod"]["waiting"][0]["reason"], reason);
}

#[tokio::test]
async fn version_and_completion_need_no_cluster() {
    assert_eq!(run(&["version"]).await.ok(), format!("Client Version: v{}\n", env!("CARGO_PKG_VERSION")));
    let json: Value = serde_json::from_str(&run(&["version", "-o", "json"]).await.ok()).unwrap();
    assert_eq!(json["clientVersion"], concat!("v", env!("CARGO_PKG_VERSION")));
    for (shell, word) in
        [("bash", "complete -F"), ("zsh", "#compdef kubectl-signalbox"), ("fish", "complete -c kubectl-signalbox")]
    {
        let script = run(&["completion", shell]).await.ok();
        assert!(script.contains(word) && script.contains("explain"), "{script}");
    }
    // bash at least is there to say whether it is one.
    let script = run(&["completion", "bash"]).await.ok();
    let checked = std::process::Command::new("bash").args(["-n", "-c", &script]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[tokio::test]
async fn kubectl_has_it_as_a_plugin_with_its_arguments_and_exit_codes_with_a_played_launcher() {
    let scene = Scene::new().await;
    let kubectl = async |args: &[&str]| {
        let mut command = tokio::process::Command::new(program("kubectl"));
        command.args(args).args(["-n", &scene.namespace.name, "--kubeconfig", scene.kubeconfig.to_str().unwrap()]);
        command.env_clear().env("PATH", std::path::Path::new(EXE).parent().unwrap()).kill_on_drop(true);
        tokio::time::timeout(LIMIT, command.output()).await.unwrap().unwrap()
    };
    let output = kubectl(&["signalbox", "run", "hello", "--name", "a", "--set", "name=Ada", "--set", "text=x"]).await;
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "agent.agents.re-cinq.com/a created\n");
    scene.play_end("a", 7, "").await;
    assert_eq!(kubectl(&["signalbox", "logs", "-f", "a"]).await.status.code(), Some(7));
}
