//! Hands to play the kubelet with: they patch the status that a kubelet (or, without kube-controller-manager, the Job
//! controller) would write. No pod ever runs, so a test that uses them says in its name that it plays the kubelet.

mod node;

pub use node::Node;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// The container of a run that does the work.
const AGENT: &str = "agent";
/// The init container of a run.
const INIT: &str = "init";

/// Ends a Job as its controller does after its pod succeeded. Only where kube-controller-manager does not run.
///
/// # Panics
/// The API server refuses.
pub async fn succeed_job(client: &Client, namespace: &str, name: &str) {
    let now = now();
    let condition =
        |kind: &str| condition(kind, "CompletionsReached", "Reached expected number of succeeded pods", &now);
    let status = json!({
        "startTime": now, "completionTime": now, "succeeded": 1, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    patch_status::<Job>(client, namespace, name, status).await;
}

/// Ends a Job as its controller does after its pod failed, or with a reason such as `DeadlineExceeded`. Only where
/// kube-controller-manager does not run.
///
/// # Panics
/// The API server refuses.
pub async fn fail_job(client: &Client, namespace: &str, name: &str, reason: &str, message: &str) {
    let now = now();
    let condition = |kind: &str| condition(kind, reason, message, &now);
    let status = json!({
        "startTime": now, "failed": 1, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {},
        "conditions": [condition("FailureTarget"), condition("Failed")],
    });
    patch_status::<Job>(client, namespace, name, status).await;
}

/// Makes the pod of a Job from its template, as the Job controller does: named `<job>-played`, owned by the Job. Only
/// where kube-controller-manager does not run.
///
/// # Panics
/// There is no such Job, or the API server refuses the pod.
pub async fn make_pod(client: &Client, namespace: &str, job: &str) -> Pod {
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    let job = jobs.get(job).await.expect("the Job");
    let (name, uid) = (job.metadata.name.expect("a name"), job.metadata.uid.expect("a uid"));
    let template = job.spec.expect("a spec").template;
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name = Some(format!("{name}-played"));
    let labels = metadata.labels.get_or_insert_default();
    labels.insert("job-name".to_owned(), name.clone());
    labels.insert("batch.kubernetes.io/job-name".to_owned(), name.clone());
    labels.insert("batch.kubernetes.io/controller-uid".to_owned(), uid.clone());
    let owner = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid,
                        "controller": true, "blockOwnerDeletion": true}]);
    metadata.owner_references = Some(serde_json::from_value(owner).expect("an owner reference"));
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = Pod { metadata, spec: template.spec, status: None };
    pods.create(&PostParams::default(), &pod).await.expect("the pod is accepted")
}

/// The newest pod of a Job, once there is one; whoever made it.
///
/// # Panics
/// None comes within 20 s.
pub async fn pod_of(client: &Client, namespace: &str, job: &str) -> Pod {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(&format!("job-name={job}"));
    crate::wait_for("a pod of the Job", std::time::Duration::from_secs(20), || async {
        let mut found = pods.list(&params).await.expect("pods").items;
        found.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
        found.pop().ok_or("no pod")
    })
    .await
}

/// The pod has started: its init container is done, its agent runs.
///
/// # Panics
/// The API server refuses.
pub async fn run_pod(client: &Client, namespace: &str, name: &str) {
    let now = now();
    let running = json!({"running": {"startedAt": now}});
    let status = json!({
        "phase": "Running", "startTime": now, "podIP": "198.18.1.2",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        "initContainerStatuses": [container(INIT, &terminated(0, "Completed", &now))],
        "containerStatuses": [container(AGENT, &running)],
    });
    patch_status::<Pod>(client, namespace, name, status).await;
}

/// The agent has ended with `code`. Where kube-controller-manager runs, the Job ends by this.
///
/// # Panics
/// The API server refuses.
pub async fn end_pod(client: &Client, namespace: &str, name: &str, code: i32) {
    let reason = if code == 0 { "Completed" } else { "Error" };
    end_pod_with(client, namespace, name, code, reason).await;
}

/// [`end_pod`] with a reason of its own, such as `OOMKilled`.
///
/// # Panics
/// The API server refuses.
pub async fn end_pod_with(client: &Client, namespace: &str, name: &str, code: i32, reason: &str) {
    let now = now();
    let status = json!({
        "phase": if code == 0 { "Succeeded" } else { "Failed" }, "startTime": now,
        "initContainerStatuses": [container(INIT, &terminated(0, "Completed", &now))],
        "containerStatuses": [container(AGENT, &terminated(code, reason, &now))],
    });
    patch_status::<Pod>(client, namespace, name, status).await;
}

/// The init container has failed with `code`; the agent never ran.
///
/// # Panics
/// The API server refuses.
pub async fn fail_init(client: &Client, namespace: &str, name: &str, code: i32) {
    let now = now();
    let status = json!({
        "phase": "Failed", "startTime": now,
        "initContainerStatuses": [container(INIT, &terminated(code, "Error", &now))],
        "containerStatuses": [container(AGENT, &json!({"waiting": {"reason": "PodInitializing"}}))],
    });
    patch_status::<Pod>(client, namespace, name, status).await;
}

/// The agent cannot start, for a reason such as `ImagePullBackOff` or `CreateContainerConfigError`.
///
/// # Panics
/// The API server refuses.
pub async fn block_pod(client: &Client, namespace: &str, name: &str, reason: &str, message: &str) {
    let waiting = json!({"waiting": {"reason": reason, "message": message}});
    let status = json!({
        "phase": "Pending", "startTime": now(),
        "containerStatuses": [container(AGENT, &waiting)],
    });
    patch_status::<Pod>(client, namespace, name, status).await;
}

/// Deletes a pod at once: without a node nobody would confirm its end.
///
/// # Panics
/// The API server refuses.
pub async fn remove_pod(client: &Client, namespace: &str, name: &str) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    // The Job controller holds a pod by a finalizer until it has counted it.
    let free = json!({"metadata": {"finalizers": null}});
    pods.patch(name, &PatchParams::default(), &Patch::Merge(free)).await.expect("the pod");
    let at_once = kube::api::DeleteParams { grace_period_seconds: Some(0), ..Default::default() };
    pods.delete(name, &at_once).await.expect("the pod is deleted");
}

async fn patch_status<K>(client: &Client, namespace: &str, name: &str, status: Value)
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.expect("the status is accepted");
}

fn condition(kind: &str, reason: &str, message: &str, now: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": reason, "message": message,
           "lastProbeTime": now, "lastTransitionTime": now})
}

fn container(name: &str, state: &Value) -> Value {
    json!({"name": name, "image": "played", "imageID": "", "restartCount": 0,
           "ready": state.get("running").is_some(), "state": state})
}

fn terminated(code: i32, reason: &str, now: &str) -> Value {
    json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}})
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
