//! What a run pod may not have, whatever its Station says, and the security contexts it has instead.

use serde_json::{Map, Value, json};
use signalbox_types::names::RUN_UID;

use super::BuildError;

/// Refuses a pod spec that reaches beyond the pod.
pub(super) fn check(spec: &Map<String, Value>, containers: &[Value]) -> Result<(), BuildError> {
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec.get(field) == Some(&Value::Bool(true)) {
            return Err(BuildError::HostNamespace(field));
        }
    }
    let volumes = || spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    if volumes().any(|volume| !volume["hostPath"].is_null()) {
        return Err(BuildError::HostPath);
    }
    if containers.iter().any(|container| container["securityContext"]["privileged"] == true) {
        return Err(BuildError::Privileged);
    }
    let mut sources = volumes().filter_map(|volume| volume["projected"]["sources"].as_array()).flatten();
    if sources.any(|source| !source["serviceAccountToken"].is_null()) {
        return Err(BuildError::ServiceAccountToken);
    }
    Ok(())
}

/// The pod's: both volumes belong to the agent's group.
pub(super) fn pod() -> Value {
    json!({ "fsGroup": RUN_UID, "seccompProfile": { "type": "RuntimeDefault" } })
}

/// The agent's: no rights at all.
pub(super) fn agent() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": RUN_UID,
        "runAsGroup": RUN_UID,
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}

/// The initializer's: root, to hand over what it prepared to the agent's uid.
pub(super) fn init() -> Value {
    json!({
        "runAsUser": 0,
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID"] },
        "seccompProfile": { "type": "RuntimeDefault" },
    })
}
