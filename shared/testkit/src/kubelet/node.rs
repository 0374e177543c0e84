use std::{
    collections::HashMap,
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::{Path, Query, State},
    http::StatusCode,
    routing::get,
    serve::Listener,
};
use k8s_openapi::api::core::v1::{Node as KubeNode, Pod};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::ControlPlane;

/// Logs by namespace, pod and container.
type Logs = Arc<Mutex<HashMap<(String, String, String), String>>>;

/// A node whose kubelet we play: the API server asks it for the logs of its pods, over TLS as it asks any. It runs
/// nothing.
pub struct Node {
    name: String,
    client: Client,
    logs: Logs,
    server: JoinHandle<()>,
}

impl Node {
    /// A node of its own name.
    ///
    /// # Panics
    /// The API server refuses it.
    pub async fn start(plane: &ControlPlane) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let (name, client) = (format!("played-{:016x}", rand::random::<u64>()), plane.client());
        let nodes: Api<KubeNode> = Api::all(client.clone());
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a node");
        nodes.create(&PostParams::default(), &node).await.expect("the node is accepted");
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }});
        nodes
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("the status is accepted");
        let logs = Logs::default();
        let router = Router::new()
            .route("/containerLogs/{namespace}/{pod}/{container}", get(container_logs))
            .with_state(logs.clone());
        let listener = TlsListener { listener, acceptor: acceptor(plane) };
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap_or(()) });
        Self { name, client, logs, server }
    }

    /// Takes a pod in, as a scheduler would have it.
    ///
    /// # Panics
    /// The API server refuses, for one because the pod has a node.
    pub async fn take(&self, namespace: &str, pod: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.name},
        });
        let bound: kube::Result<serde_json::Value> =
            pods.create_subresource("binding", pod, &PostParams::default(), &binding).await;
        bound.expect("the pod is bound");
    }

    /// Sets what a container has printed so far. A container without it has not started: its log is a 400.
    pub fn set_log(&self, namespace: &str, pod: &str, container: &str, text: impl Into<String>) {
        let key = (namespace.to_owned(), pod.to_owned(), container.to_owned());
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).insert(key, text.into());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn container_logs(
    State(logs): State<Logs>,
    Path(key): Path<(String, String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> (StatusCode, String) {
    let text = logs.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    let Some(text) = text else {
        let (_, pod, container) = key;
        let message = format!("container \"{container}\" in pod \"{pod}\" is waiting to start: PodInitializing");
        return (StatusCode::BAD_REQUEST, message);
    };
    match query.get("tailLines").and_then(|lines| lines.parse().ok()) {
        Some(lines) => (StatusCode::OK, tail(&text, lines).to_owned()),
        None => (StatusCode::OK, text),
    }
}

/// The last `lines` lines.
fn tail(text: &str, lines: usize) -> &str {
    let ends = text.trim_end_matches('\n').rmatch_indices('\n').map(|(at, _)| at + 1);
    lines.checked_sub(1).map_or("", |before| ends.clone().nth(before).map_or(text, |start| &text[start..]))
}

fn acceptor(plane: &ControlPlane) -> TlsAcceptor {
    let identity = plane.server_identity();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.key_der));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate_der.into()], key)
        .expect("a certificate and its key");
    TlsAcceptor::from(Arc::new(config))
}

struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, address)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
