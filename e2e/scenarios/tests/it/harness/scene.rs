use std::{
    fmt::Debug,
    path::PathBuf,
    time::{Duration, Instant},
};

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{ContainerState, Pod},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, LogParams, ObjectMeta, PostParams},
    runtime::wait::await_condition,
};
use signalbox_testkit::wait_for;
use signalbox_types::{Agent, AgentSpec, Phase, names};
use tokio::{
    sync::MutexGuard,
    time::{sleep, timeout},
};

use super::{
    manifests,
    site::{CALM, STORMY, Site},
};

/// What a step of a run may take on two cores that build something else at the same time.
pub const STEP: Duration = Duration::from_secs(120);
/// How often a cluster is asked for what it cannot be watched for.
const PAUSE: Duration = Duration::from_millis(250);

/// A scenario's place on a Signalbox, with a name that no other object has. Where the scenario fails, it leaves a file
/// with all that kubectl has to say.
pub struct Scene {
    /// The name of what the scenario makes, alone or as a prefix.
    pub name: String,
    /// Everything.
    pub client: Client,
    pub site: &'static Site,
    began: Instant,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Scene {
    /// Beside other scenarios.
    pub async fn calm(title: &str) -> Self {
        Self::on(&CALM, title, None).await
    }

    /// Alone on a whole Signalbox of which anything may be broken.
    pub async fn stormy(title: &str) -> Self {
        let turn = STORMY.turn.lock().await;
        let scene = Self::on(&STORMY, title, Some(turn)).await;
        STORMY.repaired().await;
        scene
    }

    async fn on(site: &'static Site, title: &str, turn: Option<MutexGuard<'static, ()>>) -> Self {
        site.deployed().await;
        let client = Client::try_default().await.expect("KUBECONFIG leads to a cluster");
        let name = format!("{title}-{:06x}", rand::random::<u32>() & 0xff_ffff);
        Self { name, client, site, began: Instant::now(), _turn: turn }
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), self.site.namespace)
    }

    /// Applies manifests in which `NAME` stands for the scene's name.
    pub fn apply(&self, manifests: &str) {
        let manifests = manifests::list(&manifests.replace("NAME", &self.name));
        self.kubectl_with(&["apply", "-f", "-"], &manifests);
    }

    /// Makes a Station of the scene's name with the recipe `shell` and this `spec`.
    pub fn station(&self, spec: &str) {
        self.apply(&format!(
            "apiVersion: agents.re-cinq.com/v1alpha1\nkind: Station\nmetadata: {{name: NAME}}\nspec: {spec}\n"
        ));
    }

    /// Runs kubectl in the scene's namespace.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.kubectl_with(args, "")
    }

    pub fn kubectl_with(&self, args: &[&str], stdin: &str) -> String {
        self.site.kubectl_with(args, stdin).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Starts a shell script on a Station whose recipe is `shell`.
    pub async fn run(&self, station: &str, script: &str) -> String {
        self.run_as("", station, script).await
    }

    /// The same with a name that ends in `suffix`.
    pub async fn run_as(&self, suffix: &str, station: &str, script: &str) -> String {
        self.run_with(suffix, station, &[("script", script)]).await
    }

    /// Starts a run with parameters.
    pub async fn run_with(&self, suffix: &str, station: &str, parameters: &[(&str, &str)]) -> String {
        let name = format!("{}{suffix}", self.name);
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let spec = AgentSpec {
            station_ref: station.to_owned(),
            parameters: parameters.collect(),
            task_id: "e2e".to_owned(),
            ..AgentSpec::default()
        };
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let agent = Agent { metadata, spec, status: None };
        self.api::<Agent>().create(&PostParams::default(), &agent).await.expect("the Agent is accepted");
        name
    }

    /// The Agent once its run has ended.
    pub async fn ended(&self, agent: &str) -> Agent {
        let ended = self.until(agent, "the end of the run", STEP, |agent: Option<&Agent>| {
            agent.is_some_and(|agent| agent.phase().is_terminal())
        });
        ended.await.expect("an Agent that has ended")
    }

    /// Waits until the agent of a run is at work, or has been already.
    pub async fn at_work(&self, agent: &str) -> Pod {
        let pod = self.pod_of(agent).await.name_any();
        let running = self.until(&pod, "the agent at work", STEP, |pod: Option<&Pod>| {
            agent_state(pod).is_some_and(|state| state.running.is_some() || state.terminated.is_some())
        });
        running.await.expect("a running pod")
    }

    /// Waits until the agent in that pod has printed `text`.
    pub async fn printed(&self, pod: &str, text: &str) {
        let params = LogParams { container: Some(names::CONTAINER_AGENT.to_owned()), ..LogParams::default() };
        let pods = self.api::<Pod>();
        wait_for(&format!("{text:?} in the log of {pod}"), STEP, || {
            paused(async {
                let log = pods.logs(pod, &params).await;
                if log.as_ref().is_ok_and(|log| log.contains(text)) { Ok(()) } else { Err(format!("{log:?}")) }
            })
        })
        .await;
    }

    /// The pod of a run, as soon as there is one.
    pub async fn pod_of(&self, agent: &str) -> Pod {
        let pods = wait_for("a pod of the run", STEP, || {
            paused(async { self.pods_of(agent).await.pop().ok_or(format!("{agent}: none")) })
        });
        pods.await
    }

    /// All pods of a run.
    pub async fn pods_of(&self, agent: &str) -> Vec<Pod> {
        let labels = format!("{}={}", names::LABEL_JOB_NAME, names::job_name(agent));
        let pods = self.api::<Pod>().list(&ListParams::default().labels(&labels)).await;
        pods.map(|pods| pods.items).unwrap_or_default()
    }

    /// Watches an object until the condition holds; the object as it was then.
    pub async fn until<K>(
        &self,
        name: &str,
        what: &str,
        limit: Duration,
        holds: impl Fn(Option<&K>) -> bool,
    ) -> Option<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Send
            + 'static,
    {
        let api: Api<K> = self.api();
        let watch = async {
            loop {
                match await_condition(api.clone(), name, |object: Option<&K>| holds(object)).await {
                    Ok(object) => return object,
                    Err(_) => sleep(PAUSE).await,
                }
            }
        };
        match timeout(limit, watch).await {
            Ok(object) => object,
            Err(_) => {
                let seen = api.get_opt(name).await.map(|object| serde_json::to_string(&object).unwrap_or_default());
                panic!("{name}: waited {limit:?} for: {what}; last seen: {seen:?}")
            }
        }
    }

    /// Waits until a server of the scene is ready.
    pub async fn server_ready(&self, pod: &str) {
        self.until(pod, "the server to be ready", STEP, |pod: Option<&Pod>| {
            let conditions = pod.and_then(|pod| pod.status.as_ref()).and_then(|status| status.conditions.as_ref());
            conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
        .await;
    }

    /// What a server of the scene answers, by way of the API server.
    pub async fn ask_server(&self, pod: &str, path: &str) -> Result<String, String> {
        let uri = format!("/api/v1/namespaces/{}/pods/{pod}:8080/proxy/{path}", self.site.namespace);
        let request = http::Request::get(uri).body(Vec::new()).expect("a request");
        self.client.request_text(request).await.map_err(|error| error.to_string())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Shown with --show-output.
        eprintln!("scene {} took {:.1?}", self.name, self.began.elapsed());
        if !std::thread::panicking() {
            return;
        }
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.txt", self.name));
        let written = std::fs::write(&path, self.site.describe());
        eprintln!("scene {} failed; the state of its namespace: {} {written:?}", self.name, path.display());
    }
}

/// An answer that is not good yet, with a pause after it: for [`wait_for`], which asks again at once.
pub async fn paused<T, S>(ask: impl Future<Output = Result<T, S>>) -> Result<T, S> {
    let answer = ask.await;
    if answer.is_err() {
        sleep(PAUSE).await;
    }
    answer
}

/// The state of the container `agent`.
pub fn agent_state(pod: Option<&Pod>) -> Option<&ContainerState> {
    let statuses = pod?.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == names::CONTAINER_AGENT)?.state.as_ref()
}

/// The output of a run.
pub fn output(agent: &Agent) -> &str {
    agent.status.as_ref().and_then(|status| status.output.as_deref()).unwrap_or_default()
}

/// The exit code and the reason of a run that has ended, with its phase.
pub fn ending(agent: &Agent) -> (Phase, Option<i32>, String) {
    let status = agent.status.clone().unwrap_or_default();
    (agent.phase(), status.exit_code, status.failure_reason.unwrap_or_default())
}
