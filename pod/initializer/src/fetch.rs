//! Fetching over HTTP, in process. Every fetch has a bound in bytes and in time, follows redirects itself, and sends
//! the headers of a recipe to the server that the recipe names and to no other.

use std::{
    fs::File,
    io::{self, Seek, Write},
    path::Path,
    time::Duration,
};

use reqwest::{
    Client, Response, StatusCode, Url,
    header::{HeaderMap, LOCATION},
    redirect,
};
use signalbox_output::http;
use tokio::time::sleep;

/// Some servers answer nobody without a name.
const USER_AGENT: &str = concat!("signalbox-initializer/", env!("CARGO_PKG_VERSION"));
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may be silent.
const SILENCE: Duration = Duration::from_secs(60);
/// How long one try of one fetch may take; the run's own deadline counts beside it.
const TRY_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How many redirects of one fetch are followed.
const MAX_REDIRECTS: usize = 10;
/// How often a fetch is tried: the network of a pod may come up after its first container.
const TRIES: u32 = 3;
/// The pause after the first try, doubled after each.
const PAUSE: Duration = Duration::from_millis(500);
/// The largest answer of an API that is read.
const MAX_ANSWER: usize = 64 * 1024;

/// Where something comes from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// An http or https address.
    pub(crate) url: Url,
    /// What that server alone is sent.
    pub(crate) headers: HeaderMap,
}

/// Why something was not fetched. No text has an address in it: a query may be a secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("an address that is neither http nor https")]
    NoAddress,
    #[error("the server says {0}")]
    Status(StatusCode),
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    #[error("timed out: {0}")]
    TimedOut(String),
    #[error("{0}")]
    Transport(String),
    #[error("it cannot be stored: {0}")]
    Store(#[from] io::Error),
}

impl Error {
    /// There is no such thing at the server.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Status(StatusCode::NOT_FOUND | StatusCode::GONE))
    }

    /// The server gives no answer, so that others of its things need not be asked for.
    pub(crate) const fn is_silence(&self) -> bool {
        matches!(self, Self::Transport(_) | Self::TimedOut(_))
    }

    fn is_transient(&self) -> bool {
        match self {
            // One that has timed out has had its patience already.
            Self::Transport(_) => true,
            Self::Status(status) => http::is_transient(*status),
            _ => false,
        }
    }
}

impl Source {
    /// Something at `url`.
    ///
    /// # Errors
    /// [`Error::NoAddress`]
    pub(crate) fn new(url: &str, headers: HeaderMap) -> Result<Self, Error> {
        let url = Url::parse(url).ok().filter(is_web).ok_or(Error::NoAddress)?;
        Ok(Self { url, headers })
    }

    /// What is at `path` below this address, whose query stays. Every part of `path` is one segment, whatever is in it.
    pub(crate) fn below<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Self {
        let mut below = self.clone();
        // Only addresses without a host have no segments.
        if let Ok(mut segments) = below.url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        below
    }
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

/// Fetches.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    client: Client,
}

impl Fetcher {
    /// # Errors
    /// The client cannot be built.
    pub(crate) fn new() -> Result<Self, Error> {
        let tls = signalbox_output::tls::client_config().map_err(|error| Error::Transport(error.to_string()))?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE)
            .timeout(TRY_TIMEOUT)
            .redirect(redirect::Policy::none())
            .build()
            .map_err(transport)?;
        Ok(Self { client })
    }

    /// Fetches at most `limit` bytes into a file of `folder` that has no name and is gone with its handle; it is at its
    /// start.
    ///
    /// # Errors
    /// As [`Fetcher::fetch_into`].
    pub(crate) async fn fetch(&self, source: &Source, limit: u64, folder: &Path) -> Result<File, Error> {
        let file = tempfile::tempfile_in(folder)?;
        self.fetch_into(source, limit, &file).await?;
        Ok(file)
    }

    /// Fetches at most `limit` bytes into `file`, from its start, and goes back there. What may pass is tried again.
    ///
    /// # Errors
    /// That of the last try.
    pub(crate) async fn fetch_into(&self, source: &Source, limit: u64, file: &File) -> Result<(), Error> {
        for attempt in 1.. {
            match self.try_once(source, limit, file).await {
                Err(error) if error.is_transient() && attempt < TRIES => {
                    tracing::info!("once more, since {error}");
                    sleep(PAUSE * 2_u32.pow(attempt - 1)).await;
                }
                end => return end,
            }
        }
        Ok(())
    }

    async fn try_once(&self, source: &Source, limit: u64, mut file: &File) -> Result<(), Error> {
        file.rewind()?;
        file.set_len(0)?;
        let mut response = self.answer(source).await?;
        if response.content_length().is_some_and(|length| length > limit) {
            return Err(Error::TooLarge(limit));
        }
        let mut left = limit;
        while let Some(chunk) = response.chunk().await.map_err(transport)? {
            left = left.checked_sub(chunk.len() as u64).ok_or(Error::TooLarge(limit))?;
            file.write_all(&chunk)?;
        }
        Ok(file.rewind()?)
    }

    /// The answer to a GET, after all redirects.
    async fn answer(&self, source: &Source) -> Result<Response, Error> {
        let Source { mut url, mut headers } = source.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.client.get(url.clone()).headers(headers.clone()).send().await.map_err(transport)?;
            let status = response.status();
            let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
            let Some(location) = location.filter(|_| status.is_redirection()) else {
                return if status.is_success() { Ok(response) } else { Err(Error::Status(status)) };
            };
            let next = url.join(location).ok().filter(is_web).ok_or(Error::NoAddress)?;
            // They are for the server that the recipe names; and once away, an address is any server's word.
            if next.origin() != url.origin() {
                headers.clear();
            }
            url = next;
        }
        Err(Error::Redirects)
    }

    /// Posts JSON to an API and reads its JSON answer. Redirects are not followed.
    ///
    /// # Errors
    /// What went wrong with that one try.
    pub(crate) async fn ask(&self, source: &Source, body: &serde_json::Value) -> Result<serde_json::Value, Error> {
        let request = self.client.post(source.url.clone()).headers(source.headers.clone()).json(body);
        let mut response = request.timeout(SILENCE).send().await.map_err(transport)?;
        if !response.status().is_success() {
            return Err(Error::Status(response.status()));
        }
        let mut answer = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(transport)? {
            answer.extend_from_slice(&chunk);
            if answer.len() > MAX_ANSWER {
                return Err(Error::TooLarge(MAX_ANSWER as u64));
            }
        }
        serde_json::from_slice(&answer).map_err(|_| Error::Transport("the answer is no JSON".to_owned()))
    }
}

/// The innermost cause, which never has the address in it, unlike the outermost.
fn transport(error: reqwest::Error) -> Error {
    let (is_timeout, is_connect) = (error.is_timeout(), error.is_connect());
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match (is_timeout, is_connect) {
        (true, _) => Error::TimedOut(cause.to_string()),
        (false, true) => Error::Transport(format!("cannot connect: {cause}")),
        (false, false) => Error::Transport(format!("broken off: {cause}")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("https://h/s", "https://h/s/a/b.tar.gz")]
    #[case("https://h/s/", "https://h/s/a/b.tar.gz")]
    #[case("https://h", "https://h/a/b.tar.gz")]
    #[case("https://h/s?k=v", "https://h/s/a/b.tar.gz?k=v")]
    fn a_path_is_put_below_an_address(#[case] base: &str, #[case] expected: &str) {
        let source = Source::new(base, HeaderMap::new()).unwrap();
        assert_eq!(source.below(["a", "b.tar.gz"]).url.as_str(), expected);
    }

    #[rstest]
    #[case("../../x", "https://h/s/..%2F..%2Fx")]
    #[case("a/b?c#d", "https://h/s/a%2Fb%3Fc%23d")]
    fn a_segment_is_one_whatever_is_in_it(#[case] segment: &str, #[case] expected: &str) {
        assert_eq!(Source::new("https://h/s", HeaderMap::new()).unwrap().below([segment]).url.as_str(), expected);
    }

    #[rstest]
    #[case("ftp://h/x")]
    #[case("file:///etc/passwd")]
    #[case("h/x")]
    fn only_http_is_fetched(#[case] url: &str) {
        assert!(matches!(Source::new(url, HeaderMap::new()), Err(Error::NoAddress)));
    }
}
