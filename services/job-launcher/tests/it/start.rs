//! From Pending to Running, and what keeps a run from it.

use k8s_openapi::api::{batch::v1::Job, core::v1::ResourceQuota};
use kube::{ResourceExt, api::PostParams};
use serde_json::json;
use signalbox_testkit::{eventually, kubelet, wait_for};
use signalbox_types::{
    Agent, Phase, Station,
    bus::{Change, change_subject},
    names,
};

use crate::{
    gate::{Act, Gate},
    runs::{
        SERVICE, agent, agent_with, describe, end, get, in_phase, jobs, jobs_created, launcher, launcher_via, patch,
        pod_of, requested, station, world, world_with,
    },
    world::{LIMIT, Via, World},
};

#[tokio::test]
async fn case_2_a_run_without_its_station_fails_and_gets_no_job() {
    let world = World::new().await;
    let (_watcher, launcher) = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    assert_eq!(status.failure_reason.as_deref(), Some("Station or AgentDefinition not found"));
    assert_eq!((status.exit_code, status.started_at, status.job_name), (Some(1), None, None));
    assert!(status.completed_at.is_some());
    assert_eq!(jobs(&world).await, [""; 0]);
    let count = "controller_runs_completed_total{exit_code=\"1\",phase=\"Failed\"}";
    eventually("it is counted", LIMIT, || async { launcher.metric(count) == Some(1.0) }).await;
    assert_eq!(launcher.metric("controller_run_failures_total{kind=\"missing_ref\"}"), Some(1.0));
    assert_eq!(launcher.metric("controller_run_duration_seconds_count{phase=\"Failed\"}"), None, "it never ran");
}

#[tokio::test]
async fn case_3_a_run_whose_recipe_is_missing_fails_with_the_same_words() {
    let world = World::new().await;
    station(&world, "station", json!({})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    assert_eq!(status.failure_reason.as_deref(), Some("Station or AgentDefinition not found"));
    assert_eq!((status.exit_code, jobs(&world).await.len()), (Some(1), 0));
}

#[tokio::test]
async fn case_4_a_late_message_about_a_run_that_is_gone_starts_nothing() {
    let world = world().await;
    let launcher = launcher(&world).await;
    launcher.works().await;
    let mut stale = agent(&world, "run").await;
    // Nobody has told the launcher: no watcher is there. Now the run finishes and is pruned.
    world.namespace.api::<Agent>().delete("run", &Default::default()).await.unwrap();
    stale.status = None;
    let bus = world.bus().await;
    let body = Change::Applied(stale).encode().unwrap();
    bus.publish(change_subject("agents"), body.into()).await.unwrap();
    let seen = requested(&world, "it looks", |event| describe(event) == "get agents" && event.name == "run").await;
    assert_eq!(seen.code, 404);
    // What is started after it shows that the launcher has gone on.
    let next = agent(&world, "next").await;
    bus.publish(change_subject("agents"), Change::Applied(next).encode().unwrap().into()).await.unwrap();
    in_phase(&world, "next", Phase::Running).await;
    assert_eq!((jobs(&world).await, jobs_created(&world).await), (vec!["agent-job-next".to_owned()], 1));
}

#[tokio::test]
async fn case_5_a_station_that_cannot_be_read_leaves_the_run_pending_and_counts_an_error() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| match asked.is("GET", "/stations/station") {
        true => Act::Answer(500, json!({"kind": "Status", "code": 500, "message": "etcd is away"}).to_string()),
        false => Act::Pass,
    });
    let launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    let errors = "controller_reconciles_total{result=\"error\"}";
    eventually("two errors", LIMIT, || async { launcher.metric(errors).is_some_and(|count| count >= 2.0) }).await;
    assert_eq!(get(&world, "run").await.status, None, "nothing was written");
    gate.release();
    in_phase(&world, "run", Phase::Running).await;
    assert_eq!(jobs_created(&world).await, 1);
}

#[tokio::test]
async fn case_6_a_template_without_a_container_agent_fails_the_run_with_its_reason() {
    let world = world_with(json!({"template": {"spec": {"containers": [{"name": "other", "image": "played"}]}}})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    let reason = "invalid run: Station template has no container named 'agent'";
    assert_eq!((status.failure_reason.as_deref(), status.exit_code), (Some(reason), Some(1)));
    assert_eq!(jobs_created(&world).await, 0);
}

#[tokio::test]
async fn case_19_an_agent_with_the_longest_name_gets_its_job_and_pod_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    let name = format!("{}a.{}", "a.b-".repeat(60), "c".repeat(11));
    assert_eq!(name.len(), 253);
    agent(&world, &name).await;
    let job = in_phase(&world, &name, Phase::Running).await.status.unwrap().job_name.unwrap();
    assert!(job.len() <= 63 && job.starts_with("agent-job-a.b-"), "{job}");
    end(&world, &name, 0).await;
    in_phase(&world, &name, Phase::Succeeded).await;
    assert_eq!(jobs_created(&world).await, 1);
}

#[tokio::test]
async fn case_23_a_secret_that_is_not_there_ends_the_run_at_its_deadline_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let (client, pod) = (world.namespace.plane().client(), pod_of(&world, "run").await);
    let message = "couldn't find key KEY in Secret agent-secrets";
    kubelet::block_pod(&client, &world.namespace.name, &pod, "CreateContainerConfigError", message).await;
    in_phase(&world, "run", Phase::Running).await;
    // The shortest deadline of a Station is a minute: brought forward here.
    patch::<Job>(&world, "agent-job-run", json!({"spec": {"activeDeadlineSeconds": 1}})).await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    let reason = status.failure_reason.unwrap();
    assert!(reason.starts_with("DeadlineExceeded: "), "{reason}");
    assert_eq!((status.exit_code, status.output.as_deref()), (Some(1), Some("")));
}

#[tokio::test]
async fn case_24_a_job_of_our_name_that_is_the_runs_own_is_taken_as_created() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("POST", "/jobs") { Act::Twice } else { Act::Pass });
    let launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    let status = in_phase(&world, "run", Phase::Running).await.status.unwrap();
    assert_eq!(status.job_name.as_deref(), Some("agent-job-run"));
    let codes: Vec<_> =
        world.requests(SERVICE).await.into_iter().filter(|event| describe(event) == "create jobs").collect();
    assert_eq!(codes.iter().map(|event| event.code).collect::<Vec<_>>(), [201, 409]);
    assert_eq!(launcher.metric("controller_jobs_created_total"), Some(0.0), "the direct answer was a 409");
}

/// Waits until a Pending Agent says why it is not started.
async fn kept_from_starting(world: &World, name: &str, reason: &str) {
    wait_for(&format!("{name}: {reason}"), LIMIT, || async {
        let agent = get(world, name).await;
        assert_eq!((agent.phase(), agent.recorded_job()), (Phase::Pending, None));
        let status = agent.status.clone().unwrap_or_default();
        let told = status.condition("Started").is_some_and(|held| held.reason == reason && held.status == "False");
        if told { Ok(()) } else { Err(status) }
    })
    .await;
}

#[tokio::test]
async fn case_25_a_job_of_our_name_that_is_anothers_keeps_the_run_pending_until_it_is_gone() {
    let world = world().await;
    let foreign = json!({
        "metadata": {"name": "agent-job-run", "labels": {"agents.re-cinq.com/component": "job"}},
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "agent", "image": "played"}],
        }}},
    });
    let foreign: Job = serde_json::from_value(foreign).unwrap();
    world.namespace.api::<Job>().create(&PostParams::default(), &foreign).await.unwrap();
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    let errors = "controller_reconciles_total{result=\"error\"}";
    eventually("two errors", LIMIT, || async { launcher.metric(errors).is_some_and(|count| count >= 2.0) }).await;
    kept_from_starting(&world, "run", "JobNameTaken").await;
    world.namespace.api::<Job>().delete("agent-job-run", &Default::default()).await.unwrap();
    let run = in_phase(&world, "run", Phase::Running).await;
    assert_eq!(run.status.as_ref().unwrap().condition("Started"), None, "that was of the last try");
    let job = world.namespace.api::<Job>().get("agent-job-run").await.unwrap();
    assert_eq!(job.owner_references()[0].uid, run.uid().unwrap());
}

#[tokio::test]
async fn case_25_a_run_made_anew_under_its_old_name_waits_until_the_old_job_is_collected() {
    let world = world().await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/held"]}});
    patch::<Job>(&world, "agent-job-run", hold).await;
    world.namespace.api::<Agent>().delete("run", &Default::default()).await.unwrap();
    let anew = agent(&world, "run").await;
    let errors = "controller_reconciles_total{result=\"error\"}";
    eventually("an error", LIMIT, || async { launcher.metric(errors).is_some_and(|count| count >= 1.0) }).await;
    kept_from_starting(&world, "run", "JobNameTaken").await;
    patch::<Job>(&world, "agent-job-run", json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(in_phase(&world, "run", Phase::Running).await.uid(), anew.uid());
    let job = world.namespace.api::<Job>().get("agent-job-run").await.unwrap();
    assert_eq!(Some(&job.owner_references()[0].uid), anew.uid().as_ref());
}

#[tokio::test]
async fn case_26_a_quota_keeps_the_run_pending_until_there_is_room() {
    let world = world().await;
    let quota = |jobs: &str| json!({"metadata": {"name": "jobs"}, "spec": {"hard": {"count/jobs.batch": jobs}}});
    let none: ResourceQuota = serde_json::from_value(quota("0")).unwrap();
    world.namespace.api::<ResourceQuota>().create(&PostParams::default(), &none).await.unwrap();
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let refused = requested(&world, "the Job is refused", |event| describe(event) == "create jobs").await;
    assert_eq!(refused.code, 403);
    kept_from_starting(&world, "run", "QuotaExceeded").await;
    patch::<ResourceQuota>(&world, "jobs", quota("5")).await;
    in_phase(&world, "run", Phase::Running).await;
}

#[tokio::test]
async fn case_26_a_run_whose_job_is_refused_lets_younger_ones_pass_when_the_api_server_is_scripted() {
    let world = world_with(json!({"maxConcurrentRuns": 1})).await;
    station(&world, "other", json!({"maxConcurrentRuns": 1})).await;
    let gate = Gate::before(world.namespace.plane()).await;
    // Which of two runs a quota hits cannot be chosen; here it is the oldest, and it is kept from a second try.
    let status = |code: u16| json!({"kind": "Status", "code": code, "message": "exceeded quota"}).to_string();
    let mut refused = false;
    gate.rule(move |asked| {
        if asked.is("POST", "/jobs") && !std::mem::replace(&mut refused, true) {
            return Act::Answer(403, status(403));
        }
        if refused && asked.is("GET", "/agents/a-refused") { Act::Answer(500, status(500)) } else { Act::Pass }
    });
    let launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    launcher.works().await;
    let _watcher = world.watcher().await;
    agent(&world, "a-refused").await;
    eventually("the Job is refused", LIMIT, || async { gate.count("POST", "/jobs") == 1 }).await;
    agent(&world, "b-same-station").await;
    agent_with(&world, "c-other-station", json!({"spec": {"stationRef": "other"}})).await;
    in_phase(&world, "b-same-station", Phase::Running).await;
    in_phase(&world, "c-other-station", Phase::Running).await;
    kept_from_starting(&world, "a-refused", "QuotaExceeded").await;
}

#[tokio::test]
async fn case_26_a_job_that_the_api_server_calls_invalid_fails_the_run_with_its_message() {
    let container = json!({"name": "agent", "image": "played"});
    let bad = json!({"name": "Not_A_Name", "image": "played"});
    let world = world_with(json!({"template": {"spec": {"containers": [container, bad]}}})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    let reason = status.failure_reason.unwrap();
    assert!(reason.starts_with("invalid run: Job.batch \"agent-job-run\" is invalid: "), "{reason}");
    assert_eq!(status.exit_code, Some(1));
}

#[tokio::test]
async fn case_45_a_recipe_and_station_edited_while_a_run_goes_on_leave_its_job_alone_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    let before = world.namespace.api::<Job>().get("agent-job-run").await.unwrap();
    let spec = json!({"spec": {"tool_config": {"command": ["/usr/bin/other"]}}});
    patch::<signalbox_types::AgentDefinition>(&world, "recipe", spec).await;
    let template = json!({"spec": {"containers": [{"name": "none", "image": "other"}]}});
    patch::<Station>(&world, "station", json!({"spec": {"deadlineMinutes": 1, "template": template}})).await;
    // A run that starts now meets the edited Station: its end shows that the launcher has seen the edits.
    agent(&world, "next").await;
    in_phase(&world, "next", Phase::Failed).await;
    let after = world.namespace.api::<Job>().get("agent-job-run").await.unwrap();
    assert_eq!((before.uid(), before.spec), (after.uid(), after.spec));
    end(&world, "run", 0).await;
    in_phase(&world, "run", Phase::Succeeded).await;
    assert_eq!(jobs_created(&world).await, 1);
}

#[tokio::test]
async fn a_job_that_the_api_server_cannot_take_now_is_told_and_tried_again() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    let broken = json!({"kind": "Status", "code": 500, "message": "failed calling webhook \"w\""}).to_string();
    gate.rule(move |asked| if asked.is("POST", "/jobs") { Act::Answer(500, broken.clone()) } else { Act::Pass });
    let _launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    kept_from_starting(&world, "run", "JobCreateFailed").await;
    gate.rule(|_| Act::Pass);
    in_phase(&world, "run", Phase::Running).await;
    assert_eq!(jobs_created(&world).await, 1);
}

#[tokio::test]
async fn a_claim_that_anybody_can_set_is_no_way_past_the_limit_of_a_station() {
    let world = world_with(json!({"maxConcurrentRuns": 1})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    let claimed = json!({"metadata": {"finalizers": [names::FINALIZER_BATCH]}});
    agent_with(&world, "b", claimed).await;
    let status = in_phase(&world, "b", Phase::Failed).await.status.unwrap();
    assert_eq!(status.failure_reason.as_deref(), Some("batch execution is disabled on this controller"));
    assert_eq!(jobs_created(&world).await, 1);
    world.namespace.api::<Agent>().delete("b", &Default::default()).await.unwrap();
    let agents = world.namespace.api::<Agent>();
    eventually("it goes", LIMIT, || async { agents.get_opt("b").await.unwrap().is_none() }).await;
}
