//! Crashes, conflicts and deletes between the start of a run and its end.

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use serde_json::json;
use signalbox_testkit::eventually;
use signalbox_types::{Agent, Phase, names};

use crate::{
    gate::{Act, Gate},
    runs::{
        SERVICE, agent, agent_with, end, get, in_phase, jobs, jobs_created, launcher, launcher_via, patch,
        patch_status, status_patches, world,
    },
    world::{LIMIT, Via},
};

#[tokio::test]
async fn case_28_a_launcher_killed_between_the_job_and_the_status_leaves_a_run_that_the_next_one_adopts() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("POST", "/jobs") { Act::HoldAnswer } else { Act::Pass });
    let exe = env!("CARGO_BIN_EXE_job-launcher");
    let first = world.program(exe, SERVICE, "first", Some(&gate)).await;
    let _watcher = world.watcher().await;
    world.led_by(SERVICE, "first").await;
    agent(&world, "run").await;
    eventually("the Job is there", LIMIT, || async { jobs(&world).await.len() == 1 }).await;
    first.process.kill();
    assert_eq!(get(&world, "run").await.status, None, "the launcher died before it knew");
    world.free_lease(SERVICE).await;
    let second = world.program(exe, SERVICE, "second", None).await;
    let status = in_phase(&world, "run", Phase::Running).await.status.unwrap();
    assert_eq!(status.job_name.as_deref(), Some("agent-job-run"));
    assert_eq!((jobs_created(&world).await, gate.count("POST", "/jobs")), (1, 1));
    assert_eq!(second.metric("controller_jobs_created_total").await, Some(0.0), "it was found, not made");
}

#[tokio::test]
async fn case_29_a_status_patch_that_conflicts_is_computed_anew_and_makes_no_second_job() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("POST", "/jobs") { Act::HoldAnswer } else { Act::Pass });
    let _launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    eventually("the Job is there", LIMIT, || async { jobs(&world).await.len() == 1 }).await;
    // The Agent changes after the launcher has read it and before it writes.
    patch::<Agent>(&world, "run", json!({"metadata": {"labels": {"edited": "yes"}}})).await;
    gate.release();
    let run = in_phase(&world, "run", Phase::Running).await;
    assert_eq!(run.labels()["edited"], "yes");
    assert_eq!((status_patches(&world).await, jobs_created(&world).await), (vec![409, 200], 1));
}

#[tokio::test]
async fn a_job_create_without_an_answer_makes_no_second_job() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    // Never released before the launcher gives up waiting: the outcome is unknown to it.
    let mut first = true;
    gate.rule(move |asked| match asked.is("POST", "/jobs") && std::mem::take(&mut first) {
        true => Act::HoldAnswer,
        false => Act::Pass,
    });
    let _launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    assert_eq!((jobs_created(&world).await, gate.count("POST", "/jobs")), (1, 1));
}

#[tokio::test]
async fn case_30_and_fix_125_a_running_run_without_a_job_name_is_followed_by_the_derived_one_when_we_play_the_kubelet()
{
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    patch_status(&world, "run", json!({"jobName": ""})).await;
    end(&world, "run", 0).await;
    let status = in_phase(&world, "run", Phase::Succeeded).await.status.unwrap();
    assert_eq!(status.job_name.as_deref(), Some("agent-job-run"));
}

#[tokio::test]
async fn case_31_a_run_whose_job_is_gone_fails_and_says_so() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    world.namespace.api::<Job>().delete("agent-job-run", &Default::default()).await.unwrap();
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    let reason = "run record unavailable: Job garbage-collected before its result was observed";
    assert_eq!(status.failure_reason.as_deref(), Some(reason));
    assert_eq!((status.exit_code, status.output.as_deref()), (Some(1), Some("")));
    assert_eq!(jobs_created(&world).await, 1, "it is not started again");
}

#[tokio::test]
async fn case_44_a_running_run_that_its_user_deletes_takes_its_job_along_and_is_written_no_more() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    world.namespace.api::<Agent>().delete("run", &Default::default()).await.unwrap();
    eventually("the Job is collected", LIMIT, || async { jobs(&world).await.is_empty() }).await;
    // A later run that has begun shows that the messages about the delete have been read.
    agent(&world, "next").await;
    in_phase(&world, "next", Phase::Running).await;
    let requests = world.requests(SERVICE).await;
    let written = requests.iter().filter(|event| event.is_write() && event.name == "run").count();
    assert_eq!((written, jobs_created(&world).await), (1, 2), "its start alone was written");
}

#[tokio::test]
async fn case_46_a_finished_run_that_is_edited_costs_no_request_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    end(&world, "run", 0).await;
    in_phase(&world, "run", Phase::Succeeded).await;
    let edited = patch::<Agent>(&world, "run", json!({"metadata": {"labels": {"edited": "yes"}}})).await;
    let since = jiff::Timestamp::now();
    agent(&world, "next").await;
    in_phase(&world, "next", Phase::Running).await;
    let requests = world.requests(SERVICE).await;
    let about: Vec<_> = requests.iter().filter(|event| event.at > since && event.name.contains("run")).collect();
    assert!(about.iter().all(|event| event.name != "run"), "{about:?}");
    assert_eq!(get(&world, "run").await.resource_version(), edited.resource_version());
}

#[tokio::test]
async fn case_28_a_run_whose_job_ended_before_any_status_was_written_is_completed_when_we_play_the_kubelet() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("POST", "/jobs") { Act::HoldAnswer } else { Act::Pass });
    let first = world.program(env!("CARGO_BIN_EXE_job-launcher"), SERVICE, "first", Some(&gate)).await;
    let _watcher = world.watcher().await;
    world.led_by(SERVICE, "first").await;
    agent(&world, "run").await;
    eventually("the Job is there", LIMIT, || async { jobs(&world).await.len() == 1 }).await;
    first.process.kill();
    end(&world, "run", 4).await;
    world.free_lease(SERVICE).await;
    let _second = launcher(&world).await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    assert_eq!((status.exit_code, status.started_at.is_some(), jobs_created(&world).await), (Some(4), true, 1));
}

#[tokio::test]
async fn case_29_an_end_that_conflicts_is_written_once_it_is_computed_anew_when_we_play_the_kubelet() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("GET", "/log") { Act::HoldAnswer } else { Act::Pass });
    let launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    end(&world, "run", 0).await;
    eventually("the log is asked for", LIMIT, || async { gate.count("GET", "/log") == 1 }).await;
    patch::<Agent>(&world, "run", json!({"metadata": {"labels": {"edited": "yes"}}})).await;
    gate.release();
    in_phase(&world, "run", Phase::Succeeded).await;
    assert_eq!(status_patches(&world).await, [200, 409, 200]);
    let count = "controller_runs_completed_total{exit_code=\"0\",phase=\"Succeeded\"}";
    eventually("it is counted once", LIMIT, || async { launcher.metric(count) == Some(1.0) }).await;
}

#[tokio::test]
async fn a_log_that_cannot_be_read_now_is_asked_for_again_and_holds_up_no_other_run_when_we_play_the_kubelet() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| match asked.path.contains("/pods/agent-job-a-") && asked.path.ends_with("/log") {
        true => Act::Answer(500, json!({"kind": "Status", "code": 500, "message": "no kubelet"}).to_string()),
        false => Act::Pass,
    });
    let _launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    for name in ["a", "b"] {
        agent(&world, name).await;
        end(&world, name, 0).await;
    }
    in_phase(&world, "b", Phase::Succeeded).await;
    eventually("it asks twice", LIMIT, || async { gate.count("GET", "/log") >= 3 }).await;
    assert_eq!(get(&world, "a").await.phase(), Phase::Running);
    gate.release();
    in_phase(&world, "a", Phase::Succeeded).await;
}

#[tokio::test]
async fn case_100_of_a_run_that_is_deleted_the_claim_is_released_and_a_foreign_finalizer_stays() {
    let world = world().await;
    let finalizers = json!(["example.com/theirs", names::FINALIZER_BATCH]);
    agent_with(&world, "run", json!({"metadata": {"finalizers": finalizers}})).await;
    patch_status(&world, "run", json!({"phase": "Running", "batchId": "batch_1", "batchProvider": "openai"})).await;
    world.namespace.api::<Agent>().delete("run", &Default::default()).await.unwrap();
    let _services = (launcher(&world).await, world.watcher().await);
    eventually("the claim is released", LIMIT, || async {
        get(&world, "run").await.finalizers() == ["example.com/theirs".to_owned()]
    })
    .await;
    patch::<Agent>(&world, "run", json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(jobs_created(&world).await, 0);
}
