//! A sink that is an HTTP endpoint: `docs/contract/agents.md` section 12.4.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
    redirect::{self, Attempt},
};
use tokio::time::sleep;

use crate::retry::Retry;

/// The time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many redirects of one request are followed.
const MAX_REDIRECTS: usize = 5;
/// How much of an answer is read, so that its connection can be used again; a longer one costs a connection instead.
const MAX_ANSWER: usize = 64 * 1024;

/// The client that all sinks of a run share.
///
/// # Errors
/// The TLS settings or the client cannot be built.
pub(crate) fn client() -> Result<Client, Error> {
    Client::builder()
        .tls_backend_preconfigured(crate::tls::client_config()?)
        .timeout(REQUEST_TIMEOUT)
        .redirect(redirect::Policy::custom(|attempt| if follows(&attempt) { attempt.follow() } else { attempt.stop() }))
        .build()
        .map_err(Error::Client)
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error("HTTP client: {0}")]
    Client(#[source] reqwest::Error),
}

/// A redirect is followed where it keeps the request as it is (307, 308: the others would turn the POST into a GET and
/// lose the event behind a 200) and the events and headers on their host.
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

/// Where events are posted to.
pub(crate) struct HttpSink {
    client: Client,
    url: Url,
    headers: HeaderMap,
    retry: Retry,
}

impl HttpSink {
    pub(crate) fn new(client: Client, url: Url, mut headers: HeaderMap, retry: Retry) -> Self {
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        Self { client, url, headers, retry }
    }

    /// The address without user, query and fragment, any of which may hold a secret.
    pub(crate) fn name(&self) -> String {
        redacted(&self.url)
    }

    /// Posts an event until it is taken or the tries are used up; says whether it was taken.
    pub(crate) async fn deliver(&self, body: Bytes) -> bool {
        let mut attempt = 1;
        loop {
            let Err(problem) = self.post(body.clone()).await else { return true };
            if attempt >= self.retry.attempts {
                tracing::warn!("http sink failed after retries: {} ({problem})", self.name());
                return false;
            }
            sleep(self.retry.delay(attempt)).await;
            attempt += 1;
        }
    }

    async fn post(&self, body: Bytes) -> Result<(), String> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = request.send().await.map_err(|error| problem(&error))?;
        let status = response.status();
        drain(response).await;
        if status.is_success() { Ok(()) } else { Err(status.to_string()) }
    }
}

/// What went wrong without the address, whose query may be a secret.
fn problem(error: &reqwest::Error) -> String {
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
pub(crate) fn redacted(url: &Url) -> String {
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
}
