//! What a test of a service stands in: a namespace of its own on a real API server with kube-controller-manager, a
//! nats-server of its own, and every service under its own account with the Role of `k8s/base` and no other right. Where
//! more than one namespace is served, the rights are those of the overlays for that.
//!
//! The tests of the other services include this file too: each of them needs a watcher.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::{
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::Parser;
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Config,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use signalbox_runtime::{
    bus::{Bus, BusConfig},
    client::Clients,
    health::Health,
    lease::identity,
    metrics::Metrics,
    scope::Scope,
    service::Service,
};
use signalbox_testkit::{AuditEvent, ControlPlane, Namespace, Nats, Process, TempDir, eventually, wait_for};
use signalbox_types::{Agent, bus::released_subject};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;

/// How long anything may take that needs no silence to be noticed. Far above what it takes: tests share the machine, and
/// an API server that is starved for some seconds costs a leader its Lease.
pub const LIMIT: Duration = Duration::from_secs(120);
/// How long anything may take that is found once the bus has been silent for long enough (35 to 45 s, and a listing).
pub const SILENT_LIMIT: Duration = Duration::from_secs(240);
/// The services whose Roles are applied.
const SERVICES: [&str; 3] = ["watcher", "job-launcher", "pruner"];

/// The world of one test.
pub struct World {
    pub namespace: Namespace,
    pub nats: Arc<Nats>,
    /// The namespace of the services.
    pub home: String,
    /// The namespaces that they serve.
    pub scope: Scope,
}

/// Where a service finds the outer world, where that is not straight ahead.
#[derive(Clone, Copy, Default)]
pub struct Via<'a> {
    pub gate: Option<&'a Gate>,
    pub bus: Option<SocketAddr>,
}

impl World {
    pub async fn new() -> Self {
        let world = Self::on(ControlPlane::shared().await).await;
        grant(&world.namespace, base_rights()).await;
        world
    }

    /// Several namespaces, all of which are served by the services of the first: that one has the Roles of `k8s/base`,
    /// the others those of `k8s/overlays/namespaces`.
    pub async fn several<const N: usize>() -> [Self; N] {
        let mut worlds = vec![Self::new().await];
        while worlds.len() < N {
            let world = worlds[0].beside().await;
            world.namespace.apply(&rights("namespaces/team-a", &worlds[0].home)).await;
            worlds.push(world);
        }
        let names = worlds.iter().map(|world| world.namespace.name.clone()).collect::<Vec<_>>().join(",");
        worlds.iter_mut().for_each(|world| world.scope = Scope::parse(&names).unwrap());
        for world in &worlds {
            world.may_list().await;
        }
        worlds.try_into().unwrap_or_else(|_| unreachable!("as many as were asked for"))
    }

    /// A world on a control plane of its own, all of which is served: with the ClusterRoles of `k8s/overlays/cluster`.
    pub async fn whole_cluster() -> Self {
        let plane = ControlPlane::start().await;
        // The services' own tasks hold on to it until the process ends.
        let mut world = Self::on(Box::leak(Box::new(plane))).await;
        world.scope = Scope::all();
        grant(&world.namespace, vec![rights("cluster", &world.home)]).await;
        world.may_list().await;
        world
    }

    async fn on(plane: &'static ControlPlane) -> Self {
        let filter = tracing_subscriber::EnvFilter::new("info,kube=warn");
        let logs = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().with_ansi(false);
        // An error means that another test of this process was first.
        let _ = logs.try_init();
        let namespace = Namespace::fresh_on(plane).await;
        let (nats, _) = tokio::join!(Nats::start(), plane.with_controller_manager());
        let home = namespace.name.clone();
        Self { scope: Scope::one(&home), namespace, nats: Arc::new(nats), home }
    }

    /// Another namespace in front of the same services. No right in it comes with this.
    pub async fn beside(&self) -> Self {
        let (nats, home, scope) = (self.nats.clone(), self.home.clone(), self.scope.clone());
        Self { namespace: Namespace::fresh_on(self.namespace.plane()).await, nats, home, scope }
    }

    /// Waits until the rights of all services in this namespace are in force.
    async fn may_list(&self) {
        for name in SERVICES {
            let client = self.namespace.plane().client_as(&self.home, &Self::account(name)).await;
            let agents: Api<Agent> = Api::namespaced(client, &self.namespace.name);
            wait_for("the rights are in force", LIMIT, || async { agents.list(&Default::default()).await }).await;
        }
    }

    /// The account of a service.
    pub fn account(name: &str) -> String {
        format!("signalbox-{name}")
    }

    /// A service that is set up and not yet serving.
    pub async fn service(&self, name: &'static str, via: Via<'_>) -> Service {
        let mut config = self.namespace.plane().config_as(&self.home, &Self::account(name)).await;
        if let Some(gate) = via.gate {
            config.cluster_url = gate.url().parse().unwrap();
        }
        self.service_with(name, config, via.bus.unwrap_or_else(|| self.nats.address())).await
    }

    /// The same with a client configuration of the test's own.
    pub async fn service_with(&self, name: &'static str, config: Config, bus: SocketAddr) -> Service {
        Service { scope: self.scope.clone(), ..service(name, &self.home, config, bus).await }
    }

    /// A watcher that serves.
    pub async fn watcher(&self) -> Replica {
        self.watcher_via(Via::default()).await
    }

    /// A watcher that serves, by another way.
    pub async fn watcher_via(&self, via: Via<'_>) -> Replica {
        run_watcher(self.service("watcher", via).await)
    }

    /// A service as a process of its own: the real binary `exe`.
    pub async fn program(&self, exe: &str, name: &str, pod: &str, gate: Option<&Gate>) -> Program {
        self.program_with(exe, name, pod, gate, &[]).await
    }

    /// The same with more of an environment.
    pub async fn program_with(&self, exe: &str, name: &str, pod: &str, gate: Option<&Gate>, more: &[&str]) -> Program {
        let (plane, namespace, account) = (self.namespace.plane(), &self.home, Self::account(name));
        let mut environment = match gate {
            Some(gate) => {
                let token = plane.token_for(namespace, &account).await;
                vec![format!("KUBE_API_URL={}", gate.url()), format!("KUBE_API_TOKEN={token}")]
            }
            None => vec![format!("KUBECONFIG={}", plane.kubeconfig_as(namespace, &account).await.display())],
        };
        environment.extend([
            format!("NAMESPACE={}", self.scope),
            format!("NATS_URL={}", self.nats.url()),
            format!("POD_NAME={pod}"),
        ]);
        environment.extend(more.iter().map(|&variable| variable.to_owned()));
        Program::start(exe, environment).await
    }

    /// Who holds the Lease of a service; empty for nobody.
    pub async fn holder(&self, name: &str) -> String {
        let lease = self.leases().get_opt(&Self::account(name)).await.unwrap();
        lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
    }

    /// Waits until a process whose identity begins with `pod` holds the Lease.
    pub async fn led_by(&self, name: &str, pod: &str) {
        wait_for(&format!("{pod} leads"), LIMIT, || async {
            let holder = self.holder(name).await;
            if holder.starts_with(&format!("{pod}_")) { Ok(()) } else { Err(holder) }
        })
        .await;
    }

    /// Takes the Lease from its holder, which the test knows to be dead, and tells the standbys.
    pub async fn free_lease(&self, name: &str) {
        self.set_holder(name, "").await;
        let bus = self.bus().await;
        bus.publish(released_subject(&Self::account(name)), Default::default()).await.unwrap();
        bus.flush().await.unwrap();
    }

    /// Writes another holder into the Lease.
    pub async fn set_holder(&self, name: &str, holder: &str) {
        let spec = json!({"holderIdentity": holder, "renewTime": "2026-06-22T12:00:00.000000Z"});
        let patch = Patch::Merge(json!({"spec": spec}));
        self.leases().patch(&Self::account(name), &PatchParams::default(), &patch).await.unwrap();
    }

    /// A connection to the bus for the test itself.
    pub async fn bus(&self) -> async_nats::Client {
        async_nats::connect(self.nats.url()).await.unwrap()
    }

    /// The requests of a service in this namespace so far, in their order, those about its Lease left out.
    pub async fn requests(&self, name: &str) -> Vec<AuditEvent> {
        let user = format!("system:serviceaccount:{}:{}", self.home, Self::account(name));
        let mut events = self.namespace.audit().await;
        events.retain(|event| event.complete && event.user == user && event.resource != "leases");
        events.sort_by_key(|event| event.at);
        events
    }

    fn leases(&self) -> Api<Lease> {
        self.namespace.api()
    }
}

/// Messages of a subject as they come.
pub async fn next_message(subscriber: &mut async_nats::Subscriber, limit: Duration) -> async_nats::Message {
    timeout(limit, subscriber.next()).await.expect("a message in time").expect("a subscription")
}

/// A service in this process, on whatever API server `config` names.
pub async fn service(name: &'static str, namespace: &str, config: Config, bus: SocketAddr) -> Service {
    let metrics = Metrics::new().unwrap();
    let clients = Clients::from_config(config, &metrics).unwrap();
    let bus = BusConfig { url: format!("nats://{bus}"), credentials: None, name: name.to_owned() };
    Service {
        name,
        namespace: namespace.to_owned(),
        scope: Scope::one(namespace),
        clients,
        bus: Bus::connect(bus).await.unwrap(),
        metrics,
        health: Health::new(),
        shutdown: CancellationToken::new(),
        identity: identity(name),
    }
}

/// Starts a watcher.
pub fn run_watcher(service: Service) -> Replica {
    Replica::run(service, |service| signalbox_watcher::serve(service, signalbox_watcher::Args::parse_from(["watcher"])))
}

/// A directory of manifests.
fn manifests(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../k8s").join(path)
}

/// The documents of a file of manifests.
pub fn documents(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&std::fs::read_to_string(manifests(path)).unwrap()).unwrap()
}

/// The Roles of `k8s/base`.
fn base_rights() -> Vec<String> {
    let mut rights = Vec::new();
    for name in SERVICES {
        let wanted = ["ServiceAccount", "Role", "RoleBinding"];
        let documents = documents(&format!("base/{name}.yaml"));
        let chosen = documents.into_iter().filter(|document| wanted.iter().any(|kind| document["kind"] == *kind));
        rights.extend(chosen.map(|document| document.to_string()));
    }
    assert_eq!(rights.len(), 3 * SERVICES.len());
    rights
}

/// The rights of an overlay, for the services of the namespace `home`.
fn rights(overlay: &str, home: &str) -> String {
    let mut rights = documents(&format!("overlays/{overlay}/rights.yaml"));
    if overlay == "cluster" {
        rights.extend(documents("overlays/cluster/leases.yaml"));
        let bindings: Vec<_> = base_rights().iter().map(|right| serde_saphyr::from_str(right).unwrap()).collect();
        rights.extend(bindings.into_iter().filter(|right: &Value| right["kind"] != "Role"));
    }
    for binding in &mut rights {
        if binding["subjects"].is_array() {
            binding["subjects"][0]["namespace"] = json!(home);
        }
    }
    rights.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")
}

/// Applies rights of the services in their own namespace; their Leases can be had once this returns.
async fn grant(namespace: &Namespace, rights: Vec<String>) {
    namespace.apply(&rights.join("\n---\n")).await;
    for name in SERVICES {
        let account = World::account(name);
        let leases: Api<Lease> = Api::namespaced(namespace.client_as(&account).await, &namespace.name);
        wait_for("the Role is in force", LIMIT, || async { leases.get_opt(&account).await }).await;
    }
}

/// A service that serves in this process.
pub struct Replica {
    pub service: Service,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Replica {
    pub fn run<F>(service: Service, serve: impl FnOnce(Service) -> F) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        Self { task: tokio::spawn(serve(service.clone())), service }
    }

    /// The value of a metric by its name and labels as `/metrics` shows them.
    pub fn metric(&self, name: &str) -> Option<f64> {
        value_of(&self.service.metrics.encode().unwrap(), name)
    }

    /// Waits until it leads.
    pub async fn leads(&self) {
        eventually("it leads", LIMIT, || async { self.metric("controller_is_leader") == Some(1.0) }).await;
    }

    /// Waits until it has seen everything once and acts.
    pub async fn works(&self) {
        self.leads().await;
        eventually("it is ready", LIMIT, || async { self.service.health.is_ready() }).await;
    }

    /// The orderly end.
    pub async fn stop(self) {
        self.service.shutdown.cancel();
        let ended = timeout(LIMIT, self.task).await.expect("it ends").expect("it does not panic");
        ended.expect("it ends well");
    }
}

/// A service as a process of its own.
pub struct Program {
    pub process: Process,
    port: u16,
    // Its log is in it.
    _dir: TempDir,
}

impl Program {
    async fn start(exe: &str, environment: Vec<String>) -> Self {
        let dir = TempDir::new("service");
        let port = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let log = dir.path().join("log");
        let args = ["-i".to_owned()].into_iter().chain(environment);
        let args = args.chain([format!("HEALTH_PORT={port}"), exe.to_owned()]);
        let process = Process::start(Path::new("/usr/bin/env"), args, &log);
        let program = Self { process, port, _dir: dir };
        wait_for("the program answers", LIMIT, || async {
            assert!(program.process.is_running(), "it ended: {}", program.process.log_tail());
            program.get("/healthz").await.ok_or_else(|| program.process.log_tail())
        })
        .await;
        program
    }

    /// The body of a GET from its health port; `None` while nobody listens.
    pub async fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
    }

    /// The value of a metric.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        value_of(&self.get("/metrics").await?, name)
    }
}

fn value_of(metrics: &str, name: &str) -> Option<f64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}
