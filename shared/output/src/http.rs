//! The requests of a run, all of which are POSTs: events to sinks (`docs/contract/agents.md` section 12.4), and files and
//! conversations to where the recipe says (section 9).

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
    redirect::{self, Attempt},
};
use tokio::time::sleep;

use crate::retry::Retry;

/// The time limit of one request, unless its endpoint has one of its own.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many redirects of one request are followed.
const MAX_REDIRECTS: usize = 5;
/// How much of an answer is read, so that its connection can be used again; a longer one costs a connection instead.
const MAX_ANSWER: usize = 64 * 1024;
/// The header with the W3C trace context of the run: <https://www.w3.org/TR/trace-context/>.
const TRACEPARENT: &str = "traceparent";

/// The client that all requests of a run share.
#[derive(Clone)]
pub struct Http {
    client: Client,
    traceparent: Option<HeaderValue>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The TLS settings cannot be built.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The client cannot be built.
    #[error("HTTP client: {0}")]
    Client(#[source] reqwest::Error),
}

/// An address that cannot be posted to. It is not repeated: it may hold a secret, and one that does not parse cannot be
/// stripped of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an address that is neither http nor https")]
pub struct NoAddress;

impl Http {
    /// A client whose requests are part of the trace in the variable `TRACEPARENT`, if there is one.
    ///
    /// # Errors
    /// The TLS settings or the client cannot be built.
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let follow = |attempt: Attempt<'_>| if follows(&attempt) { attempt.follow() } else { attempt.stop() };
        let client = Client::builder()
            .tls_backend_preconfigured(crate::tls::client_config()?)
            .timeout(REQUEST_TIMEOUT)
            .redirect(redirect::Policy::custom(follow))
            .build()
            .map_err(Error::Client)?;
        let traceparent = env("TRACEPARENT").filter(|text| is_traceparent(text));
        Ok(Self { client, traceparent: traceparent.and_then(|text| text.parse().ok()) })
    }

    /// An address to post to.
    ///
    /// # Errors
    /// [`NoAddress`] where `url` does not parse, or its scheme is neither http nor https.
    pub fn endpoint(&self, url: &str, content_type: &'static str) -> Result<Endpoint, NoAddress> {
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or(NoAddress)?;
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        if let Some(traceparent) = &self.traceparent {
            headers.insert(TRACEPARENT, traceparent.clone());
        }
        Ok(Endpoint { client: self.client.clone(), url, headers, timeout: REQUEST_TIMEOUT })
    }
}

/// Whether a text has the form of a trace context: version, trace, span and flags in lower-case hexadecimal.
fn is_traceparent(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    let is_hexadecimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    lengths.eq([2, 32, 16, 2]) && text.bytes().all(|byte| byte == b'-' || is_hexadecimal(byte))
}

/// A redirect is followed where it keeps the request as it is (307, 308: the others would turn the POST into a GET and
/// lose what is sent behind a 200) and content and headers on their host.
fn follows(attempt: &Attempt<'_>) -> bool {
    matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
        && attempt.previous().len() <= MAX_REDIRECTS
        && attempt.previous().last().is_some_and(|from| same_host(from, attempt.url()))
}

fn same_host(from: &Url, to: &Url) -> bool {
    let default_port = |url: &Url| url.port().is_none();
    let upgraded = from.scheme() == "http" && to.scheme() == "https" && default_port(from) && default_port(to);
    from.host() == to.host()
        && (upgraded || (from.scheme() == to.scheme() && from.port_or_known_default() == to.port_or_known_default()))
}

/// Where something is posted to.
pub struct Endpoint {
    client: Client,
    url: Url,
    headers: HeaderMap,
    timeout: Duration,
}

/// What went wrong with a request, in words without its address and headers, either of which may hold a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Problem {
    text: String,
    status: Option<StatusCode>,
}

impl Problem {
    /// Whether the same request may succeed later: there was no answer, or one of 408, 429 and 5xx.
    pub fn is_transient(&self) -> bool {
        self.status.is_none_or(is_transient)
    }
}

/// True for an answer that may be another at the next try: 408, 429 and 5xx.
pub fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

impl Endpoint {
    /// The same with headers of the recipe, which win over our own.
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    /// The same one part further down its path, whatever is in `part`; the query stays.
    #[must_use]
    pub fn below(mut self, part: &str) -> Self {
        // Only addresses without a host have no parts, and no web address is one.
        if let Ok(mut parts) = self.url.path_segments_mut() {
            parts.pop_if_empty().push(part);
        }
        self
    }

    /// The same with another time limit of one request.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The address without user, query and fragment, any of which may hold a secret.
    pub fn name(&self) -> String {
        redacted(&self.url)
    }

    /// Posts `body` until it is taken, `retry` is used up, or a problem comes that `again` does not accept.
    ///
    /// # Errors
    /// The last [`Problem`].
    pub async fn deliver(&self, body: Bytes, retry: Retry, again: impl Fn(&Problem) -> bool) -> Result<(), Problem> {
        let mut attempt = 1;
        loop {
            match self.post(body.clone()).await {
                Err(problem) if attempt < retry.attempts && again(&problem) => sleep(retry.delay(attempt)).await,
                end => return end,
            }
            attempt += 1;
        }
    }

    async fn post(&self, body: Bytes) -> Result<(), Problem> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).timeout(self.timeout).body(body);
        let response = request.send().await.map_err(|error| Problem { text: text(&error), status: None })?;
        let status = response.status();
        drain(response).await;
        if status.is_success() { Ok(()) } else { Err(Problem { text: status.to_string(), status: Some(status) }) }
    }
}

fn text(error: &reqwest::Error) -> String {
    let kind = if error.is_timeout() {
        "timed out"
    } else if error.is_connect() {
        "cannot connect"
    } else {
        "request failed"
    };
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    // The outermost error is reqwest's own and names the address; the innermost never does.
    if std::ptr::addr_eq(cause, error) { kind.to_owned() } else { format!("{kind}: {cause}") }
}

async fn drain(mut response: Response) {
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > MAX_ANSWER {
            return;
        }
    }
}

/// `url` without user, password, query and fragment.
fn redacted(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Both fail only for addresses that cannot have a user; an http address can.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn an_address_is_logged_without_its_secrets() {
        let url = "https://user:pass@sink.example:8443/in?token=s3cret#x".parse().unwrap();
        assert_eq!(redacted(&url), "https://sink.example:8443/in");
    }

    #[rstest]
    #[case::same("http://a/x", "http://a/y", true)]
    #[case::other_host("http://a/x", "http://b/x", false)]
    #[case::other_port("http://a/x", "http://a:8080/x", false)]
    #[case::upgrade("http://a/x", "https://a/x", true)]
    #[case::downgrade("https://a/x", "http://a/x", false)]
    fn a_redirect_stays_on_its_host(#[case] from: Url, #[case] to: Url, #[case] follows: bool) {
        assert_eq!(same_host(&from, &to), follows);
    }

    #[rstest]
    #[case::no_answer(None, true)]
    #[case::request_timeout(Some(408), true)]
    #[case::too_many_requests(Some(429), true)]
    #[case::internal_error(Some(500), true)]
    #[case::unavailable(Some(503), true)]
    #[case::forbidden(Some(403), false)]
    #[case::too_large(Some(413), false)]
    #[case::redirect_elsewhere(Some(307), false)]
    fn what_may_pass_is_transient(#[case] status: Option<u16>, #[case] transient: bool) {
        let status = status.map(|status| StatusCode::from_u16(status).unwrap());
        assert_eq!(Problem { text: String::new(), status }.is_transient(), transient);
    }

    #[rstest]
    #[case::good("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true)]
    #[case::upper_case("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false)]
    #[case::short("00-1-2-01", false)]
    #[case::long("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", false)]
    #[case::empty("", false)]
    fn a_trace_context_has_four_hexadecimal_parts(#[case] text: &str, #[case] good: bool) {
        assert_eq!(is_traceparent(text), good);
    }

    #[rstest]
    #[case("http://h/a", "http://h/a/x%2Fy%3F")]
    #[case("http://h/a/?q=1", "http://h/a/x%2Fy%3F?q=1")]
    #[case("http://h", "http://h/x%2Fy%3F")]
    fn an_address_further_down_keeps_its_query(#[case] url: &str, #[case] expected: &str) {
        let http = Http::from_env(|_| None).unwrap();
        assert_eq!(http.endpoint(url, "x/y").unwrap().below("x/y?").url.as_str(), expected);
    }

    #[rstest]
    #[case("s3cret")]
    #[case("ftp://s3cret/")]
    fn what_is_no_web_address_is_refused_without_being_told(#[case] url: &str) {
        let http = Http::from_env(|_| None).unwrap();
        let error = http.endpoint(url, "x/y").err().unwrap();
        assert!(!error.to_string().contains("s3cret"));
    }
}
