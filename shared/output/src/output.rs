use std::time::Duration;

use bytes::Bytes;
use reqwest::{Client, Url};
use serde::{Serialize, de::DeserializeOwned};
use signalbox_types::{Select, Sink, SinkType, event::Source};
use tokio::time::Instant;

use crate::{
    envelope, headers,
    http::{self, HttpSink},
    queue::{PATIENCE, Queue},
    retry::Retry,
    select::{Class, Selectors},
};

/// The sinks of a run and the rules of what goes there.
pub struct Output {
    source: Source,
    selectors: Selectors,
    sinks: Vec<Queue>,
}

impl Output {
    /// Reads the variables of the contract: `AGENT_SINKS`, `AGENT_NOTIFY_URL`, `AGENT_SELECT`, `AGENT_SINK_RETRY_*`,
    /// the variables that hold the sinks' headers, and the ids of the run. What cannot be used costs a log line, never
    /// the run. Needs a tokio runtime: each sink gets a task.
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| env(name).unwrap_or_default();
        let source = Source {
            agent: text("AGENT_NAME"),
            station: text("STATION_NAME"),
            task: text("TASK_ID"),
            pod: text("POD_NAME"),
            namespace: text("POD_NAMESPACE"),
        };
        let selectors = Selectors::new(list::<Select>("AGENT_SELECT", &text("AGENT_SELECT")));
        Self { source, selectors, sinks: sinks(&env) }
    }

    /// Whether [`Output::line`] looks at the class of a line.
    pub fn needs_class(&self) -> bool {
        !self.sinks.is_empty() && !self.selectors.is_empty()
    }

    /// Sends a line of the agent to the sinks where its class is selected. A line that is an envelope already is logged
    /// and not sent.
    pub async fn line(&self, line: &[u8], class: Option<Class<'_>>) {
        if self.sinks.is_empty() || !self.selectors.passes(class) {
            return;
        }
        match envelope::line(&self.source, line) {
            Ok(event) => self.push(event).await,
            Err(error) => tracing::warn!("a line of the agent is not sent to the sinks: {error}; this is a bug"),
        }
    }

    /// Sends an event of our own to the sinks; it is not subject to the selection.
    pub async fn event(&self, event: &impl Serialize) {
        match envelope::event(&self.source, event) {
            Ok(event) => self.push(event).await,
            Err(error) => tracing::warn!("an event is not sent to the sinks: {error}; this is a bug"),
        }
    }

    async fn push(&self, event: Bytes) {
        for sink in &self.sinks {
            sink.push(event.clone(), PATIENCE).await;
        }
    }

    /// Waits until what is queued is delivered or given up, for at most `bound` over all sinks.
    pub async fn finish(&self, bound: Duration) {
        let deadline = Instant::now() + bound;
        for sink in &self.sinks {
            sink.finish(deadline).await;
        }
    }
}

/// A JSON list in a variable; items that do not decode are left out, as everywhere in the contract.
fn list<T: DeserializeOwned>(name: &str, text: &str) -> Vec<T> {
    if text.is_empty() {
        return Vec::new();
    }
    let items = serde_json::from_str::<Vec<serde_json::Value>>(text).unwrap_or_else(|_| {
        tracing::warn!("{name} is no JSON list and is ignored");
        Vec::new()
    });
    items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect()
}

fn sinks(env: &impl Fn(&str) -> Option<String>) -> Vec<Queue> {
    let mut sinks = list::<Sink>("AGENT_SINKS", &env("AGENT_SINKS").unwrap_or_default());
    if let Some(url) = env("AGENT_NOTIFY_URL").filter(|url| !url.is_empty()) {
        sinks.push(Sink { kind: SinkType::Http, url, ..Sink::default() });
    }
    if sinks.iter().any(|sink| sink.kind == SinkType::File) {
        tracing::warn!("sinks of type file are not supported by this version; their events go to standard output only");
    }
    sinks.retain(|sink| sink.kind == SinkType::Http);
    if sinks.is_empty() {
        return Vec::new();
    }
    let retry = Retry::from_env(env);
    match http::client() {
        Ok(client) => sinks.iter().filter_map(|sink| http_sink(&client, sink, retry, env)).map(Queue::new).collect(),
        Err(error) => {
            tracing::warn!("no events are sent to the http sinks: {error}");
            Vec::new()
        }
    }
}

fn http_sink(client: &Client, sink: &Sink, retry: Retry, env: &impl Fn(&str) -> Option<String>) -> Option<HttpSink> {
    let Some(url) = Url::parse(&sink.url).ok().filter(|url| matches!(url.scheme(), "http" | "https")) else {
        // The address may hold a secret, and one that does not parse cannot be stripped of it.
        tracing::warn!("an http sink has an address that is neither http nor https and is ignored");
        return None;
    };
    let block = match sink.headers_secret.as_str() {
        "" => String::new(),
        name => env(name).unwrap_or_else(|| {
            tracing::warn!("http sink {}: the variable {name} with its headers is not set", http::redacted(&url));
            String::new()
        }),
    };
    let (headers, malformed) = headers::parse(&block);
    if !malformed.is_empty() {
        tracing::warn!("{}: lines {malformed:?} are no headers and are ignored", sink.headers_secret);
    }
    Some(HttpSink::new(client.clone(), url, headers, retry))
}
