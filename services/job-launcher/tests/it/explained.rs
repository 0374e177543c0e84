//! Why a run is where it is: conditions and Events. The kubelet, and where it says so the Job controller, is played.

use std::time::Duration;

use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{Event, ObjectReference, Pod},
        events::v1::Event as Told,
    },
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, ObjectMeta},
};
use kube::{
    Resource,
    api::{ListParams, PostParams},
};
use rstest::rstest;
use serde_json::json;
use signalbox_testkit::{eventually, kubelet, wait_for};
use signalbox_types::{Agent, Phase};

use crate::{
    runs::{agent, end, in_phase, jobs, launcher, patch_status, pod_of, status_patches, world, world_with},
    world::{LIMIT, World},
};

/// What a person should not have to wait longer for.
const EXPLAINED_WITHIN: Duration = Duration::from_secs(20);

async fn condition(world: &World, name: &str, kind: &str, reason: &str, limit: Duration) -> Condition {
    let agents = world.namespace.api::<Agent>();
    wait_for(&format!("{name}: {kind} {reason}"), limit, || async {
        let status = agents.get(name).await.unwrap().status.unwrap_or_default();
        status.condition(kind).filter(|held| held.reason == reason).cloned().ok_or(status.conditions)
    })
    .await
}

/// Plays whoever warns of an object that is not there, or does not come on.
async fn warn(world: &World, about: ObjectReference, reason: &str, message: &str) {
    let event = Event {
        metadata: ObjectMeta { generate_name: Some("warning-".into()), ..ObjectMeta::default() },
        involved_object: about,
        type_: Some("Warning".into()),
        reason: Some(reason.into()),
        message: Some(message.into()),
        event_time: Some(MicroTime(jiff::Timestamp::now())),
        reporting_component: Some("test".into()),
        reporting_instance: Some("test".into()),
        action: Some("Test".into()),
        ..Event::default()
    };
    world.namespace.api::<Event>().create(&PostParams::default(), &event).await.unwrap();
}

/// The reasons of the Events on an Agent, once all of `wanted` are there.
async fn told(world: &World, agent: &str, wanted: &[&str]) {
    let events = world.namespace.api::<Told>();
    wait_for(&format!("{wanted:?} on {agent}"), LIMIT, || async {
        let all = events.list(&ListParams::default()).await.unwrap();
        let of_it = |event: &&Told| {
            event
                .regarding
                .as_ref()
                .is_some_and(|at| at.name.as_deref() == Some(agent) && at.kind.as_deref() == Some("Agent"))
        };
        let reasons: Vec<_> = all.iter().filter(of_it).filter_map(|event| event.reason.clone()).collect();
        let all_told = wanted.iter().all(|wanted| reasons.iter().any(|reason| reason == wanted));
        if all_told { Ok(()) } else { Err(reasons) }
    })
    .await;
}

#[rstest]
#[case::image("ImagePullBackOff", "Back-off pulling image \"played\"")]
#[case::missing_key("CreateContainerConfigError", "couldn't find key TOKEN in Secret ns/agent-secrets")]
#[tokio::test]
async fn what_keeps_a_pod_from_starting_is_told_once_when_we_play_the_kubelet(
    #[case] reason: &str,
    #[case] message: &str,
) {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let (client, pod) = (world.namespace.plane().client(), pod_of(&world, "run").await);
    kubelet::block_pod(&client, &world.namespace.name, &pod, reason, message).await;
    in_phase(&world, "run", Phase::Running).await;
    let held = condition(&world, "run", "Started", reason, EXPLAINED_WITHIN).await;
    assert_eq!((held.status.as_str(), held.message.as_str()), ("False", message));
    // The text changes, the reason does not: no write. A change of the reason is the next.
    kubelet::block_pod(&client, &world.namespace.name, &pod, reason, "another text").await;
    kubelet::block_pod(&client, &world.namespace.name, &pod, "RunContainerError", "no such file").await;
    condition(&world, "run", "Started", "RunContainerError", EXPLAINED_WITHIN).await;
    assert_eq!(status_patches(&world).await.len(), 3, "Running, one reason, another");
    end(&world, "run", 0).await;
    let status = in_phase(&world, "run", Phase::Succeeded).await.status.unwrap();
    let held: Vec<_> = status.conditions.iter().map(|held| (held.type_.as_str(), held.status.as_str())).collect();
    assert_eq!(held, [("Admitted", "True"), ("Started", "True"), ("Finished", "True")]);
    told(&world, "run", &["JobCreated", reason, "Succeeded"]).await;
}

#[tokio::test]
async fn a_pod_that_starts_after_all_is_told_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let (client, pod) = (world.namespace.plane().client(), pod_of(&world, "run").await);
    condition(&world, "run", "Started", "ContainerCreating", LIMIT).await;
    kubelet::run_pod(&client, &world.namespace.name, &pod).await;
    assert_eq!(condition(&world, "run", "Started", "Started", LIMIT).await.status, "True");
}

#[tokio::test]
async fn what_only_an_event_of_the_pod_tells_is_found_when_we_play_the_kubelet() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let pod: Pod = world.namespace.api().get(&pod_of(&world, "run").await).await.unwrap();
    let message = "MountVolume.SetUp failed for volume \"c\" : configmap \"c\" not found";
    warn(&world, pod.object_ref(&()), "FailedMount", message).await;
    let held = condition(&world, "run", "Started", "FailedMount", EXPLAINED_WITHIN).await;
    assert_eq!(held.message, message);
}

#[tokio::test]
async fn what_only_an_event_of_the_job_tells_is_found_when_we_play_the_job_controller() {
    let world = world().await;
    let _services = (world.watcher().await, launcher(&world).await);
    // The Job is there and its pod never is.
    agent(&world, "run").await;
    pod_of(&world, "run").await;
    let job: Job = crate::runs::patch(&world, "agent-job-run", json!({"spec": {"suspend": true}})).await;
    let pods = world.namespace.api::<Pod>();
    eventually("its pod is gone", LIMIT, || async {
        pods.list(&ListParams::default()).await.unwrap().items.is_empty()
    })
    .await;
    let message =
        "Error creating: pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0";
    warn(&world, job.object_ref(&()), "FailedCreate", message).await;
    let held = condition(&world, "run", "Started", "QuotaExceeded", EXPLAINED_WITHIN).await;
    assert_eq!(held.message, message);
}

#[tokio::test]
async fn a_pod_that_does_not_start_in_its_stations_time_ends_the_run_when_we_play_the_kubelet() {
    let world = world_with(json!({"startTimeoutMinutes": 2})).await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    let (client, pod) = (world.namespace.plane().client(), pod_of(&world, "run").await);
    in_phase(&world, "run", Phase::Running).await;
    kubelet::block_pod(&client, &world.namespace.name, &pod, "ImagePullBackOff", "not found").await;
    condition(&world, "run", "Started", "ImagePullBackOff", EXPLAINED_WITHIN).await;
    let long_ago = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(3);
    patch_status(&world, "run", json!({"startedAt": long_ago.to_string()})).await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    let reason = "not started within 2 minutes: ImagePullBackOff: not found";
    assert_eq!((status.failure_reason.as_deref(), status.exit_code), (Some(reason), Some(1)));
    assert_eq!(status.condition("Finished").unwrap().reason, "StartTimeout");
    assert_eq!(status.condition("Started").unwrap().status, "False");
    eventually("the Job is gone", LIMIT, || async { jobs(&world).await.is_empty() }).await;
    let count = "controller_run_failures_total{kind=\"start_timeout\"}";
    eventually("it is counted", LIMIT, || async { launcher.metric(count) == Some(1.0) }).await;
}

#[tokio::test]
async fn a_run_that_waits_for_its_station_says_so_once_when_we_play_the_kubelet() {
    let world = world_with(json!({"maxConcurrentRuns": 1})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    agent(&world, "b").await;
    assert_eq!(condition(&world, "b", "Admitted", "StationFull", LIMIT).await.status, "False");
    told(&world, "b", &["Queued"]).await;
    end(&world, "a", 0).await;
    in_phase(&world, "b", Phase::Running).await;
    assert_eq!(condition(&world, "b", "Admitted", "Admitted", LIMIT).await.status, "True");
}

#[tokio::test]
async fn a_run_without_a_station_is_finished_with_the_reason() {
    let world = World::new().await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "run").await;
    let status = in_phase(&world, "run", Phase::Failed).await.status.unwrap();
    let finished = status.condition("Finished").unwrap();
    assert_eq!(finished.reason, "MissingReference");
    assert_eq!(finished.message, "Station or AgentDefinition not found: Station station");
    assert_eq!(status.failure_reason.as_deref(), Some("Station or AgentDefinition not found"));
    told(&world, "run", &["Failed"]).await;
}
