//! What the end of a run sends away beside events.

use std::time::Duration;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use signalbox_output::{
    headers,
    http::{Endpoint, Http, NoAddress, Problem},
    retry::Retry,
};
use signalbox_types::Upload;

use crate::config::{Conversation, variable};

/// Five more tries, one second apart and up to eight: as long as a receiver takes that is started again.
const RETRY: Retry = Retry { attempts: 6, base: Duration::from_secs(1), max: Duration::from_secs(8) };
/// The time limit of one try: the largest upload at about a megabyte a second.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What stands for itself in any part of an address: <https://www.rfc-editor.org/rfc/rfc3986#section-2.3>.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Why something was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("there is no HTTP client")]
    NoClient,
    #[error("the upload has {0}")]
    NoAddress(#[from] NoAddress),
    #[error("the upload to {to} failed ({problem})")]
    Failed { to: String, problem: Problem },
}

/// Sends a watched file.
pub(crate) async fn file(
    upload: &Upload,
    agent: &str,
    event: &str,
    http: Option<&Http>,
    content: Bytes,
) -> Result<(), Error> {
    let endpoint =
        http.ok_or(Error::NoClient)?.endpoint(&expanded(&upload.url, agent, event), "application/octet-stream")?;
    send(endpoint, &upload.headers_secret, content).await
}

/// Sends the archive of a conversation.
pub(crate) async fn conversation(to: &Conversation, http: Option<&Http>, archive: Bytes) -> Result<(), Error> {
    let endpoint = http.ok_or(Error::NoClient)?.endpoint(&to.source, "application/gzip")?;
    send(endpoint.below(&to.pin), &to.headers, archive).await
}

async fn send(endpoint: Endpoint, headers: &str, content: Bytes) -> Result<(), Error> {
    let headers = headers::from_env(variable, headers, &format!("upload to {}", endpoint.name()));
    let endpoint = endpoint.with_headers(headers).with_timeout(TIMEOUT);
    let sent = endpoint.deliver(content, RETRY, Problem::is_transient).await;
    sent.map_err(|problem| Error::Failed { to: endpoint.name(), problem })
}

/// The address with the run's values in it, each as one part however it is spelt.
fn expanded(url: &str, agent: &str, event: &str) -> String {
    url.replace("{agent}", &encoded(agent)).replace("{event}", &encoded(event))
}

fn encoded(value: &str) -> String {
    utf8_percent_encode(value, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://h/{agent}/{event}?e={event}", "http://h/run-1.a/r%20%2F%3F%23%C3%A9?e=r%20%2F%3F%23%C3%A9")]
    #[case("http://h/{other}/{}", "http://h/{other}/{}")]
    fn the_run_s_values_are_parts_of_the_address(#[case] url: &str, #[case] expected: &str) {
        assert_eq!(expanded(url, "run-1.a", "r /?#é"), expected);
    }

    #[test]
    fn a_value_is_not_expanded_again() {
        assert_eq!(expanded("http://h/{agent}", "{event}", "x"), "http://h/%7Bevent%7D");
    }
}
