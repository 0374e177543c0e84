//! A plain-HTTP door to the real API server that can slam on one kind of request: what a TCP proxy cannot tell apart.
//! Everything that no rule names goes through unchanged, with the token of whoever asks.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Request, State},
    http::{
        Method, StatusCode,
        header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, TRANSFER_ENCODING},
    },
    response::{IntoResponse, Response},
};
use futures::StreamExt;
use signalbox_testkit::ControlPlane;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle, time::Instant};

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Act {
    /// It goes through.
    Pass,
    /// It is answered with this and never reaches the API server.
    Answer(u16, String),
    /// The same, once [`Gate::release`] was called.
    AnswerLater(u16, String),
    /// It reaches the API server twice, as over a network that repeats; the second answer is given.
    Twice,
    /// It waits here until [`Gate::release`].
    HoldRequest,
    /// It goes through, and its answer waits here until [`Gate::release`].
    HoldAnswer,
}

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub token: String,
    pub at: Instant,
}

impl Asked {
    /// By method and the end of the path: `/stations/station`, `/jobs`.
    pub fn is(&self, method: &str, end: &str) -> bool {
        self.method == method && self.path.ends_with(end)
    }

    /// Whether it is the first page of a LIST of whole objects of that kind: the one before a watch.
    pub fn is_full_list_of(&self, kind: &str) -> bool {
        self.is("GET", &format!("/{kind}")) && self.query.split('&').any(|field| field == "limit=50")
    }

    /// Whether it is the watch of that kind.
    pub fn is_watch_of(&self, kind: &str) -> bool {
        self.is("GET", &format!("/{kind}")) && self.query.contains("watch=true")
    }
}

type Rule = Box<dyn FnMut(&Asked) -> Act + Send>;

struct Shared {
    upstream: kube::Client,
    rule: Mutex<Rule>,
    asked: Mutex<Vec<Asked>>,
    releases: watch::Sender<u64>,
    drops: watch::Sender<u64>,
}

/// A gate that has been opened for everything.
pub struct Gate {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Gate {
    /// A gate before the API server.
    pub async fn before(plane: &ControlPlane) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut config = plane.config();
        // The token is that of whoever asks.
        config.auth_info = Default::default();
        config.default_retry = false;
        config.read_timeout = None;
        let upstream = kube::Client::try_from(config).unwrap();
        let ((releases, _), (drops, _)) = (watch::channel(0), watch::channel(0));
        let rule: Mutex<Rule> = Mutex::new(Box::new(|_| Act::Pass));
        let shared = Arc::new(Shared { upstream, rule, asked: Mutex::default(), releases, drops });
        let router = Router::new().fallback(serve).with_state(shared.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap_or(()) });
        Self { address, shared, server }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Decides on every request from now on.
    pub fn rule(&self, rule: impl FnMut(&Asked) -> Act + Send + 'static) {
        *lock(&self.shared.rule) = Box::new(rule);
    }

    /// Lets everything through from now on, and all that waits.
    pub fn release(&self) {
        self.rule(|_| Act::Pass);
        self.shared.releases.send_modify(|count| *count += 1);
    }

    /// Ends all watches that stand, as an API server does after a while.
    pub fn end_watches(&self) {
        self.shared.drops.send_modify(|count| *count += 1);
    }

    /// What was asked for so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }

    /// How many LISTs of whole objects of that kind were begun: those before a watch.
    pub fn full_lists(&self, kind: &str) -> usize {
        self.asked().iter().filter(|asked| asked.is_full_list_of(kind)).count()
    }

    /// How many requests of that method have a path with that end.
    pub fn count(&self, method: &str, end: &str) -> usize {
        self.asked().iter().filter(|asked| asked.is(method, end)).count()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let token = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let asked = Asked {
        method: head.method.clone(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        token: token.trim_start_matches("Bearer ").to_owned(),
        at: Instant::now(),
    };
    let mut released = shared.releases.subscribe();
    // Before the rule: a watch that an earlier rule let through is ended too, though its answer is still on its way.
    let drops = shared.drops.subscribe();
    let act = (lock(&shared.rule))(&asked);
    lock(&shared.asked).push(asked);
    match act {
        Act::Answer(code, body) => answer(code, body),
        Act::AnswerLater(code, body) => {
            let _ = released.changed().await;
            answer(code, body)
        }
        Act::Pass => forward(&shared, &drops, &head, &body).await,
        Act::Twice => {
            forward(&shared, &drops, &head, &body).await;
            forward(&shared, &drops, &head, &body).await
        }
        Act::HoldRequest => {
            let _ = released.changed().await;
            forward(&shared, &drops, &head, &body).await
        }
        Act::HoldAnswer => {
            let answer = forward(&shared, &drops, &head, &body).await;
            let _ = released.changed().await;
            answer
        }
    }
}

fn answer(code: u16, body: String) -> Response {
    (StatusCode::from_u16(code).unwrap(), [(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn forward(
    shared: &Shared,
    drops: &watch::Receiver<u64>,
    head: &axum::http::request::Parts,
    body: &Bytes,
) -> Response {
    let mut request = http::Request::new(kube::client::Body::from(body.to_vec()));
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    for name in [AUTHORIZATION, ACCEPT, CONTENT_TYPE] {
        if let Some(value) = head.headers.get(&name) {
            request.headers_mut().insert(name, value.clone());
        }
    }
    match shared.upstream.send(request).await {
        Ok(mut answer) => {
            answer.headers_mut().remove(TRANSFER_ENCODING);
            let mut drops = drops.clone();
            let dropped = async move { drops.changed().await.is_ok() };
            answer.map(|body| Body::from_stream(Body::new(body).into_data_stream().take_until(Box::pin(dropped))))
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
