//! A namespace with a recipe, a Station and a played node, and hands for what the job-launcher and the kubelet do.

use std::{fmt::Debug, path::PathBuf, sync::OnceLock};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{
    Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use signalbox_agents::{
    Run,
    job::{self, JobOptions},
};
use signalbox_testkit::{Namespace, kubelet, wait_for};
use signalbox_types::{Agent, AgentDefinition, Station};

use crate::program::{LIMIT, Ran, Running, run};

/// A namespace for one test.
pub struct Scene {
    pub namespace: Namespace,
    pub kubeconfig: PathBuf,
    pub station: Station,
    pub definition: AgentDefinition,
}

impl Scene {
    pub async fn new() -> Self {
        let namespace = Namespace::fresh().await;
        let definition = namespace.create(include_str!("../fixtures/definition.yaml")).await;
        let station = namespace.create(include_str!("../fixtures/station.yaml")).await;
        // Written once: another test's program may be reading it.
        static KUBECONFIG: OnceLock<PathBuf> = OnceLock::new();
        let kubeconfig = KUBECONFIG.get_or_init(|| namespace.plane().admin_kubeconfig()).clone();
        Self { namespace, kubeconfig, station, definition }
    }

    pub fn client(&self) -> Client {
        self.namespace.plane().client()
    }

    /// Runs a command to its end.
    pub async fn cli(&self, args: &[&str]) -> Ran {
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        let mut all = args.to_vec();
        // Behind `--` everything is a parameter.
        let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        all.splice(at..at, ["-n", self.namespace.name.as_str(), "--kubeconfig", kubeconfig]);
        run(&all).await
    }

    /// Starts a command.
    pub fn start(&self, args: &[&str]) -> Running {
        Running::start(&self.kubeconfig, &self.namespace.name, args)
    }

    /// Makes an Agent of the Station.
    pub async fn agent(&self, name: &str) -> Agent {
        let spec = json!({"stationRef": self.station.name_any(), "parameters": {"name": "Ada", "text": "x"}});
        self.create(json!({"apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent",
                           "metadata": {"name": name}, "spec": spec}))
            .await
    }

    /// Makes an Agent with that status.
    pub async fn agent_with(&self, name: &str, status: Value) -> Agent {
        self.agent(name).await;
        self.patch_status(name, status).await
    }

    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        self.namespace.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn get(&self, name: &str) -> Agent {
        self.namespace.api().get(name).await.unwrap()
    }

    /// Waits until an Agent is there.
    pub async fn appears(&self, name: &str) -> Agent {
        let agents = self.namespace.api::<Agent>();
        wait_for("the Agent is there", LIMIT, || async { agents.get_opt(name).await.unwrap().ok_or("none") }).await
    }

    /// Writes a status, as the job-launcher does.
    pub async fn patch_status(&self, name: &str, status: Value) -> Agent {
        let patch = Patch::Merge(json!({ "status": status }));
        self.namespace.api::<Agent>().patch_status(name, &PatchParams::default(), &patch).await.unwrap()
    }

    /// Plays the job-launcher and the Job controller: the Agent's Job and its pod, and the Agent is Running.
    pub async fn play_start(&self, name: &str) -> Pod {
        let agent = self.appears(name).await;
        let options = JobOptions { agent_image: "played".to_owned(), traceparent: None };
        let run = Run { agent: &agent, station: &self.station, definition: &self.definition };
        let job = job::build(&run, &options).unwrap();
        let job: Job = self.namespace.api().create(&PostParams::default(), &job).await.unwrap();
        let pod = kubelet::make_pod(&self.client(), &self.namespace.name, &job.name_any()).await;
        let status = json!({"phase": "Running", "jobName": job.name_any(), "startedAt": "2026-06-22T12:00:00Z"});
        self.patch_status(name, status).await;
        pod
    }

    /// Plays the job-launcher: the Agent has ended with that code.
    pub async fn play_end(&self, name: &str, code: i32, output: &str) {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let mut status =
            json!({"phase": phase, "exitCode": code, "output": output, "completedAt": "2026-06-22T12:00:12Z"});
        if code != 0 {
            status["failureReason"] = json!("Job failed");
        }
        self.patch_status(name, status).await;
    }
}

/// Lines as a kubelet gives them when it is asked for their times.
pub fn stamped(lines: &[&str]) -> String {
    let stamp = |(at, line): (usize, &&str)| format!("2026-06-22T12:00:{at:02}.000000001Z {line}\n");
    lines.iter().enumerate().map(stamp).collect()
}
