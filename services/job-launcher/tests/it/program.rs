//! The program itself: what stops its start, and what only a process of its own can show.

use std::process::{Command, Output};

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use rstest::rstest;
use signalbox_testkit::wait_for;
use signalbox_types::{
    Phase,
    bus::{Change, HEADER_TRACEPARENT, change_subject},
    names,
};

use crate::{
    runs::{SERVICE, agent, in_phase, world},
    world::LIMIT,
};

fn started(name: &str, value: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_job-launcher")).env(name, value).output().unwrap()
}

#[rstest]
#[case::case_42("MAX_OUTPUT_BYTES", "256k", "MAX_OUTPUT_BYTES must be a non-negative integer, got: \"256k\"")]
#[case("MAX_OUTPUT_BYTES", "-1", "MAX_OUTPUT_BYTES must be a non-negative integer, got: \"-1\"")]
#[case("MAX_OUTPUT_BYTES", "", "MAX_OUTPUT_BYTES must be a non-negative integer, got: \"\"")]
#[case("HEALTH_PORT", "no", "HEALTH_PORT must be a port from 1 to 65535, got: \"no\"")]
fn a_bad_argument_stops_the_start_with_one_line(#[case] name: &str, #[case] value: &str, #[case] message: &str) {
    let output = started(name, value);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("{message}\n"));
    assert!(output.stdout.is_empty());
}

#[tokio::test]
async fn with_traces_on_a_job_and_its_agent_carry_the_trace_of_their_start() {
    let world = world().await;
    // Nobody has to listen there.
    let traces = ["OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9"];
    let exe = env!("CARGO_BIN_EXE_job-launcher");
    let _launcher = world.program_with(exe, SERVICE, "first", None, &traces).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    let job = world.namespace.api::<Job>().get("agent-job-run").await.unwrap();
    let trace = job.annotations()[names::ANNOTATION_TRACEPARENT].clone();
    let parts: Vec<_> = trace.split('-').map(str::len).collect();
    assert_eq!(parts, [2, 32, 16, 2], "{trace}");
    let containers = job.spec.unwrap().template.spec.unwrap().containers;
    let env = containers[0].env.iter().flatten().find(|variable| variable.name == "TRACEPARENT").unwrap();
    assert_eq!(env.value.as_ref(), Some(&trace));
}

#[tokio::test]
async fn the_trace_that_a_change_came_with_is_the_trace_of_the_run() {
    let world = world().await;
    let traces = ["OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9"];
    let exe = env!("CARGO_BIN_EXE_job-launcher");
    let _launcher = world.program_with(exe, SERVICE, "first", None, &traces).await;
    world.led_by(SERVICE, "first").await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let mut headers = async_nats::HeaderMap::new();
    headers.insert(HEADER_TRACEPARENT, format!("00-{trace}-00f067aa0ba902b7-01"));
    let bus = world.bus().await;
    let jobs = world.namespace.api::<Job>();
    // The test is the watcher: it tells of an Agent again and again until its Job is there.
    let told = async |name: &str| {
        let change = Change::Applied(agent(&world, name).await).encode().unwrap();
        wait_for("the Job", LIMIT, || async {
            let message = bus.publish_with_headers(change_subject("agents"), headers.clone(), change.clone().into());
            message.await.unwrap();
            jobs.get_opt(&names::job_name(name)).await.unwrap().ok_or("none")
        })
        .await
    };
    // The first may be found by the launcher's first LIST, which comes without a trace.
    told("first").await;
    let job = told("run").await;
    let held = &job.annotations()[names::ANNOTATION_TRACEPARENT];
    assert_eq!(held.split('-').nth(1), Some(trace), "{held}");
}
