//! Manifests of fixtures: what nearly every Station would repeat is filled in.

use serde_json::{Map, Value, json};

/// The image of a Station that names none.
const IMAGE: &str = "localhost/signalbox-station-busybox:dev";

/// The documents of `yaml` as one list for kubectl.
pub fn list(yaml: &str) -> String {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).expect("YAML documents");
    let items: Vec<Value> = documents.into_iter().filter(|document| !document.is_null()).map(filled).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

fn filled(mut document: Value) -> Value {
    if document["kind"] == "Station" {
        let spec = document["spec"].as_object_mut().expect("a Station with a spec");
        default(spec, "agentDefRef", json!("shell"));
        default(spec, "deadlineMinutes", json!(5));
        // A result must not be pruned before a scenario has read it.
        default(spec, "successfulRunsHistoryLimit", json!(1000));
        default(spec, "failedRunsHistoryLimit", json!(1000));
        default(spec, "template", json!({ "spec": { "containers": [{ "name": "agent" }] } }));
        let pod = spec["template"]["spec"].as_object_mut().expect("a pod");
        default(pod, "enableServiceLinks", json!(false));
        // What ignores SIGTERM is not what a scenario waits for.
        default(pod, "terminationGracePeriodSeconds", json!(10));
        for container in pod["containers"].as_array_mut().expect("containers") {
            let container = container.as_object_mut().expect("a container");
            default(container, "image", json!(IMAGE));
            default(container, "imagePullPolicy", json!("Never"));
            let resources = json!({ "requests": { "cpu": "10m", "memory": "16Mi" }, "limits": { "memory": "64Mi" } });
            default(container, "resources", resources);
        }
    }
    document
}

fn default(object: &mut Map<String, Value>, key: &str, value: Value) {
    object.entry(key).or_insert(value);
}
