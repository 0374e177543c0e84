//! Runs whose pod does not start: each says why within twenty seconds of its start, by one write, and ends at its
//! Station's `startTimeoutMinutes`.

use std::time::Duration;

use signalbox_types::{Agent, Phase};

use crate::harness::{STEP, Scene, ending, requests};

/// From the start of a run until it says why it waits.
const TOLD_WITHIN: Duration = Duration::from_secs(20);

/// Runs on the scene's Station, which keeps pods from starting: the message of its condition, once it has ended.
async fn kept_from_starting(scene: &Scene, reason: &str) -> String {
    let agent = scene.run(&scene.name, "echo never").await;
    let running = scene.until(&agent, "the start", STEP, |agent: Option<&Agent>| {
        agent.is_some_and(|agent| agent.phase() == Phase::Running)
    });
    running.await;
    let told = scene.until(&agent, reason, TOLD_WITHIN, |agent: Option<&Agent>| {
        let status = agent.and_then(|agent| agent.status.as_ref());
        status.and_then(|status| status.condition("Started")).is_some_and(|held| held.reason == reason)
    });
    let status = told.await.unwrap().status.unwrap();
    let held = status.condition("Started").unwrap();
    assert_eq!((held.status.as_str(), status.phase), ("False", Some(Phase::Running)));
    let message = held.message.clone();

    let ended = scene.ended(&agent).await;
    let (phase, code, why) = ending(&ended);
    assert_eq!((phase, code), (Phase::Failed, Some(1)));
    assert!(why.starts_with(&format!("not started within 1 minute: {reason}")), "{why}");
    let waited = ended.status.as_ref().unwrap();
    let waited = waited.completed_at.unwrap().seconds_since(waited.started_at.unwrap());
    assert!((60.0..90.0).contains(&waited), "{waited} s");
    let writes = requests(scene, &agent).into_iter().filter(|request| request.what == "patch agents/status");
    assert_eq!(writes.count(), 3, "that it runs, why it waits, that it has ended");
    message
}

#[tokio::test]
async fn a_pod_that_no_node_takes_says_so() {
    let scene = Scene::calm("no-node").await;
    let pod = "{nodeSelector: {example.com/pool: none}, containers: [{name: agent}]}";
    scene.station(&format!("{{startTimeoutMinutes: 1, template: {{spec: {pod}}}}}"));
    let message = kept_from_starting(&scene, "Unschedulable").await;
    assert!(message.contains("0/1 nodes are available"), "{message}");
}

#[tokio::test]
async fn a_pod_whose_image_is_not_there_says_so() {
    let scene = Scene::calm("no-image").await;
    let pod = "{containers: [{name: agent, image: 'registry.invalid/none:1', imagePullPolicy: IfNotPresent}]}";
    scene.station(&format!("{{startTimeoutMinutes: 1, template: {{spec: {pod}}}}}"));
    let message = kept_from_starting(&scene, "ImagePullBackOff").await;
    assert!(message.contains("registry.invalid/none:1"), "{message}");
}

#[tokio::test]
async fn a_pod_whose_key_is_not_in_agent_secrets_names_the_key() {
    let scene = Scene::calm("no-key-told").await;
    scene.apply(&include_str!("../fixtures/missing-key.yaml").replace("deadlineMinutes: 1", "startTimeoutMinutes: 1"));
    let message = kept_from_starting(&scene, "CreateContainerConfigError").await;
    assert!(message.contains("no-such-key"), "{message}");
}

#[tokio::test]
async fn a_pod_whose_config_map_is_not_there_names_it() {
    let scene = Scene::calm("no-map").await;
    let volume = "{name: settings, configMap: {name: no-such-map}}";
    let agent = "{name: agent, volumeMounts: [{name: settings, mountPath: /settings}]}";
    let pod = format!("{{volumes: [{volume}], containers: [{agent}]}}");
    scene.station(&format!("{{startTimeoutMinutes: 1, template: {{spec: {pod}}}}}"));
    let message = kept_from_starting(&scene, "FailedMount").await;
    assert!(message.contains("no-such-map"), "{message}");
}

#[tokio::test]
async fn a_pod_that_no_quota_allows_says_so() {
    let scene = Scene::calm("no-quota").await;
    scene.apply(include_str!("../fixtures/quota.yaml"));
    let message = kept_from_starting(&scene, "QuotaExceeded").await;
    scene.kubectl(&["delete", "priorityclass", &scene.name]);
    assert!(message.contains(&format!("exceeded quota: {}", scene.name)), "{message}");
}

#[tokio::test]
async fn a_run_that_is_canceled_ends_with_what_it_has_printed_and_its_pod_goes() {
    let scene = Scene::calm("cancel").await;
    let agent = scene.run("shell", "echo half of it; exec sleep 600").await;
    let pod = scene.at_work(&agent).await;
    let pod = pod.metadata.name.unwrap();
    scene.printed(&pod, "half of it").await;
    scene.kubectl(&["annotate", "agent", &agent, "agents.re-cinq.com/cancel=true"]);
    let ended = scene.ended(&agent).await;
    assert_eq!(ending(&ended), (Phase::Failed, Some(1), "canceled".to_owned()));
    assert!(crate::harness::output(&ended).contains("half of it\n"));
    let gone = scene.until(&pod, "the pod to go", STEP, |pod: Option<&k8s_openapi::api::core::v1::Pod>| pod.is_none());
    gone.await;
}
