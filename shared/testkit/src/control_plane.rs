use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use k8s_openapi::{
    api::{authentication::v1::TokenRequest, core::v1::ServiceAccount},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams},
};
use serde_json::json;

use crate::{
    AuditEvent, Process, TempDir, audit,
    pki::{Authority, Identity, signing_key},
    programs::program,
    wait_for,
};

/// How long the API server may take to be ready; on two cores with nothing else to do it is two seconds.
const START_LIMIT: Duration = Duration::from_secs(60);
/// A port that was free a moment ago may be taken by another process: start again with others, this often.
const START_ATTEMPTS: usize = 3;
/// The controllers that tests need: those that no resource of ours lives without.
const CONTROLLERS: &str = "job-controller,garbage-collector-controller,serviceaccount-controller,\
                           ttl-after-finished-controller,namespace-controller,resourcequota-controller";

/// A real API server with its etcd, on loopback ports of its own, with RBAC, an audit log and our resource definitions.
/// It runs no kubelet and, unless asked for, no controllers.
pub struct ControlPlane {
    port: u16,
    authority: Arc<Authority>,
    admin_token: String,
    controller_manager: OnceLock<Process>,
    api_server: Process,
    etcd: Process,
    // Last, so that its users are gone before it is.
    dir: TempDir,
}

impl ControlPlane {
    /// The one that all tests of this process share; the first to ask starts it.
    ///
    /// # Panics
    /// It does not start.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceLock<ControlPlane> = OnceLock::new();
        let started = tokio::task::spawn_blocking(|| SHARED.get_or_init(Self::boot));
        started.await.expect("the control plane starts")
    }

    /// One of a test's own, for a test that kills parts of it.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start() -> Self {
        tokio::task::spawn_blocking(Self::boot).await.expect("the control plane starts")
    }

    /// The same with kube-controller-manager, which runs from here on for all tests of this process.
    ///
    /// # Panics
    /// It does not start.
    pub async fn with_controller_manager(&'static self) -> &'static Self {
        let started = tokio::task::spawn_blocking(|| self.controller_manager.get_or_init(|| self.run_controllers()));
        started.await.expect("kube-controller-manager starts");
        self
    }

    /// Where the API server listens, for a [`crate::Proxy`].
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// A client that may do everything. Made anew, since a client belongs to the runtime of the test that asks.
    pub fn client(&self) -> Client {
        client(self.config())
    }

    /// The configuration of [`ControlPlane::client`]; put a proxy's address into `cluster_url` to go through it.
    pub fn config(&self) -> Config {
        self.config_with(&self.admin_token)
    }

    /// A client with exactly the rights of a service account, made if it is not there.
    ///
    /// # Panics
    /// The API server refuses.
    pub async fn client_as(&self, namespace: &str, account: &str) -> Client {
        client(self.config_as(namespace, account).await)
    }

    /// The configuration of [`ControlPlane::client_as`].
    ///
    /// # Panics
    /// The API server refuses.
    pub async fn config_as(&self, namespace: &str, account: &str) -> Config {
        self.config_with(&self.token_for(namespace, account).await)
    }

    /// A kubeconfig file with the rights of a service account, for a program that runs as a process of its own.
    ///
    /// # Panics
    /// The API server refuses.
    pub async fn kubeconfig_as(&self, namespace: &str, account: &str) -> PathBuf {
        let token = self.token_for(namespace, account).await;
        self.kubeconfig(&format!("{namespace}.{account}.kubeconfig"), &token, self.address())
    }

    /// The same through `address`, a proxy's.
    ///
    /// # Panics
    /// The API server refuses.
    pub async fn kubeconfig_through(&self, address: SocketAddr, namespace: &str, account: &str) -> PathBuf {
        let token = self.token_for(namespace, account).await;
        self.kubeconfig(&format!("{namespace}.{account}.{}.kubeconfig", address.port()), &token, address)
    }

    /// A kubeconfig file that may do everything, for kubectl.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig("admin.kubeconfig", &self.admin_token, self.address())
    }

    /// A token of a service account, made if it is not there.
    ///
    /// # Panics
    /// The API server refuses.
    pub async fn token_for(&self, namespace: &str, account: &str) -> String {
        let api: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let wanted = ServiceAccount { metadata: named(account), ..ServiceAccount::default() };
        exists(api.create(&PostParams::default(), &wanted).await);
        let request = TokenRequest::default();
        let answer = api.create_token_request(account, &PostParams::default(), &request).await.expect("a token");
        answer.status.expect("a token").token
    }

    /// Every request so far, of all tests of this process. What was answered before this call is in it.
    ///
    /// # Panics
    /// The log cannot be read.
    pub async fn audit(&self) -> Vec<AuditEvent> {
        // A request is logged around the time of its answer. Once one that came later is in the log, so are those before.
        let marker = format!("/version?marker={:016x}", rand::random::<u64>());
        let request = http_get(&marker);
        self.client().request_text(request).await.expect("the API server answers");
        wait_for("the audit log has this request", Duration::from_secs(10), || async {
            let log = std::fs::read_to_string(self.dir.path().join("audit.log")).expect("an audit log");
            let events = audit::parse(&log);
            if events.iter().any(|event| event.uri == marker) { Ok(events) } else { Err(events.len()) }
        })
        .await
    }

    /// SIGSTOP for the API server: connections stay open and nothing is answered. Not for the shared one.
    pub fn pause_api_server(&self) {
        self.api_server.pause();
    }

    /// SIGCONT, after [`ControlPlane::pause_api_server`].
    pub fn resume_api_server(&self) {
        self.api_server.resume();
    }

    /// A certificate for a server that a test plays.
    pub(crate) fn server_identity(&self) -> Identity {
        self.authority.server()
    }

    fn boot() -> Self {
        for attempt in 1.. {
            match Self::try_boot() {
                Ok(plane) => return plane,
                Err(log) if attempt == START_ATTEMPTS => panic!("the control plane does not start: {log}"),
                Err(_) => {}
            }
        }
        unreachable!("the loop ends by itself")
    }

    fn try_boot() -> Result<Self, String> {
        let dir = TempDir::new("control-plane");
        let authority = authority();
        let admin_token = format!("{:032x}", rand::random::<u128>());
        let [etcd_port, peer_port, port] = free_ports();
        let etcd = run_etcd(&dir, etcd_port, peer_port);
        let api_server = run_api_server(&dir, &authority, &admin_token, port, etcd_port);
        let plane = Self { port, authority, admin_token, controller_manager: OnceLock::new(), api_server, etcd, dir };
        // A runtime of its own: the caller's may be one that a test has stopped the clock of.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(plane.prepare())?;
        Ok(plane)
    }

    async fn prepare(&self) -> Result<(), String> {
        let ready = wait_for("the API server is ready", START_LIMIT, || async {
            if !self.api_server.is_running() || !self.etcd.is_running() {
                return Ok(Err(format!("{}\n{}", self.etcd.log_tail(), self.api_server.log_tail())));
            }
            match self.client().request_text(http_get("/readyz")).await {
                Ok(_) => Ok(Ok(())),
                Err(error) => Err(error.to_string()),
            }
        });
        ready.await?;
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        for (_, definition) in signalbox_types::crd::all() {
            let name = definition.metadata.name.clone().expect("a name");
            api.create(&PostParams::default(), &definition).await.expect("the definition is accepted");
            wait_for("the definition is served", START_LIMIT, || async {
                let seen =
                    api.get_status(&name).await.expect("the definition").status.and_then(|status| status.conditions);
                let served = |type_: &str| {
                    seen.iter().flatten().any(|condition| condition.type_ == type_ && condition.status == "True")
                };
                if served("Established") && served("NamesAccepted") { Ok(()) } else { Err(seen.clone()) }
            })
            .await;
        }
        Ok(())
    }

    fn run_controllers(&self) -> Process {
        let args = [
            format!("--kubeconfig={}", self.admin_kubeconfig().display()),
            format!("--controllers={CONTROLLERS}"),
            format!("--service-account-private-key-file={}", self.dir.path().join("sa.key").display()),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        Process::start(&program("kube-controller-manager"), args, &self.dir.path().join("controller-manager.log"))
    }

    fn config_with(&self, token: &str) -> Config {
        let url = format!("https://{}", self.address());
        let mut config = Config::new(url.parse().expect("an address"));
        config.root_cert = Some(vec![self.authority.der.clone()]);
        config.auth_info.token = Some(token.to_owned().into());
        config
    }

    fn kubeconfig(&self, name: &str, token: &str, address: SocketAddr) -> PathBuf {
        let ca = self.dir.path().join("ca.crt");
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {"server": format!("https://{address}"), "certificate-authority": ca}}],
            "users": [{"name": "test", "user": {"token": token}}],
        });
        // A program of another test may be reading it at this moment.
        let new = self.dir.write(&format!("{name}.{:08x}", rand::random::<u32>()), &config.to_string());
        let place = self.dir.path().join(name);
        std::fs::rename(new, &place).expect("the file is moved into its place");
        place
    }
}

fn authority() -> Arc<Authority> {
    // rustls has to be told which provider to use before anything of it is built.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Arc::new(Authority::new())
}

fn client(config: Config) -> Client {
    Client::try_from(config).expect("a client")
}

fn http_get(path: &str) -> http::Request<Vec<u8>> {
    http::Request::get(path).body(Vec::new()).expect("a valid request")
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

/// Makes sure that a create left an object behind, whoever made it.
pub(crate) fn exists<K>(created: kube::Result<K>) {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        other => drop(other.expect("the object is created")),
    }
}

/// Ports that nobody had a moment ago. All are held until all are known, so that they differ.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("bound").port())
}

fn run_etcd(dir: &TempDir, port: u16, peer_port: u16) -> Process {
    let (client, peer) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let args = [
        format!("--data-dir={}", dir.path().join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // Nothing here has to survive a power failure.
        "--unsafe-no-fsync".to_owned(),
        "--log-level=error".to_owned(),
    ];
    Process::start(&program("etcd"), args, &dir.path().join("etcd.log"))
}

fn run_api_server(dir: &TempDir, authority: &Authority, admin_token: &str, port: u16, etcd_port: u16) -> Process {
    let (server, (private, public)) = (authority.server(), signing_key());
    dir.write("ca.crt", &authority.pem);
    let file = |name: &str, text: &str| dir.write(name, text).display().to_string();
    let private_key = file("sa.key", &private);
    let args = [
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", dir.path().join("certificates").display()),
        format!("--tls-cert-file={}", file("server.crt", &server.certificate)),
        format!("--tls-private-key-file={}", file("server.key", &server.key)),
        format!("--token-auth-file={}", file("tokens.csv", &format!("{admin_token},admin,admin,system:masters\n"))),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", file("sa.pub", &public)),
        format!("--service-account-signing-key-file={private_key}"),
        "--service-cluster-ip-range=198.18.2.0/24".to_owned(),
        format!("--audit-policy-file={}", file("audit-policy.yaml", audit::POLICY)),
        format!("--audit-log-path={}", dir.path().join("audit.log").display()),
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        "--allow-privileged=true".to_owned(),
        // Repairs of the kubernetes Service's endpoints: nobody uses it here.
        "--endpoint-reconciler-type=none".to_owned(),
    ];
    Process::start(&program("kube-apiserver"), args, &dir.path().join("api-server.log"))
}
