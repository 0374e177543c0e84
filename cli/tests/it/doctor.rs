//! `doctor`, against an API server without any service: their Deployments and Leases are written by the tests.

use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{Namespace, Secret},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use signalbox_types::Station;

use crate::scene::Scene;

/// Writes what the services and the bus of a sound installation leave.
async fn install(scene: &Scene) {
    let deployments = scene.namespace.api::<Deployment>();
    for name in ["signalbox-watcher", "signalbox-job-launcher", "signalbox-pruner", "nats"] {
        let labels = json!({"app": name});
        let template =
            json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "played"}]}});
        let _: Deployment = scene
            .create(json!({"metadata": {"name": name}, "spec": {
                "replicas": 1, "selector": {"matchLabels": labels}, "template": template}}))
            .await;
        let status = Patch::Merge(json!({"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}));
        deployments.patch_status(name, &PatchParams::default(), &status).await.unwrap();
        if name != "nats" {
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string();
            let _: Lease = scene
                .create(json!({"metadata": {"name": name}, "spec": {
                    "holderIdentity": format!("{name}-0_1f"), "leaseDurationSeconds": 15, "renewTime": now}}))
                .await;
        }
    }
    let _: Secret = scene.create(json!({"metadata": {"name": "agent-secrets"}})).await;
    let namespaces: Api<Namespace> = Api::all(scene.client());
    let label = Patch::Merge(json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}));
    namespaces.patch(&scene.namespace.name, &PatchParams::default(), &label).await.unwrap();
}

#[tokio::test]
async fn a_sound_installation_has_no_fault() {
    let scene = Scene::new().await;
    install(&scene).await;
    let report = scene.cli(&["doctor"]).await.ok();
    assert!(report.ends_with("\n14 ok, 0 warn, 0 FAIL\n"), "{report}");
    for line in ["ok    crd/agents.agents.re-cinq.com", "ok    station/hello", "ok    you"] {
        assert!(report.lines().any(|shown| shown.starts_with(line)), "{line} is not in\n{report}");
    }
}

#[tokio::test]
async fn faults_give_exit_code_1_and_the_way_out_of_each() {
    let scene = Scene::new().await;
    let broken = json!({"apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Station", "metadata": {"name": "broken"},
                        "spec": {"agentDefRef": "gone", "template": {"spec": {"containers": []}}}});
    let _: Station = scene.create(broken).await;
    let ran = scene.cli(&["doctor", "-o", "json"]).await;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let checks: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let level = |what: &str| checks.iter().find(|check| check["what"] == what).unwrap()["level"].clone();
    assert_eq!(level("crd/stations.agents.re-cinq.com"), "ok", "the API server gives the definition back as it was");
    assert_eq!(level("deployment/signalbox-job-launcher"), "fail");
    assert_eq!(level("lease/signalbox-watcher"), "fail");
    assert_eq!(level("deployment/nats"), "warn", "without the bus runs only end later");
    assert_eq!(level("station/broken"), "fail");
    assert_eq!(level("station/hello"), "ok");
    let faults = checks.iter().filter(|check| check["level"] != "ok");
    for check in faults {
        assert!(check["wayOut"].as_str().is_some_and(|way_out| !way_out.is_empty()), "{check}");
    }
}

#[tokio::test]
async fn a_caller_without_rights_is_told_which_are_missing() {
    let mut scene = Scene::new().await;
    install(&scene).await;
    scene.kubeconfig = scene.namespace.plane().kubeconfig_as(&scene.namespace.name, "stranger").await;
    let report = scene.cli(&["doctor"]).await.ok();
    assert!(report.contains("may not create agents; needed by: run\n"), "{report}");
    assert!(report.contains("may not get pods/log; needed by: logs, --follow\n"), "{report}");
    assert!(report.ends_with(" 0 FAIL\n"), "what may not be read is no fault: {report}");
}
