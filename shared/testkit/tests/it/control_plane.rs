use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Api,
    api::{ListParams, LogParams},
};
use signalbox_testkit::{ControlPlane, Namespace, kubelet, wait_for};
use signalbox_types::{Agent, Phase};

const LIMIT: Duration = Duration::from_secs(30);

const AGENT: &str = "
apiVersion: agents.re-cinq.com/v1alpha1
kind: Agent
metadata: {name: run}
spec: {stationRef: station}
";

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      initContainers: [{name: init, image: played}]
      containers: [{name: agent, image: played}]
";

#[tokio::test]
async fn our_resources_are_served_and_selected_by_phase() {
    let namespace = Namespace::fresh().await;
    let agent: Agent = namespace.create(AGENT).await;
    assert_eq!(agent.phase(), Phase::Pending);
    let selected = ListParams::default().fields("spec.stationRef=station");
    assert_eq!(namespace.api::<Agent>().list(&selected).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_service_account_has_the_rights_of_its_role_and_no_other() {
    let namespace = Namespace::fresh().await;
    namespace
        .apply(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [agents.re-cinq.com], resources: [agents], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader}]
",
        )
        .await;
    let agents: Api<Agent> = Api::namespaced(namespace.client_as("reader").await, &namespace.name);
    wait_for("the role is in force", LIMIT, || async { agents.list(&ListParams::default()).await }).await;
    let refused = agents.get("run").await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
    let user = format!("system:serviceaccount:{}:reader", namespace.name);
    let events = namespace.audit().await;
    assert!(events.iter().all(|event| event.user == user), "{events:?}");
    let refused = events.iter().find(|event| event.verb == "get").unwrap();
    assert_eq!((refused.resource.as_str(), refused.name.as_str(), refused.code), ("agents", "run", 403));
}

#[tokio::test]
async fn jobs_end_by_their_pods_when_we_play_the_kubelet() {
    ControlPlane::shared().await.with_controller_manager().await;
    let namespace = Namespace::fresh().await;
    let client = namespace.plane().client();
    for (name, code) in [("good", 0), ("bad", 3)] {
        namespace.create::<Job>(&JOB.replace("name: job", &format!("name: {name}"))).await;
        let pod = kubelet::pod_of(&client, &namespace.name, name).await.metadata.name.unwrap();
        kubelet::run_pod(&client, &namespace.name, &pod).await;
        kubelet::end_pod(&client, &namespace.name, &pod, code).await;
        let wanted = if code == 0 { "Complete" } else { "Failed" };
        wait_for(wanted, LIMIT, || ended(&namespace, name, wanted)).await;
    }
}

#[tokio::test]
async fn jobs_end_as_told_without_a_controller_when_we_play_the_kubelet() {
    let plane = Box::leak(Box::new(ControlPlane::start().await));
    let client = plane.client();
    let jobs: Api<Job> = Api::namespaced(client.clone(), "default");
    for name in ["good", "bad"] {
        let job = serde_saphyr::from_str(&JOB.replace("name: job", &format!("name: {name}"))).unwrap();
        jobs.create(&Default::default(), &job).await.unwrap();
    }
    plane.token_for("default", "default").await;
    let pod = kubelet::make_pod(&client, "default", "good").await.metadata.name.unwrap();
    kubelet::block_pod(&client, "default", &pod, "ImagePullBackOff", "no such image").await;
    kubelet::fail_init(&client, "default", &pod, 128).await;
    kubelet::remove_pod(&client, "default", &pod).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    assert!(pods.get_opt(&pod).await.unwrap().is_none());
    kubelet::succeed_job(&client, "default", "good").await;
    kubelet::fail_job(&client, "default", "bad", "DeadlineExceeded", "Job was active longer than its deadline").await;
    let conditions = jobs.get("bad").await.unwrap().status.unwrap().conditions.unwrap();
    assert!(conditions.iter().any(|condition| condition.type_ == "Failed" && condition.status == "True"));
}

#[tokio::test]
async fn the_api_server_fetches_logs_from_us_when_we_play_the_kubelet() {
    let namespace = Namespace::fresh().await;
    let client = namespace.plane().client();
    namespace.create::<Job>(JOB).await;
    let pod = kubelet::make_pod(&client, &namespace.name, "job").await.metadata.name.unwrap();
    let node = kubelet::Node::start(namespace.plane()).await;
    node.take(&namespace.name, &pod).await;
    kubelet::run_pod(&client, &namespace.name, &pod).await;
    let pods: Api<Pod> = Api::namespaced(client, &namespace.name);
    let log = |tail_lines| {
        let (pods, pod) = (&pods, &pod);
        let params = LogParams { container: Some("agent".to_owned()), tail_lines, ..LogParams::default() };
        async move { pods.logs(pod, &params).await }
    };
    let refused = log(None).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 400), "{refused}");
    node.set_log(&namespace.name, &pod, "agent", "one\ntwo\nthree\n");
    assert_eq!(log(None).await.unwrap(), "one\ntwo\nthree\n");
    assert_eq!(log(Some(2)).await.unwrap(), "two\nthree\n");
    assert_eq!(log(Some(10_000)).await.unwrap(), "one\ntwo\nthree\n");
}

async fn ended(
    namespace: &Namespace,
    name: &str,
    wanted: &str,
) -> Result<(), Option<k8s_openapi::api::batch::v1::JobStatus>> {
    let status = namespace.api::<Job>().get(name).await.unwrap().status;
    let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
    let found = conditions.any(|condition| condition.type_ == wanted && condition.status == "True");
    if found { Ok(()) } else { Err(status) }
}
