//! How runs end. The kubelet, and where it says so the Job controller, is played.

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::ResourceExt;
use signalbox_testkit::{eventually, kubelet, wait_for};
use signalbox_types::{
    AgentStatus, Phase, Watched,
    bus::{Change, change_subject},
};

use crate::{
    runs::{
        NO_OUTPUT, SERVICE, agent, describe, end, in_phase, jobs_created, launcher, played_job, pod_of,
        running_on_a_node, world,
    },
    world::{LIMIT, World},
};

#[tokio::test]
async fn case_1_an_agent_without_a_status_runs_to_its_end_with_its_output_when_we_play_the_kubelet() {
    let world = world().await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    assert_eq!(agent(&world, "other").await.status, None);
    let (node, pod) = running_on_a_node(&world).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    kubelet::run_pod(&client, namespace, &pod).await;
    node.set_log(namespace, &pod, "agent", "one\ntwo\n");
    kubelet::end_pod(&client, namespace, &pod, 0).await;
    let status = in_phase(&world, "run", Phase::Succeeded).await.status.unwrap();
    assert_eq!(
        (status.output.as_deref(), status.failure_reason, status.exit_code),
        (Some("one\ntwo\n"), None, Some(0))
    );
    assert_eq!(status.job_name.as_deref(), Some("agent-job-run"));
    assert!(status.started_at.unwrap() <= status.completed_at.unwrap());
    in_phase(&world, "other", Phase::Running).await;
    let count = "controller_runs_completed_total{exit_code=\"0\",phase=\"Succeeded\"}";
    eventually("it is counted", LIMIT, || async { launcher.metric(count) == Some(1.0) }).await;
    let queued = "controller_run_queue_seconds_count";
    eventually("both starts are counted", LIMIT, || async { launcher.metric(queued) == Some(2.0) }).await;
    assert_eq!(launcher.metric("controller_jobs_created_total"), Some(2.0));
    assert_eq!(launcher.metric("controller_run_duration_seconds_count{phase=\"Succeeded\"}"), Some(1.0));
}

#[tokio::test]
async fn a_run_that_fails_keeps_its_code_its_reason_and_its_output_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    let (node, pod) = running_on_a_node(&world).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    node.set_log(namespace, &pod, "agent", "no such file\n");
    kubelet::end_pod(&client, namespace, &pod, 3).await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    assert_eq!((status.output.as_deref(), status.exit_code), (Some("no such file\n"), Some(3)));
    let reason = status.failure_reason.unwrap();
    assert!(reason.starts_with("BackoffLimitExceeded: "), "{reason}");
}

#[tokio::test]
async fn case_37_an_agent_that_ran_out_of_memory_has_code_137_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let (client, pod) = (world.namespace.plane().client(), pod_of(&world, "run").await);
    kubelet::end_pod_with(&client, &world.namespace.name, &pod, 137, "OOMKilled").await;
    assert_eq!(in_phase(&world, "run", Phase::Failed).await.status.unwrap().exit_code, Some(137));
}

#[tokio::test]
async fn case_38_a_failed_initializer_gives_its_code_and_its_log_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    let (node, pod) = running_on_a_node(&world).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    node.set_log(namespace, &pod, "init", "repository not found\n");
    kubelet::fail_init(&client, namespace, &pod, 128).await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    assert_eq!((status.output.as_deref(), status.exit_code), (Some("repository not found\n"), Some(128)));
}

#[tokio::test]
async fn case_41_of_a_long_log_the_end_is_kept_in_whole_characters_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    let (node, pod) = running_on_a_node(&world).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    // 5 MiB of three bytes a character: the limit of 262144 bytes falls into one.
    let log = "\u{20ac}".repeat(5 * 1024 * 1024 / 3);
    node.set_log(namespace, &pod, "agent", log.clone());
    kubelet::end_pod(&client, namespace, &pod, 0).await;
    let output = in_phase(&world, "run", Phase::Succeeded).await.status.unwrap().output.unwrap();
    let kept = 262_144 / 3 * 3;
    let marker = format!("...[truncated {} bytes]...\n", log.len() - kept);
    let (head, tail) = output.split_at(marker.len());
    assert_eq!((head, tail.len()), (marker.as_str(), kept));
    assert!(tail.chars().all(|char| char == '\u{20ac}'));
}

/// Ends a run and takes its pod away before any launcher looks.
async fn ended_without_a_pod(code: i32) -> (World, AgentStatus) {
    let world = world().await;
    let _watcher = world.watcher().await;
    let first = launcher(&world).await;
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    first.stop().await;
    end(&world, "run", code).await;
    let jobs = world.namespace.api::<Job>();
    wait_for("the Job has ended", LIMIT, || async {
        let status = jobs.get("agent-job-run").await.unwrap().status;
        let ended = |kind: &str| kind == "Complete" || kind == "Failed";
        let conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        if conditions.into_iter().any(|condition| ended(&condition.type_)) { Ok(()) } else { Err(status) }
    })
    .await;
    let (client, pod) = (world.namespace.plane().client(), pod_of(&world, "run").await);
    kubelet::remove_pod(&client, &world.namespace.name, &pod).await;
    let second = launcher(&world).await;
    let wanted = if code == 0 { Phase::Succeeded } else { Phase::Failed };
    let status = in_phase(&world, "run", wanted).await.status.unwrap();
    second.stop().await;
    (world, status)
}

#[tokio::test]
async fn case_32_a_run_whose_pod_is_gone_succeeds_and_says_that_its_output_is_lost_when_we_play_the_kubelet() {
    let (world, status) = ended_without_a_pod(0).await;
    assert_eq!((status.exit_code, status.output.as_deref()), (Some(0), Some("")));
    assert_eq!(status.failure_reason.as_deref(), Some(NO_OUTPUT));
    assert_eq!(jobs_created(&world).await, 1);
}

#[tokio::test]
async fn case_33_a_failed_run_whose_pod_is_gone_keeps_the_reason_of_its_job_when_we_play_the_kubelet() {
    let (_world, status) = ended_without_a_pod(7).await;
    assert_eq!((status.exit_code, status.output.as_deref()), (Some(1), Some("")));
    let reason = status.failure_reason.unwrap();
    assert!(reason.starts_with("BackoffLimitExceeded: "), "{reason}");
}

#[tokio::test]
async fn case_34_a_pod_that_goes_before_its_log_is_read_leaves_no_run_stuck_when_we_play_the_controllers() {
    let world = world().await;
    let run = agent(&world, "run").await;
    played_job(&world, &run).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    let pod = kubelet::make_pod(&client, namespace, "agent-job-run").await.name_any();
    kubelet::end_pod(&client, namespace, &pod, 0).await;
    let watcher = world.watcher().await;
    // What this launcher holds after its first LIST has the pod, and the pod has ended.
    let launcher = launcher(&world).await;
    in_phase(&world, "run", Phase::Running).await;
    // Without a watcher nobody tells the launcher of the pod's end, and the test tells it of the Job's.
    watcher.stop().await;
    kubelet::remove_pod(&client, namespace, &pod).await;
    kubelet::succeed_job(&client, namespace, "agent-job-run").await;
    let job = world.namespace.api::<Job>().get("agent-job-run").await.unwrap();
    let bus = world.bus().await;
    bus.publish(change_subject(Job::KIND), Change::Applied(job).encode().unwrap().into()).await.unwrap();
    let status = in_phase(&world, "run", Phase::Succeeded).await.status.unwrap();
    assert_eq!((status.exit_code, status.failure_reason.as_deref()), (Some(0), Some(NO_OUTPUT)));
    let requests = world.requests(SERVICE).await;
    let log: Vec<_> =
        requests.iter().filter(|event| describe(event) == "get pods/log").map(|event| event.code).collect();
    assert_eq!(log, [404], "it was listed and is gone");
    launcher.stop().await;
}

/// A run whose Job ends as told, whatever its container's code is.
async fn ended_as_told(code: i32, end_job: JobEnd) -> AgentStatus {
    let world = world().await;
    let run = agent(&world, "run").await;
    played_job(&world, &run).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    let pod = kubelet::make_pod(&client, namespace, "agent-job-run").await.name_any();
    let _services = (world.watcher().await, launcher(&world).await);
    in_phase(&world, "run", Phase::Running).await;
    kubelet::end_pod(&client, namespace, &pod, code).await;
    let phase = match end_job {
        JobEnd::Complete => {
            kubelet::succeed_job(&client, namespace, "agent-job-run").await;
            Phase::Succeeded
        }
        JobEnd::Failed => {
            let message = "Job was active longer than specified deadline";
            kubelet::fail_job(&client, namespace, "agent-job-run", "DeadlineExceeded", message).await;
            Phase::Failed
        }
    };
    in_phase(&world, "run", phase).await.status.unwrap()
}

enum JobEnd {
    Complete,
    Failed,
}

#[tokio::test]
async fn case_35_a_failed_job_whose_container_reads_0_has_code_1_when_we_play_the_controllers() {
    let status = ended_as_told(0, JobEnd::Failed).await;
    let reason = "DeadlineExceeded: Job was active longer than specified deadline";
    assert_eq!((status.exit_code, status.failure_reason.as_deref()), (Some(1), Some(reason)));
}

#[tokio::test]
async fn case_36_a_complete_job_whose_container_reads_137_has_code_0_when_we_play_the_controllers() {
    let status = ended_as_told(137, JobEnd::Complete).await;
    assert_eq!((status.exit_code, status.failure_reason), (Some(0), None));
}

#[tokio::test]
async fn case_76_the_code_of_a_pod_that_is_gone_before_its_job_has_failed_is_kept_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    let (_node, pod) = running_on_a_node(&world).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    // Its finalizer holds it until the Job controller has counted it; the Job fails only after that.
    kubelet::run_pod(&client, namespace, &pod).await;
    let at_once = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
    world.namespace.api::<Pod>().delete(&pod, &at_once).await.unwrap();
    kubelet::end_pod(&client, namespace, &pod, 143).await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    assert_eq!(status.exit_code, Some(143));
}

#[tokio::test]
async fn what_the_cli_said_of_tokens_and_cost_is_kept_and_counted_when_we_play_the_kubelet() {
    let world = world().await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    let (node, pod) = running_on_a_node(&world).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    let line = serde_json::json!({
        "type": "result", "subtype": "success", "is_error": false, "result": "done", "num_turns": 3, "duration_ms": 1500,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 30, "output_tokens": 7},
        "model_usage_since_last_result": {"claude-opus-5-5": {"inputTokens": 10, "outputTokens": 7, "costUSD": 0.25}},
    });
    node.set_log(namespace, &pod, "agent", format!("hello\n{line}\n"));
    kubelet::end_pod(&client, namespace, &pod, 0).await;
    let usage = in_phase(&world, "run", Phase::Succeeded).await.status.unwrap().usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (Some(42), Some(30), Some(7)));
    assert_eq!((usage.cost_usd, usage.turns, usage.model.as_deref()), (Some(0.25), Some(3), Some("claude-opus-5-5")));
    let count = "controller_run_cost_usd_total{model=\"claude-opus-5-5\"}";
    eventually("it is counted", LIMIT, || async { launcher.metric(count) == Some(0.25) }).await;
    assert_eq!(
        launcher.metric("controller_run_tokens_total{model=\"claude-opus-5-5\",type=\"cached_input\"}"),
        Some(30.0)
    );
}

#[tokio::test]
async fn an_output_that_grows_when_it_is_stored_is_cut_so_that_it_fits_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    let (node, pod) = running_on_a_node(&world).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    // A control character takes six bytes in JSON: 262144 of them are more than etcd takes.
    node.set_log(namespace, &pod, "agent", "\u{1}".repeat(300_000));
    kubelet::end_pod(&client, namespace, &pod, 0).await;
    let output = in_phase(&world, "run", Phase::Succeeded).await.status.unwrap().output.unwrap();
    let kept = 1024 * 1024 / 6;
    assert_eq!(output, format!("...[truncated {} bytes]...\n{}", 300_000 - kept, "\u{1}".repeat(kept)));
}
