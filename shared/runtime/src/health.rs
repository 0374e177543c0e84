//! `/healthz`, `/readyz` and `/metrics` of a service, `docs/contract/agents.md` section 15, and `PUT /log-filter`.

use std::{
    collections::BTreeSet,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    extract::{ConnectInfo, DefaultBodyLimit, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::{get, put},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    metrics::{self, Metrics},
    sync::lock,
    telemetry::LogFilter,
};

/// The longest log filter, in bytes.
const MAX_FILTER: usize = 4096;

/// What `/readyz` tells; cheap to clone, every clone speaks of the same process.
#[derive(Clone)]
pub struct Health(Arc<Flags>);

struct Flags {
    api_reachable: AtomicBool,
    reconcile_healthy: AtomicBool,
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

impl Health {
    /// Of a process that has just started: it has not reached the API server yet, and nothing has failed. A standby
    /// stays reconcile-healthy, so it is ready as soon as it has read its Lease.
    pub fn new() -> Self {
        Self(Arc::new(Flags { api_reachable: AtomicBool::new(false), reconcile_healthy: AtomicBool::new(true) }))
    }

    /// Whether the last look at the Lease reached the API server.
    pub fn set_api_reachable(&self, reachable: bool) {
        self.0.api_reachable.store(reachable, Ordering::Relaxed);
    }

    /// Whether the leader's work gets on; set it to true at the end of a term.
    pub fn set_reconcile_healthy(&self, healthy: bool) {
        self.0.reconcile_healthy.store(healthy, Ordering::Relaxed);
    }

    /// What `/readyz` answers.
    pub fn is_ready(&self) -> bool {
        self.0.api_reachable.load(Ordering::Relaxed) && self.0.reconcile_healthy.load(Ordering::Relaxed)
    }
}

/// The kinds of one term that are not in order: not listed yet, or their listings fail. The service is reconcile-healthy
/// while there is none, and again once the last clone is dropped with the term: a standby always is.
#[derive(Clone)]
pub struct Failing(Arc<Kinds>);

struct Kinds {
    health: Health,
    failing: Mutex<BTreeSet<&'static str>>,
}

impl Failing {
    /// None yet.
    pub fn new(health: Health) -> Self {
        Self(Arc::new(Kinds { health, failing: Mutex::default() }))
    }

    /// Notes whether a kind is in order.
    pub fn set(&self, kind: &'static str, fails: bool) {
        let mut failing = lock(&self.0.failing);
        if fails {
            failing.insert(kind)
        } else {
            failing.remove(kind)
        };
        self.0.health.set_reconcile_healthy(failing.is_empty());
    }
}

impl Drop for Kinds {
    fn drop(&mut self) {
        self.health.set_reconcile_healthy(true);
    }
}

#[derive(Clone)]
struct Shared {
    health: Health,
    metrics: Metrics,
    log_filter: Option<LogFilter>,
}

/// Listens on all addresses of the pod, IPv6 and IPv4 or whichever there is.
///
/// # Errors
/// The port is taken: name `HEALTH_PORT` where this is shown.
pub async fn bind(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
        }
        bound => bound,
    }
}

/// Serves until `shutdown`.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: Metrics,
    log_filter: Option<LogFilter>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let router = router(Shared { health, metrics, log_filter });
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(shutdown.cancelled_owned()).await
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/healthz", get("ok"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(encode_metrics))
        .route("/log-filter", put(set_log_filter))
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .layer(DefaultBodyLimit::max(MAX_FILTER))
        .with_state(shared)
}

async fn not_found() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "not found")
}

async fn readyz(State(shared): State<Shared>) -> (StatusCode, &'static str) {
    if shared.health.is_ready() { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") }
}

async fn encode_metrics(State(shared): State<Shared>) -> Response {
    match shared.metrics.encode() {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics do not encode");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Only from the pod itself (`kubectl port-forward` and `exec` come from there): a filter that logs everything slows a
/// service down, and nobody else on the network is to have that lever.
async fn set_log_filter(
    State(shared): State<Shared>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    body: String,
) -> Response {
    let Some(log_filter) = shared.log_filter.filter(|_| peer.ip().to_canonical().is_loopback()) else {
        return not_found().await.into_response();
    };
    match log_filter.set(body.trim()) {
        Ok(()) => {
            tracing::info!(filter = body.trim(), "log filter changed");
            "ok".into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}
