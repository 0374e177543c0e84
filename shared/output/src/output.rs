use std::{path::Path, time::Duration};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Deserializer;
use signalbox_types::{Select, Sink, SinkType, event::Source, lenient, names};
use tokio::time::Instant;

use crate::{
    envelope, headers,
    http::Http,
    queue::{PATIENCE, Queue},
    retry::Retry,
    select::{Class, Selectors},
    sink::{self, FileSink},
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
            Ok(event) => self.push(event, Instant::now() + PATIENCE).await,
            Err(error) => tracing::warn!("a line of the agent is not sent to the sinks: {error}; this is a bug"),
        }
    }

    /// Sends an event of our own to the sinks; it is not subject to the selection.
    pub async fn event(&self, event: &impl Serialize) {
        self.event_by(event, Instant::now() + PATIENCE).await;
    }

    /// The same where no room in a sink's queue is waited for after `deadline`.
    pub(crate) async fn event_by(&self, event: &impl Serialize, deadline: Instant) {
        match envelope::event(&self.source, event) {
            Ok(event) => self.push(event, deadline.min(Instant::now() + PATIENCE)).await,
            Err(error) => tracing::warn!("an event is not sent to the sinks: {error}; this is a bug"),
        }
    }

    /// The deadline is one for all sinks: ten dead ones hold a run up no longer than one.
    async fn push(&self, event: Bytes, deadline: Instant) {
        for sink in &self.sinks {
            sink.push(event.clone(), deadline).await;
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

/// A JSON list in the variable `name`, which holds `text`; items that do not decode are left out, as everywhere in the
/// contract.
pub fn list<T: DeserializeOwned>(name: &str, text: &str) -> Vec<T> {
    if text.is_empty() {
        return Vec::new();
    }
    lenient::list(&mut Deserializer::from_str(text)).unwrap_or_else(|_| {
        tracing::warn!("{name} is no JSON list and is ignored");
        Vec::new()
    })
}

fn sinks(env: &impl Fn(&str) -> Option<String>) -> Vec<Queue> {
    let mut sinks = list::<Sink>("AGENT_SINKS", &env("AGENT_SINKS").unwrap_or_default());
    if let Some(url) = env("AGENT_NOTIFY_URL").filter(|url| !url.is_empty()) {
        sinks.push(Sink { kind: SinkType::Http, url, ..Sink::default() });
    }
    let http = if sinks.iter().any(|sink| sink.kind == SinkType::Http) { http(env) } else { None };
    let sinks = sinks.iter().filter_map(|sink| match sink.kind {
        SinkType::Http => http_sink(http.as_ref()?, sink, env),
        SinkType::File => file_sink(sink, env),
        // Served without being asked for.
        SinkType::Stdout => None,
    });
    sinks.map(Queue::new).collect()
}

fn http(env: &impl Fn(&str) -> Option<String>) -> Option<Http> {
    Http::from_env(env).inspect_err(|error| tracing::warn!("no events are sent to the http sinks: {error}")).ok()
}

fn http_sink(http: &Http, sink: &Sink, env: &impl Fn(&str) -> Option<String>) -> Option<sink::Sink> {
    let endpoint = http
        .endpoint(&sink.url, "application/json")
        .inspect_err(|error| tracing::warn!("an http sink has {error} and is ignored"))
        .ok()?;
    let headers = headers::from_env(env, &sink.headers_secret, &format!("http sink {}", endpoint.name()));
    Some(sink::Sink::Http(Box::new(endpoint.with_headers(headers)), Retry::from_env(env)))
}

/// A path that is relative counts from the workspace: both programs of a run have that one at the same place.
fn file_sink(sink: &Sink, env: &impl Fn(&str) -> Option<String>) -> Option<sink::Sink> {
    if sink.path.is_empty() {
        tracing::warn!("a file sink has no path and is ignored");
        return None;
    }
    let workspace = env("WORKSPACE_DIR").unwrap_or_else(|| names::WORKSPACE.to_owned());
    Some(sink::Sink::File(FileSink::new(Path::new(&workspace).join(&sink.path))))
}
