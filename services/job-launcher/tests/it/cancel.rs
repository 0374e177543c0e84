//! Runs that somebody asks to end.

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Value, json};
use signalbox_testkit::{eventually, kubelet};
use signalbox_types::{Agent, AgentStatus, Phase};

use crate::{
    gate::{Act, Gate},
    runs::{
        SERVICE, agent, agent_with, end, in_phase, jobs, jobs_created, launcher, launcher_via, patch,
        running_on_a_node, world, world_with,
    },
    world::{LIMIT, Via, World},
};

fn request() -> Value {
    json!({"metadata": {"annotations": {"agents.re-cinq.com/cancel": "true"}}})
}

async fn canceled(world: &World, name: &str) -> AgentStatus {
    let status = in_phase(world, name, Phase::Failed).await.status.unwrap();
    assert_eq!((status.failure_reason.as_deref(), status.exit_code), (Some("canceled"), Some(1)));
    assert_eq!(status.condition("Finished").unwrap().reason, "Canceled");
    status
}

#[tokio::test]
async fn a_running_run_that_is_canceled_ends_with_what_it_has_printed_when_we_play_the_kubelet() {
    let world = world().await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    let (_node, _) = printed_half(&world).await;
    patch::<Agent>(&world, "run", request()).await;
    assert_eq!(canceled(&world, "run").await.output.as_deref(), Some("half of it\n"));
    eventually("the Job is gone", LIMIT, || async { jobs(&world).await.is_empty() }).await;
    let count = "controller_run_failures_total{kind=\"canceled\"}";
    eventually("it is counted", LIMIT, || async { launcher.metric(count) == Some(1.0) }).await;
    assert_eq!(jobs_created(&world).await, 1);
}

#[tokio::test]
async fn a_waiting_run_that_is_canceled_never_starts_and_lets_the_next_one_pass_when_we_play_the_kubelet() {
    let world = world_with(json!({"maxConcurrentRuns": 1})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    agent(&world, "b").await;
    agent(&world, "c").await;
    patch::<Agent>(&world, "b", request()).await;
    let status = canceled(&world, "b").await;
    assert_eq!((status.job_name, status.output), (None, None));
    end(&world, "a", 0).await;
    in_phase(&world, "c", Phase::Running).await;
    assert_eq!(jobs_created(&world).await, 2);
}

#[tokio::test]
async fn a_run_that_is_made_canceled_never_starts() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent_with(&world, "run", request()).await;
    canceled(&world, "run").await;
    assert_eq!(jobs_created(&world).await, 0);
}

#[tokio::test]
async fn any_other_value_of_the_annotation_cancels_nothing_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent_with(&world, "run", json!({"metadata": {"annotations": {"agents.re-cinq.com/cancel": "false"}}})).await;
    end(&world, "run", 0).await;
    in_phase(&world, "run", Phase::Succeeded).await;
}

#[tokio::test]
async fn a_launcher_killed_between_the_jobs_delete_and_the_status_leaves_a_run_that_the_next_one_calls_canceled() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("DELETE", "/agent-job-run") { Act::HoldAnswer } else { Act::Pass });
    let exe = env!("CARGO_BIN_EXE_job-launcher");
    let first = world.program(exe, SERVICE, "first", Some(&gate)).await;
    let _watcher = world.watcher().await;
    world.led_by(SERVICE, "first").await;
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    patch::<Agent>(&world, "run", request()).await;
    eventually("the Job is gone", LIMIT, || async { jobs(&world).await.is_empty() }).await;
    first.process.kill();
    assert_eq!(crate::runs::get(&world, "run").await.phase(), Phase::Running, "the launcher died before it knew");
    world.free_lease(SERVICE).await;
    let _second = world.program(exe, SERVICE, "second", None).await;
    canceled(&world, "run").await;
    assert_eq!(jobs_created(&world).await, 1, "it is not started again");
}

#[tokio::test]
async fn an_edit_between_the_jobs_delete_and_the_status_does_not_cost_the_run_its_output_when_we_play_the_kubelet() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("DELETE", "/agent-job-run") { Act::HoldAnswer } else { Act::Pass });
    let _launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    let (_node, _) = printed_half(&world).await;
    patch::<Agent>(&world, "run", request()).await;
    eventually("the Job is gone", LIMIT, || async { jobs(&world).await.is_empty() }).await;
    patch::<Agent>(&world, "run", json!({"metadata": {"labels": {"edited": "yes"}}})).await;
    gate.release();
    assert_eq!(canceled(&world, "run").await.output.as_deref(), Some("half of it\n"));
}

#[tokio::test]
async fn a_run_that_ends_while_it_is_being_canceled_keeps_its_own_end_when_we_play_the_kubelet() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("GET", "/log") { Act::HoldAnswer } else { Act::Pass });
    let _launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    let (_node, pod) = printed_half(&world).await;
    patch::<Agent>(&world, "run", request()).await;
    eventually("the log is asked for", LIMIT, || async { gate.count("GET", "/log") == 1 }).await;
    kubelet::end_pod(&world.namespace.plane().client(), &world.namespace.name, &pod, 0).await;
    let api = world.namespace.api::<Job>();
    eventually("the Job is complete", LIMIT, || async {
        api.get("agent-job-run").await.unwrap().status.is_some_and(|status| status.succeeded == Some(1))
    })
    .await;
    gate.release();
    let status = in_phase(&world, "run", Phase::Succeeded).await.status.unwrap();
    assert_eq!((status.exit_code, status.failure_reason), (Some(0), None));
}

/// A run that has printed something and goes on, on a node that we play.
async fn printed_half(world: &World) -> (kubelet::Node, String) {
    let (node, pod) = running_on_a_node(world).await;
    let (client, namespace) = (world.namespace.plane().client(), &world.namespace.name);
    kubelet::run_pod(&client, namespace, &pod).await;
    node.set_log(namespace, &pod, "agent", "half of it\n");
    (node, pod)
}
