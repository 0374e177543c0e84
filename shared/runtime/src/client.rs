//! Clients of the API server: one that reads and retries, one that writes and never sends anything twice.
//!
//! kube's own stack resends on 429, 503 and 504 whatever the method, so a POST could arrive twice. The writer is the same
//! stack without that layer (`Config::default_retry`). hyper's own retry stays: it resends only what was never written to
//! a connection. Both clients re-read the token file for each request, where kube's keeps a token for up to 50 s.

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryFutureExt};
use http::{HeaderName, HeaderValue, Request, Response, Uri, header::AUTHORIZATION};
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::UnsyncBoxBody};
use kube::{
    Config,
    client::{Body, ClientBuilder, DynBody},
    config::{InClusterError, KubeConfigOptions, KubeconfigError},
};
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service};
use tower_http::timeout::TimeoutBody;

use crate::{args::CommonArgs, metrics::Metrics, telemetry};

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long the reader waits for an answer, and then for each next piece of it.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// How long a watch may be silent before it counts as dead. The API server ends each after 290 s (kube asks it to).
const WATCH_LIMIT: Duration = Duration::from_secs(360);
/// How long a write may take in all. After it the outcome is unknown.
pub const WRITE_LIMIT: Duration = Duration::from_secs(5);
/// The largest answer.
const MAX_BODY: usize = 64 * 1024 * 1024;
/// The largest event of a watch.
const MAX_WATCH_LINE: usize = 4 * 1024 * 1024;
/// Where Kubernetes mounts the authority that signs its API server.
const CA_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// `KUBE_API_URL` is no address.
    #[error("KUBE_API_URL: {0}")]
    Url(#[from] http::uri::InvalidUri),
    /// In a pod, but without a usable service account.
    #[error("service account: {0}")]
    InCluster(#[from] InClusterError),
    /// Outside a cluster and without a usable kubeconfig.
    #[error("no KUBE_API_URL, not in a pod, and kubeconfig: {0}")]
    Kubeconfig(#[from] KubeconfigError),
    /// The token cannot be read at the start; later the last good one stays in use.
    #[error("token file {}: {source}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// Certificates or credentials do not parse.
    #[error("client: {0}")]
    Build(#[from] kube::Error),
}

/// The two clients of a service; cheap to clone.
#[derive(Clone)]
pub struct Clients {
    /// For GET, LIST and watch. Retries what the API server asks to retry; 30 s without a byte end a request.
    pub reader: kube::Client,
    /// For everything that changes something, and for the Lease. Each request is sent once and takes
    /// [`WRITE_LIMIT`] at most; a request that ends by it fails with [`kube::Error::Service`], its outcome unknown.
    pub writer: kube::Client,
}

impl Clients {
    /// Clients for the API server that `args` or the environment name: `KUBE_API_URL`, else that of the pod, else the
    /// current context of the kubeconfig.
    ///
    /// # Errors
    /// See [`ClientError`]. An API server that does not answer is none.
    pub async fn new(args: &CommonArgs, metrics: &Metrics) -> Result<Self, ClientError> {
        Self::from_config(find_config(args).await?, metrics)
    }

    /// Clients for the API server of `config`.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn from_config(mut config: Config, metrics: &Metrics) -> Result<Self, ClientError> {
        install_crypto();
        config.connect_timeout = Some(CONNECT_LIMIT);
        // Timeouts are per request, below: one on the connection would cut a quiet watch.
        config.read_timeout = None;
        config.write_timeout = Some(READ_LIMIT);
        // Taken away from kube, which would keep a token for up to 50 s.
        let token_file = config.auth_info.token_file.take().map(PathBuf::from);
        let client = |mode| {
            let mut config = config.clone();
            config.default_retry = mode == Mode::Read;
            let token = token_file.clone().map(TokenFile::open).transpose()?;
            let layer =
                tower::layer::layer_fn(|inner| Guarded { inner, mode, token: token.clone(), metrics: metrics.clone() });
            Ok::<_, ClientError>(ClientBuilder::try_from(config)?.with_layer(&layer).build())
        };
        Ok(Self { reader: client(Mode::Read)?, writer: client(Mode::Write)? })
    }
}

/// Makes ring the TLS provider of the process, so that no library has to guess. Safe to call again.
pub fn install_crypto() {
    // An error means that it was done before.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

async fn find_config(args: &CommonArgs) -> Result<Config, ClientError> {
    if let Some(url) = args.kube_api_url() {
        let mut config = Config::new(url.parse()?);
        config.auth_info.token = args.kube_api_token.as_ref().map(|token| token.expose().to_owned().into());
        config.root_cert_file = Some(PathBuf::from(CA_FILE)).filter(|file| file.exists());
        return Ok(config);
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Ok(Config::incluster()?);
    }
    Ok(Config::from_kubeconfig(&KubeConfigOptions::default()).await?)
}

/// The bearer token of a file that Kubernetes rotates.
#[derive(Clone)]
struct TokenFile {
    path: PathBuf,
    last_good: HeaderValue,
}

impl TokenFile {
    fn open(path: PathBuf) -> Result<Self, ClientError> {
        match Self::read(&path) {
            Ok(last_good) => Ok(Self { path, last_good }),
            Err(source) => Err(ClientError::TokenFile { path, source }),
        }
    }

    fn read(path: &PathBuf) -> std::io::Result<HeaderValue> {
        let text = std::fs::read_to_string(path)?;
        let token = text.trim();
        if token.is_empty() {
            return Err(std::io::Error::other("it is empty"));
        }
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(std::io::Error::other)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The token as it is now. While the file cannot be read, the last good one: it is valid for a while yet (case 64).
    fn header(&mut self) -> HeaderValue {
        match Self::read(&self.path) {
            Ok(value) => self.last_good = value,
            Err(error) => tracing::warn!(%error, path = %self.path.display(), "token file: using the last good token"),
        }
        self.last_good.clone()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
}

/// A request ran out of its time.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
pub struct Elapsed(Duration);

/// A watch event over the limit.
#[derive(Debug, thiserror::Error)]
#[error("a watch event is larger than {MAX_WATCH_LINE} bytes")]
struct WatchLineTooLong;

type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// kube's stack with limits on time and size, the token, the trace and the metric.
struct Guarded<S> {
    inner: S,
    mode: Mode,
    token: Option<TokenFile>,
    metrics: Metrics,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Box<DynBody>>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(token) = &mut self.token {
            request.headers_mut().insert(AUTHORIZATION, token.header());
        }
        let trace = telemetry::traceparent().and_then(|trace| HeaderValue::try_from(trace).ok());
        if let Some(trace) = trace {
            request.headers_mut().insert(HeaderName::from_static("traceparent"), trace);
        }
        let (stream, verb) = (Stream::of(request.uri()), request.method().clone());
        let (mode, metrics) = (self.mode, self.metrics.clone());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let start = Instant::now();
            let answer = match mode {
                Mode::Write => whole(answer).await,
                Mode::Read => piecewise(answer, stream).await,
            };
            if stream != Some(Stream::Watch) {
                metrics.observe_api_request(verb.as_str(), start.elapsed());
            }
            answer
        })
    }
}

/// An answer that goes on as long as there is news.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stream {
    Watch,
    Log,
}

impl Stream {
    fn of(uri: &Uri) -> Option<Self> {
        uri.query()?.split('&').find_map(|pair| match pair {
            "watch=true" | "watch=1" => Some(Self::Watch),
            "follow=true" | "follow=1" => Some(Self::Log),
            _ => None,
        })
    }
}

/// The answer to a write, all of it within the limit: one that breaks off half-way says as little as none.
async fn whole<F>(answer: F) -> Result<Response<AnswerBody>, BoxError>
where
    F: Future<Output = Result<Response<Box<DynBody>>, BoxError>>,
{
    let collected = answer.and_then(|answer| {
        let (head, body) = answer.into_parts();
        let all = Limited::new(body, MAX_BODY).collect().map_ok(move |body| {
            let body = Full::new(body.to_bytes()).map_err(|never| match never {}).boxed_unsync();
            Response::from_parts(head, body)
        });
        all.boxed()
    });
    timeout(WRITE_LIMIT, collected).await.unwrap_or_else(|_| Err(Elapsed(WRITE_LIMIT).into()))
}

/// The answer to a read, passed on as it comes.
async fn piecewise<F>(answer: F, stream: Option<Stream>) -> Result<Response<AnswerBody>, BoxError>
where
    F: Future<Output = Result<Response<Box<DynBody>>, BoxError>>,
{
    let answer = timeout(READ_LIMIT, answer).await.unwrap_or_else(|_| Err(Elapsed(READ_LIMIT).into()));
    answer.map(|answer| {
        answer.map(|body| match stream {
            None => TimeoutBody::new(READ_LIMIT, Limited::new(body, MAX_BODY)).boxed_unsync(),
            Some(Stream::Log) => TimeoutBody::new(WATCH_LIMIT, body).boxed_unsync(),
            Some(Stream::Watch) => TimeoutBody::new(WATCH_LIMIT, with_line_limit(body)).boxed_unsync(),
        })
    })
}

/// Fails a body once a line of it grows over [`MAX_WATCH_LINE`]: the decoder behind it would keep all of it.
fn with_line_limit(body: Box<DynBody>) -> impl http_body::Body<Data = Bytes, Error = BoxError> + Send + 'static {
    let mut line = 0;
    let frames = http_body_util::BodyStream::new(body).map(move |frame| {
        let frame = frame?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        let mut pieces = data.split(|byte| *byte == b'\n').map(<[u8]>::len);
        line += pieces.next().unwrap_or(0);
        let longest = pieces.fold(line, |longest, piece| {
            line = piece;
            longest.max(piece)
        });
        if longest > MAX_WATCH_LINE { Err(WatchLineTooLong.into()) } else { Ok(frame) }
    });
    StreamBody::new(frames)
}
