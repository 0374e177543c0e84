use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Objects, yaml};

fn reason(objects: &Objects) -> String {
    objects.build().unwrap_err().failure_reason()
}

#[rstest]
#[case("null", "Station template must be an object")]
#[case("[]", "Station template must be an object")]
#[case("text", "Station template must be an object")]
#[case("{}", "Station template needs a spec")]
#[case("{spec: null}", "Station template needs a spec")]
#[case("{spec: {}}", "Station template.spec.containers is required")]
#[case("{spec: {containers: null}}", "Station template.spec.containers is required")]
#[case("{spec: {containers: []}}", "Station template has no container named 'agent'")]
#[case::case_6("{spec: {containers: [{name: main}, null]}}", "Station template has no container named 'agent'")]
#[case::case_9(
    "{spec: {containers: [{name: agent}, {name: agent}]}}",
    "Station template has more than one container named 'agent'"
)]
#[case(
    "{spec: {hostNetwork: true, containers: [{name: agent}]}}",
    "Station template must not enable hostNetwork on an agent run pod"
)]
#[case(
    "{spec: {hostPID: true, containers: [{name: agent}]}}",
    "Station template must not enable hostPID on an agent run pod"
)]
#[case(
    "{spec: {hostIPC: true, containers: [{name: agent}]}}",
    "Station template must not enable hostIPC on an agent run pod"
)]
#[case::case_7(
    "{spec: {volumes: [{name: v, hostPath: {path: /}}], containers: [{name: agent}]}}",
    "Station template must not mount a hostPath volume into an agent run pod"
)]
#[case(
    "{spec: {containers: [{name: agent, securityContext: {privileged: true}}]}}",
    "Station template container must not be privileged"
)]
#[case(
    "{spec: {containers: [{name: agent}, {name: b, securityContext: {privileged: true}}]}}",
    "Station template container must not be privileged"
)]
#[case(
    "{spec: {volumes: [{name: v, projected: {sources: [{configMap: {name: c}}, {serviceAccountToken: {path: t}}]}}],
     containers: [{name: agent}]}}",
    "Station template must not project a service account token into an agent run pod"
)]
fn fix_0_7_0_a_template_that_no_run_pod_may_have_is_refused(#[case] template: &str, #[case] text: &str) {
    let mut objects = Objects::bare();
    objects.station.spec.template = yaml(template);
    assert_eq!(reason(&objects), format!("invalid run: {text}"));
}

#[rstest]
#[case("{dnsPolicy: 5}", "template.spec.dnsPolicy: expected a string")]
#[case("{hostNetwork: 'true'}", "template.spec.hostNetwork: expected a boolean")]
#[case("{tolerations: [{key: a}, {key: [b]}]}", "template.spec.tolerations[1].key: expected a string")]
fn a_field_of_another_type_is_named_and_its_value_is_not(#[case] fields: &str, #[case] text: &str) {
    let mut objects = Objects::bare();
    let fields: Value = yaml(fields);
    objects.pod_spec().as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    assert_eq!(reason(&objects), format!("invalid run: Station {text}"));

    *objects.pod_spec() = json!({ "containers": [{ "name": "agent" }, { "name": "b", "env": "TOKEN=hidden" }] });
    assert_eq!(reason(&objects), "invalid run: Station template.spec.containers[1].env: expected a sequence");
}

#[rstest]
#[case("metadata: null")]
#[case("metadata: []")]
#[case("metadata: {labels: null, annotations: null}")]
#[case("metadata: {labels: text, annotations: 5}")]
fn case_8_and_fix_126_null_sections_count_as_empty(#[case] metadata: &str) {
    let mut objects = Objects::bare();
    let metadata: Value = yaml(metadata);
    objects.station.spec.template["metadata"] = metadata["metadata"].clone();
    objects.pod_spec()["volumes"] = Value::Null;
    objects.pod_spec()["containers"][0]["volumeMounts"] = Value::Null;
    objects.pod_spec()["containers"][0]["resources"] = Value::Null;
    let pod = objects.pod();
    assert_eq!(pod.volumes.unwrap().len(), 2);
    assert_eq!(pod.containers[0].volume_mounts.as_ref().unwrap().len(), 2);
    assert!(pod.containers[0].resources.is_some());
    let metadata = objects.build().unwrap().spec.unwrap().template.metadata.unwrap();
    assert_eq!((metadata.labels.unwrap().len(), metadata.annotations.unwrap().len()), (3, 1));
}

#[test]
fn case_8_a_volume_named_agent_is_replaced_and_there_is_one() {
    let pod = Objects::full().pod();
    let volumes = pod.volumes.unwrap();
    assert_eq!(volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), ["cache", "agent", "workspace"]);
    assert_eq!(volumes[1].empty_dir.as_ref().unwrap().medium, None);
    let mounts: Vec<_> = pod.containers[0]
        .volume_mounts
        .iter()
        .flatten()
        .map(|mount| (mount.name.as_str(), mount.mount_path.as_str()))
        .collect();
    assert_eq!(mounts, [("cache", "/cache"), ("agent", "/agent"), ("workspace", "/workspace")]);
}

#[test]
fn fix_0_6_0_the_initializer_and_the_agent_share_both_volumes() {
    let objects = Objects::full();
    let mounts = objects.init_container().volume_mounts.unwrap();
    assert!(mounts.iter().all(|mount| objects.agent_container().volume_mounts.unwrap().contains(mount)));
    assert_eq!(mounts.len(), 2);
    assert_eq!(objects.pod().security_context.unwrap().fs_group, Some(1000));
}

#[test]
fn case_10_arguments_of_the_station_are_removed() {
    assert_eq!(Objects::full().agent_container().args, None);
}

#[test]
fn case_11_variables_of_the_station_are_dropped_and_its_references_stay() {
    let container = Objects::full().agent_container();
    assert!(!container.env.unwrap().iter().any(|variable| variable.name == "LOST"));
    assert_eq!(container.env_from.unwrap().len(), 1);
}

#[test]
fn fix_0_6_1_a_pod_is_not_safe_to_evict_and_keeps_the_stations_metadata() {
    let metadata = Objects::full().build().unwrap().spec.unwrap().template.metadata.unwrap();
    let annotations = metadata.annotations.unwrap();
    assert_eq!(annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false");
    assert_eq!(annotations["example.com/cost-centre"], "42");
    let labels = metadata.labels.unwrap();
    assert_eq!(labels["team"], "shop");
    assert_eq!(labels["agents.re-cinq.com/agent"], "bug-fixer-run-6ltzm", "ours win");
}

#[test]
fn a_stations_security_settings_do_not_outlive_ours() {
    let mut objects = Objects::full();
    objects.pod_spec()["securityContext"] = json!({ "fsGroup": 0, "sysctls": [{ "name": "a", "value": "b" }] });
    let pod = objects.pod();
    let context = pod.security_context.unwrap();
    assert_eq!((context.fs_group, context.sysctls), (Some(1000), None));
    assert_eq!(pod.automount_service_account_token, Some(false));
    assert_eq!(pod.restart_policy.as_deref(), Some("Never"));
    assert_eq!(pod.init_containers.unwrap().iter().map(|c| c.name.clone()).collect::<Vec<_>>(), ["init"]);
    let agent = pod.containers[0].security_context.clone().unwrap();
    assert_eq!((agent.run_as_user, agent.run_as_non_root), (Some(1000), Some(true)));
}

#[test]
fn the_agent_stays_where_the_station_put_it_and_other_containers_stay_as_they_are() {
    let mut objects = Objects::full();
    objects.pod_spec()["containers"].as_array_mut().unwrap().reverse();
    let pod = objects.pod();
    assert_eq!(pod.containers.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["proxy", "agent"]);
    assert_eq!(pod.containers[0].env, None);
    assert_eq!(pod.containers[0].command, None);
    assert_eq!(pod.containers[0].resources.as_ref().unwrap().limits.as_ref().unwrap()["cpu"].0, "1");
}

#[test]
fn resources_of_the_station_are_kept_even_if_empty() {
    let mut objects = Objects::bare();
    objects.pod_spec()["containers"][0]["resources"] = json!({});
    assert_eq!(objects.agent_container().resources, Some(k8s_openapi::api::core::v1::ResourceRequirements::default()));
}
