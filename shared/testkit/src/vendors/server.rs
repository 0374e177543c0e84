use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, Method, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use super::{
    Api, Request,
    answer::{Reply, json},
    anthropic, chat, gemini, mcp, record, responses,
    script::Asked,
};

/// The largest request that is read: conversations have the output of tools in them.
const MAX_BODY: usize = 64 << 20;

/// The server. It ends when it is dropped.
pub struct FakeVendors {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Vec<Request>>,
    keys: Mutex<BTreeMap<Api, String>>,
}

impl FakeVendors {
    /// A server on a free port of the loopback interface.
    ///
    /// # Panics
    /// No port can be had.
    pub async fn start() -> Self {
        Self::start_on(Ipv4Addr::LOCALHOST.into()).await
    }

    /// A server on a free port of that address of this machine, such as the one that pods know it by.
    ///
    /// # Panics
    /// No port can be had there.
    pub async fn start_on(address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::<Shared>::default();
        let router =
            Router::new().fallback(serve).layer(DefaultBodyLimit::max(MAX_BODY)).with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.expect("the server goes on") });
        Self { address, shared, server }
    }

    /// The address of an API, as its clients are to be told it.
    pub fn url(&self, api: Api) -> String {
        format!("http://{}{}", self.address, api.base())
    }

    /// From now on that API takes this key alone and answers 401 to all others. Before, any key will do. Without a key the
    /// answer is always 401, but for MCP.
    pub fn take_only(&self, api: Api, key: &str) {
        locked(&self.shared.keys).insert(api, key.to_owned());
    }

    /// The variables that lead the API's CLI to this server, with their values; `key_variable` is where the CLI finds its
    /// key. None for MCP, which recipes name themselves.
    pub fn environment(&self, api: Api, key_variable: &str) -> Vec<(String, String)> {
        let url = self.url(api);
        let (name, value) = match api {
            Api::Anthropic => ("ANTHROPIC_BASE_URL", url),
            Api::Responses => ("OPENAI_BASE_URL", url),
            Api::Gemini => ("GOOGLE_GEMINI_BASE_URL", url),
            Api::Chat => ("OPENCODE_CONFIG_CONTENT", chat::opencode_config(&url, key_variable)),
            Api::Mcp => return Vec::new(),
        };
        vec![(name.to_owned(), value)]
    }

    /// An answer without the way over a socket.
    #[cfg(test)]
    pub(super) async fn serve(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().expect("a header");
            map.insert(name, value.parse().expect("a header's value"));
        }
        let (method, uri) = (method.parse().expect("a method"), path.parse().expect("a path"));
        serve(State(Arc::clone(&self.shared)), method, uri, map, Bytes::copy_from_slice(body.as_bytes())).await
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        locked(&self.shared.requests).clone()
    }

    /// All places of all requests that have `secret` in them, such as `Anthropic header x-api-key`.
    pub fn places_of(&self, secret: &str) -> BTreeSet<String> {
        locked(&self.shared.requests).iter().flat_map(|request| request.places_of(secret)).collect()
    }
}

impl Drop for FakeVendors {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut request = Request {
        api: Api::of(uri.path()).map(|(api, _)| api),
        method: method.to_string(),
        path: uri.path_and_query().map_or_else(String::new, ToString::to_string),
        headers: headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
        body: String::from_utf8_lossy(&body).into_owned(),
        status: 0,
    };
    let response = shared.answer(&request, uri.path());
    request.status = response.status().as_u16();
    locked(&shared.requests).push(request);
    response
}

impl Shared {
    fn answer(&self, request: &Request, path: &str) -> Response {
        let Some((api, rest)) = Api::of(path).filter(|_| request.method == "POST") else {
            return json(404, &json!({ "error": { "message": "nothing here", "type": "not_found_error" } }));
        };
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        if !self.knows(api, record::key(api, &request.headers)) {
            return failure(api, 401);
        }
        match (api, rest) {
            (Api::Anthropic, "/v1/messages/count_tokens") => json(200, &json!({ "input_tokens": super::INPUT_TOKENS })),
            (Api::Anthropic, "/v1/messages") => message(api, &anthropic::asked(&body)),
            (Api::Responses, "/responses") => message(api, &responses::asked(&body)),
            (Api::Chat, "/chat/completions") => message(api, &chat::asked(&body)),
            (Api::Gemini, rest) => match rest.rsplit_once(':') {
                Some((_, "countTokens")) => json(200, &json!({ "totalTokens": super::INPUT_TOKENS })),
                Some((model, verb @ ("generateContent" | "streamGenerateContent"))) => {
                    message(api, &gemini::asked(&body, model, verb.starts_with("stream")))
                }
                _ => failure(api, 404),
            },
            (Api::Mcp, "") => mcp::answer(&body),
            _ => failure(api, 404),
        }
    }

    fn knows(&self, api: Api, key: Option<&str>) -> bool {
        match locked(&self.keys).get(&api) {
            Some(expected) => key == Some(expected),
            None => api == Api::Mcp || key.is_some_and(|key| !key.is_empty()),
        }
    }
}

/// The next message of a conversation.
fn message(api: Api, asked: &Asked) -> Response {
    let reply = asked.reply();
    if let Reply::Error(status) = reply {
        return failure(api, status);
    }
    let (whole, events) = match api {
        Api::Anthropic => (anthropic::whole(asked, &reply), anthropic::events(asked, &reply)),
        Api::Responses => (responses::whole(asked, &reply), responses::events(asked, &reply)),
        Api::Chat => (chat::whole(asked, &reply), chat::events(asked, &reply)),
        Api::Gemini => (gemini::whole(asked, &reply), gemini::events(asked, &reply)),
        Api::Mcp => return failure(api, 404),
    };
    if asked.streams { events.into_response() } else { json(200, &whole) }
}

/// An error in the API's own shape.
fn failure(api: Api, status: u16) -> Response {
    let body = match api {
        Api::Anthropic => anthropic::error(status),
        Api::Responses | Api::Chat => responses::error(status),
        Api::Gemini => gemini::error(status),
        Api::Mcp => json!({ "error": format!("refused with {status}") }),
    };
    json(status, &body)
}
