//! The pod template: the Station's, with all that a run must be sure of put over it.

use serde_json::{Map, Value, json};
use signalbox_types::names::{
    AGENT_HOME, ANNOTATION_SAFE_TO_EVICT, CONTAINER_AGENT, CONTAINER_INIT, SUPERVISOR_PATH, VOLUME_AGENT,
    VOLUME_WORKSPACE, WORKSPACE,
};

use super::{
    BuildError,
    env::{Environment, escaped},
    security,
};

/// A Station's template, taken apart.
pub(super) struct Template {
    template: Map<String, Value>,
    spec: Map<String, Value>,
    containers: Vec<Value>,
    agent: Map<String, Value>,
    agent_at: usize,
}

/// Copies a Station's template and refuses what no run pod may be.
pub(super) fn checked(template: &Value) -> Result<Template, BuildError> {
    let mut template = template.as_object().ok_or(BuildError::TemplateNotAnObject)?.clone();
    let Some(Value::Object(mut spec)) = template.remove("spec") else { return Err(BuildError::SpecMissing) };
    let Some(Value::Array(mut containers)) = spec.remove("containers") else {
        return Err(BuildError::ContainersMissing);
    };
    let mut agents = containers.iter().enumerate().filter(|(_, container)| container["name"] == CONTAINER_AGENT);
    let agent_at = agents.next().map(|(at, _)| at).ok_or(BuildError::AgentContainerMissing)?;
    if agents.next().is_some() {
        return Err(BuildError::AgentContainerRepeated);
    }
    security::check(&spec, &containers)?;
    let Value::Object(agent) = containers.remove(agent_at) else { return Err(BuildError::AgentContainerMissing) };
    Ok(Template { template, spec, containers, agent, agent_at })
}

/// The pod template of a run.
pub(super) fn pod(
    station: Template,
    argv: &[String],
    env: Environment,
    labels: &Map<String, Value>,
    agent_image: &str,
) -> Value {
    let Template { mut template, mut spec, mut containers, mut agent, agent_at } = station;
    run_supervisor(&mut agent, argv, env.agent);
    // In its place: the first container is the one that `kubectl logs` shows.
    containers.insert(agent_at, Value::Object(agent));

    let mut volumes = without_ours(spec.remove("volumes"));
    volumes.extend([VOLUME_AGENT, VOLUME_WORKSPACE].map(|name| json!({ "name": name, "emptyDir": {} })));
    spec.extend(object(json!({
        "containers": containers,
        "initContainers": [init_container(agent_image, env.init)],
        "volumes": volumes,
        "restartPolicy": "Never",
        "securityContext": security::pod(),
        "automountServiceAccountToken": false,
    })));

    let mut metadata = take_object(&mut template, "metadata");
    let mut merged = take_object(&mut metadata, "labels");
    merged.extend(labels.clone());
    let mut annotations = take_object(&mut metadata, "annotations");
    annotations.insert(ANNOTATION_SAFE_TO_EVICT.to_owned(), "false".into());
    metadata.insert("labels".to_owned(), merged.into());
    metadata.insert("annotations".to_owned(), annotations.into());
    template.insert("metadata".to_owned(), metadata.into());
    template.insert("spec".to_owned(), spec.into());
    template.into()
}

fn run_supervisor(agent: &mut Map<String, Value>, argv: &[String], env: Vec<Value>) {
    let mut command = vec![SUPERVISOR_PATH.to_owned(), "--".to_owned()];
    command.extend(argv.iter().map(|word| escaped(word)));
    let mut mounts = without_ours(agent.remove("volumeMounts"));
    mounts.extend(our_mounts());
    // They would land after the prompt.
    agent.remove("args");
    agent.extend(object(json!({
        "command": command,
        "env": env,
        "volumeMounts": mounts,
        "securityContext": security::agent(),
    })));
    if agent.get("resources").is_none_or(Value::is_null) {
        let resources = json!({ "requests": { "cpu": "100m", "memory": "256Mi" }, "limits": { "memory": "2Gi" } });
        agent.insert("resources".to_owned(), resources);
    }
}

fn init_container(image: &str, env: Vec<Value>) -> Value {
    json!({
        "name": CONTAINER_INIT,
        "image": image,
        "env": env,
        "volumeMounts": our_mounts(),
        "securityContext": security::init(),
        "resources": { "requests": { "cpu": "50m", "memory": "128Mi" }, "limits": { "memory": "2Gi" } },
    })
}

fn our_mounts() -> [Value; 2] {
    [(VOLUME_AGENT, AGENT_HOME), (VOLUME_WORKSPACE, WORKSPACE)]
        .map(|(name, path)| json!({ "name": name, "mountPath": path }))
}

/// A list of volumes or mounts without those of our names; what is no list counts as empty.
fn without_ours(list: Option<Value>) -> Vec<Value> {
    let Some(Value::Array(list)) = list else { return Vec::new() };
    list.into_iter().filter(|item| item["name"] != VOLUME_AGENT && item["name"] != VOLUME_WORKSPACE).collect()
}

/// Takes an object out of another; what is no object counts as empty.
fn take_object(parent: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    parent.remove(key).map(object).unwrap_or_default()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
