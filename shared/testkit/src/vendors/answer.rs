//! Answers, before and after they have the shape of an API.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response, Sse, sse},
};
use futures::{Stream, StreamExt, stream};
use serde_json::Value;
use tokio::time::sleep;

/// How often a text that never ends shows that it is still being written.
const PING: Duration = Duration::from_secs(1);

/// What the model does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It says that, and is done.
    Text(String),
    /// It says that, and goes on for ever.
    Unfinished(String),
    /// It calls a tool, after a word about it.
    Act(Act),
    /// The request fails with that status.
    Error(u16),
}

/// A call of a tool, which has another name at each CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A shell command.
    Run(&'static str),
    /// A shell command that is not waited for.
    Leave(&'static str),
    /// [`super::READ_FILE`] is read.
    Read,
    /// The tool of the MCP server.
    Ping,
}

impl Act {
    /// What the model says before it.
    pub(super) const PREFACE: &'static str = "A tool is needed.";

    /// The shell command, where it is one.
    pub(super) const fn command(self) -> Option<&'static str> {
        match self {
            Self::Run(command) | Self::Leave(command) => Some(command),
            Self::Read | Self::Ping => None,
        }
    }
}

/// An event of a stream: its name, where the API gives it one, and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event(pub(super) Option<String>, pub(super) Option<String>);

impl Event {
    /// One with data alone.
    pub(super) fn data(data: &Value) -> Self {
        Self(None, Some(data.to_string()))
    }

    /// One whose name is the `type` of its data.
    pub(super) fn typed(data: &Value) -> Self {
        Self(data["type"].as_str().map(str::to_owned), Some(data.to_string()))
    }

    /// A comment, which only keeps the connection alive.
    pub(super) const fn comment() -> Self {
        Self(None, None)
    }

    fn into_sse(self) -> sse::Event {
        let Self(name, data) = self;
        let event = match data {
            Some(data) => sse::Event::default().data(data),
            None => sse::Event::default().comment("still there"),
        };
        match name {
            Some(name) => event.event(name),
            None => event,
        }
    }
}

/// A stream of events.
#[derive(Clone, Debug)]
pub(super) struct Events {
    /// What comes at once.
    pub(super) events: Vec<Event>,
    /// What comes after that each second, until the client goes.
    pub(super) ping: Option<Event>,
}

impl IntoResponse for Events {
    fn into_response(self) -> Response {
        Sse::new(self.stream()).into_response()
    }
}

impl Events {
    fn stream(self) -> impl Stream<Item = Result<sse::Event, Infallible>> {
        let pings = stream::unfold(self.ping, |ping| async {
            let event = ping?;
            sleep(PING).await;
            Some((event.clone(), Some(event)))
        });
        stream::iter(self.events).chain(pings).map(|event| Ok(event.into_sse()))
    }
}

/// A JSON answer.
pub(super) fn json(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).expect("a status of ours");
    (status, [("request-id", "req_fake")], Json(body)).into_response()
}

/// An id that no other answer has.
pub(super) fn id(prefix: &str) -> String {
    format!("{prefix}_{:016x}", rand::random::<u64>())
}

/// All strings below `keys` in a content: the string it is, or those of its blocks.
pub(super) fn texts(content: &Value, keys: &[&str]) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            let texts = blocks.iter().flat_map(|block| keys.iter().filter_map(|key| block[*key].as_str()));
            texts.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}
