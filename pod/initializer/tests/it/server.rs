//! A git server: `git http-backend` behind HTTP, which answers all below `/private/` to the token alone.

use std::{
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, Method, Response, StatusCode, Uri},
};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::TcpListener, process::Command, runtime::Runtime};

use crate::init::git;

pub const TOKEN: &str = "s3cret-token";
/// `x-access-token:s3cret-token`
const BASIC: &str = "Basic eC1hY2Nlc3MtdG9rZW46czNjcmV0LXRva2Vu";

pub struct GitServer {
    pub url: String,
    shared: Arc<Shared>,
    // Dropped last: it runs the server.
    _runtime: Runtime,
}

struct Shared {
    root: TempDir,
    /// Where `/away/` leads.
    away: Option<String>,
    seen: Mutex<Vec<(Uri, bool)>>,
}

impl GitServer {
    pub fn start() -> Self {
        Self::with_away(None)
    }

    pub fn with_away(away: Option<String>) -> Self {
        let runtime = Runtime::new().unwrap();
        let shared = Arc::new(Shared { root: tempfile::tempdir().unwrap(), away, seen: Mutex::default() });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let server = Self { url, shared, _runtime: runtime };
        server.make_repository("public/app.git");
        server.make_repository("private/app.git");
        server
    }

    pub fn root(&self) -> &Path {
        self.shared.root.path()
    }

    /// The requests so far: address, and whether it bore credentials.
    pub fn seen(&self) -> Vec<(Uri, bool)> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// A repository with two commits on `main`, the first tagged `v1` and `annotated`, and a branch `feature/x`.
    fn make_repository(&self, name: &str) {
        let bare = self.root().join(name);
        std::fs::create_dir_all(&bare).unwrap();
        let work = tempfile::tempdir().unwrap();
        let run = |arguments: &[&str]| git(work.path(), &[], arguments).unwrap();
        git(&bare, &[], &["init", "-q", "--bare"]).unwrap();
        run(&["init", "-q"]);
        for (file, tag) in [("one", "v1"), ("two", "v2")] {
            std::fs::write(work.path().join(file), file).unwrap();
            run(&["add", "-A"]);
            run(&["commit", "-qm", file]);
            run(&["tag", tag]);
        }
        run(&["tag", "-a", "-m", "first", "annotated", "v1"]);
        run(&["checkout", "-qb", "feature/x", "v1"]);
        std::fs::write(work.path().join("feature"), "x").unwrap();
        std::os::unix::fs::symlink("/", work.path().join("root")).unwrap();
        run(&["add", "-A"]);
        run(&["commit", "-qm", "feature"]);
        run(&["push", "-q", bare.to_str().unwrap(), "--all"]);
        run(&["push", "-q", bare.to_str().unwrap(), "--tags"]);
    }
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let authorization = headers.get("authorization");
    shared.seen.lock().unwrap().push((uri.clone(), authorization.is_some()));
    let empty = |status: StatusCode| Response::builder().status(status);
    if uri.path().starts_with("/hang/") {
        std::future::pending::<()>().await;
    }
    if let (Some(rest), Some(away)) = (uri.to_string().strip_prefix("/away"), &shared.away) {
        return empty(StatusCode::FOUND).header("location", format!("{away}{rest}")).body(Body::empty()).unwrap();
    }
    let allowed = authorization.is_some_and(|value| value == BASIC);
    if uri.path().starts_with("/private/") && !allowed {
        let challenge = empty(StatusCode::UNAUTHORIZED).header("www-authenticate", "Basic realm=\"git\"");
        return challenge.body(Body::empty()).unwrap();
    }
    backend(shared.root.path(), method, &uri, &headers, allowed, body).await
}

/// One CGI call: <https://git-scm.com/docs/git-http-backend>.
async fn backend(
    root: &Path,
    method: Method,
    uri: &Uri,
    headers: &HeaderMap,
    allowed: bool,
    body: Bytes,
) -> Response<Body> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut command = Command::new("git");
    command.arg("http-backend").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    command.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
    command.env("PATH_INFO", uri.path()).env("QUERY_STRING", uri.query().unwrap_or_default());
    command.env("REQUEST_METHOD", method.as_str()).env("CONTENT_TYPE", header("content-type"));
    command.env("HTTP_CONTENT_ENCODING", header("content-encoding")).env("GIT_PROTOCOL", header("git-protocol"));
    command.env("CONTENT_LENGTH", body.len().to_string()).env("REMOTE_ADDR", "127.0.0.1");
    if allowed {
        command.env("REMOTE_USER", "agent");
    }
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    tokio::spawn(async move { stdin.write_all(&body).await });
    let output = child.wait_with_output().await.unwrap().stdout;

    let split = output.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let (head, body) = (String::from_utf8_lossy(&output[..split]), output[split + 4..].to_vec());
    let mut response = Response::builder();
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        response = match name {
            "Status" => response.status(value[..3].parse::<u16>().unwrap()),
            _ => response.header(name, value),
        };
    }
    response.body(body.into()).unwrap()
}
