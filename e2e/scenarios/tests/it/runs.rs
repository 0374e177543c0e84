//! One run at a time, from an Agent to its end.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;
use signalbox_testkit::wait_for;
use signalbox_types::{Agent, Phase, names};

use crate::harness::{Request, STEP, Scene, agent_state, ending, lifecycle, output, paused, requests};

#[tokio::test]
async fn a_run_that_succeeds_has_its_output_and_its_times_on_its_agent() {
    let scene = Scene::calm("success").await;
    let agent = scene.run("shell", "echo one; echo two").await;
    let agent = scene.ended(&agent).await;
    assert_eq!(ending(&agent), (Phase::Succeeded, Some(0), String::new()));
    let expected = [
        r#"{"kind":"lifecycle","phase":"agent","status":"started"}"#,
        "one",
        "two",
        r#"{"kind":"lifecycle","phase":"agent","status":"succeeded","exitCode":0}"#,
    ];
    assert_eq!(output(&agent).lines().collect::<Vec<_>>(), expected);
    let status = agent.status.clone().unwrap();
    assert_eq!(status.job_name, Some(names::job_name(&scene.name)));
    assert!(status.started_at.unwrap().seconds_since(status.completed_at.unwrap()) <= 0.0);
    let job = scene.api::<Job>().get(&names::job_name(&scene.name)).await.unwrap();
    assert_eq!(job.owner_references()[0].uid, agent.uid().unwrap());
}

#[tokio::test]
async fn a_run_that_exits_with_3_fails_with_3() {
    let scene = Scene::calm("three").await;
    let agent = scene.run("shell", "echo so far; exit 3").await;
    let agent = scene.ended(&agent).await;
    let (phase, code, reason) = ending(&agent);
    assert_eq!((phase, code), (Phase::Failed, Some(3)));
    assert!(reason.starts_with("BackoffLimitExceeded: "), "{reason}");
    assert_eq!(lifecycle(output(&agent)), ["agent started", "agent failed exit=3"]);
    assert!(output(&agent).contains("so far"));
}

#[tokio::test]
async fn case_02_and_03_a_run_without_its_station_or_recipe_fails_and_has_no_job() {
    let scene = Scene::calm("missing").await;
    scene.station("{agentDefRef: no-such-recipe}");
    let no_station = scene.run_as("-a", "no-such-station", "true").await;
    let no_recipe = scene.run_as("-b", &scene.name, "true").await;
    for agent in [no_station, no_recipe] {
        let ended = scene.ended(&agent).await;
        assert_eq!(ending(&ended), (Phase::Failed, Some(1), names::REASON_MISSING_REF.to_owned()));
        assert!(scene.api::<Job>().get_opt(&names::job_name(&agent)).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn case_12_and_13_dollars_arrive_as_they_were_written() {
    let scene = Scene::calm("dollars").await;
    let text = "$(AGENT_NAME) $$(HOME) $$ ${PATH} `id` {unknown} \\$";
    let agent = scene.run_with("", "say", &[("text", text)]).await;
    let agent = scene.ended(&agent).await;
    let parameters = serde_json::json!({ "text": text });
    let lines: Vec<_> = output(&agent).lines().filter(|line| line.starts_with('<')).collect();
    assert_eq!(lines, [format!("<{text}>"), format!("<{parameters}>")]);
}

#[tokio::test]
async fn case_15_and_16_a_prompt_that_looks_like_an_option_or_is_empty_is_still_one_argument() {
    let scene = Scene::calm("prompts").await;
    let mut agents = Vec::new();
    for (suffix, prompt) in [("-a", "--help"), ("-b", ""), ("-c", "-- --version")] {
        agents.push((scene.run_with(suffix, "say", &[("text", prompt)]).await, prompt));
    }
    for (agent, prompt) in agents {
        let ended = scene.ended(&agent).await;
        assert_eq!(ended.phase(), Phase::Succeeded, "{prompt:?}: {:?}", ended.status);
        // The prompt is $0 of the recipe's script, so nothing is left to be counted.
        assert!(output(&ended).contains(&format!("0 arguments\n<{prompt}>\n")), "{}", output(&ended));
    }
}

#[tokio::test]
async fn case_37_a_run_that_is_killed_for_its_memory_ends_with_137() {
    let scene = Scene::calm("memory").await;
    // Reads one endless line.
    let agent = scene.run("shell", "tail -n 1 /dev/zero").await;
    let agent = scene.ended(&agent).await;
    let (phase, code, reason) = ending(&agent);
    assert_eq!((phase, code), (Phase::Failed, Some(137)), "{reason}");
}

#[tokio::test]
async fn case_38_a_clone_that_fails_ends_the_run_with_128_and_the_initializer_s_log() {
    let scene = Scene::calm("clone").await;
    scene.apply(include_str!("../fixtures/unknown-host.yaml"));
    let agent = scene.run(&scene.name, "echo never").await;
    let agent = scene.ended(&agent).await;
    let (phase, code, reason) = ending(&agent);
    assert_eq!((phase, code), (Phase::Failed, Some(128)), "{reason}");
    let events = lifecycle(output(&agent));
    assert_eq!(events.first().map(String::as_str), Some("init started"), "{}", output(&agent));
    assert_eq!(events.last().map(String::as_str), Some("init failed tool=git exit=128"));
    assert!(!output(&agent).contains("hunter2"), "{}", output(&agent));
}

#[tokio::test]
async fn case_39_a_sidecar_that_ends_is_not_mistaken_for_the_agent() {
    let scene = Scene::calm("sidecar").await;
    let sidecar = "{name: aside, command: [/bin/sh, -c, echo from the sidecar]}";
    scene.station(&format!("{{template: {{spec: {{containers: [{sidecar}, {{name: agent}}]}}}}}}"));
    let agent = scene.run(&scene.name, "echo from the agent").await;
    let agent = scene.ended(&agent).await;
    assert_eq!(ending(&agent), (Phase::Succeeded, Some(0), String::new()));
    assert!(output(&agent).contains("from the agent") && !output(&agent).contains("from the sidecar"));
}

#[tokio::test]
async fn case_44_deleting_a_running_agent_takes_its_job_and_its_pod_away() {
    let scene = Scene::calm("delete").await;
    let agent = scene.run("shell", "echo at work; exec sleep 600").await;
    let pod = scene.at_work(&agent).await.name_any();
    scene.kubectl(&["delete", "agent", &agent]);
    let gone = |what| format!("the {what} to go");
    scene.until(&agent, &gone("Agent"), STEP, |agent: Option<&Agent>| agent.is_none()).await;
    scene.until(&names::job_name(&agent), &gone("Job"), STEP, |job: Option<&Job>| job.is_none()).await;
    scene.until(&pod, &gone("pod"), STEP, |pod: Option<&Pod>| pod.is_none()).await;
    let written = requests(&scene, &agent).into_iter().filter(|request| request.what == "patch agents/status");
    assert_eq!(written.count(), 1, "only its start was written");
}

#[tokio::test]
async fn case_76_a_pod_that_is_deleted_tells_the_agent_which_ends_with_its_own_code() {
    let scene = Scene::calm("sigterm").await;
    let agent = scene.run("shell", "trap 'echo told; exit 7' TERM; echo at work; while :; do sleep 0.1; done").await;
    let pod = scene.at_work(&agent).await.name_any();
    scene.kubectl(&["delete", "pod", &pod, "--wait=false"]);
    let told = scene.until(&pod, "the agent to end", STEP, |pod: Option<&Pod>| {
        agent_state(pod).is_some_and(|state| state.terminated.as_ref().is_some_and(|end| end.exit_code == 7))
    });
    told.await;
    // The pod goes with what it had to tell; the Job says that it failed.
    let (phase, code, reason) = ending(&scene.ended(&agent).await);
    assert_eq!((phase, code), (Phase::Failed, Some(7)));
    assert!(reason.starts_with("BackoffLimitExceeded: "), "{reason}");
}

#[tokio::test]
async fn a_run_costs_seven_requests() {
    let scene = Scene::calm("budget").await;
    scene.apply(include_str!("../fixtures/own-recipe.yaml"));
    let agent = scene.run(&scene.name, "sleep 2").await;
    let ended = scene.ended(&agent).await;
    assert_eq!(ended.phase(), Phase::Succeeded);
    // All five objects bear the name. A watch may tell of the last write before the log has it.
    let is_write = |request: &&Request| request.what == "patch agents/status";
    let mut seen = wait_for("the last write in the log", STEP, || {
        paused(async {
            let seen = requests(&scene, &scene.name);
            if seen.iter().filter(is_write).count() >= 2 { Ok(seen) } else { Err(seen) }
        })
    })
    .await;
    // Events are apart: best effort, and more where it pays to tell more.
    seen.retain(|request| request.what != "create events");
    assert!(seen.iter().all(|request| request.code < 300), "{seen:#?}");
    let refused = requests(&scene, r#""code":403"#);
    assert_eq!(refused, [], "no service ever lacked a right");
    // Where the Store had not heard of the pod's end yet, it is asked for.
    if let Some(at) = seen.iter().position(|request| request.what == "list pods") {
        seen.remove(at);
    }
    let mut seen: Vec<_> = seen.iter().map(|request| format!("{} {}", request.service, request.what)).collect();
    seen.sort();
    let expected = [
        "job-launcher create jobs",
        "job-launcher get agentdefinitions",
        "job-launcher get agents",
        "job-launcher get pods/log",
        "job-launcher get stations",
        "job-launcher patch agents/status",
        "job-launcher patch agents/status",
    ];
    assert_eq!(seen, expected);
}
