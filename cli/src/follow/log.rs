//! The log of a run's pod, each line once, over as many connections as it takes.

use std::time::Duration;

use futures::{AsyncBufReadExt, pin_mut};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::LogParams};
use signalbox_types::names::{CONTAINER_AGENT, CONTAINER_INIT};
use tokio::{sync::mpsc, time::sleep};

use super::News;
use crate::pods::{self, State};

/// Between two looks at a container that has not started, or whose log broke off.
const PAUSE: Duration = Duration::from_millis(500);

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// When the kubelet read it.
    pub(crate) at: Option<Timestamp>,
    pub(crate) text: String,
}

/// Sends all lines of the pod's containers and then [`News::LogEnded`]. The init container's come first; without
/// `with_init` only where it failed, as the agent's log does not exist then.
pub(super) async fn pump(pods: Api<Pod>, pod: String, with_init: bool, to: mpsc::Sender<News>) {
    for container in [CONTAINER_INIT, CONTAINER_AGENT] {
        let wanted = with_init || container == CONTAINER_AGENT;
        match container_log(&pods, &pod, container, wanted, &to).await {
            Ok(Next::Container) => {}
            Ok(Next::Nothing) => break,
            Err(why) => {
                let _ = to.send(News::Unseen(why)).await;
                return;
            }
        }
    }
    let _ = to.send(News::LogEnded).await;
}

/// What comes after a container's log.
enum Next {
    Container,
    Nothing,
}

async fn container_log(
    pods: &Api<Pod>,
    name: &str,
    container: &str,
    wanted: bool,
    to: &mpsc::Sender<News>,
) -> Result<Next, String> {
    let mut cursor = Cursor::default();
    loop {
        // Looked at before the log is opened: a log that ends after its container did is whole.
        let pod = match pods.get(name).await {
            Ok(pod) => pod,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Next::Nothing),
            Err(kube::Error::Api(status)) if status.code == 403 => return Err("you may not get pods here".to_owned()),
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        };
        let state = pods::state(&pod, container);
        let failed = matches!(state, State::Ended(code) if code != 0);
        let ended = matches!(state, State::Ended(_)) || pods::has_ended(&pod);
        let readable = wanted || failed;
        match state {
            State::Waiting if ended => return Ok(Next::Nothing),
            State::Absent if ended || container == CONTAINER_INIT => return Ok(Next::Container),
            State::Waiting | State::Absent => {}
            State::Running | State::Ended(_) if readable => {
                read(pods, name, container, !ended, &mut cursor, to).await?
            }
            State::Running | State::Ended(_) => {}
        }
        if ended {
            return Ok(if container == CONTAINER_INIT && failed { Next::Nothing } else { Next::Container });
        }
        sleep(PAUSE).await;
    }
}

/// One connection: sends what is new. An `Err` is one that will not pass.
async fn read(
    pods: &Api<Pod>,
    name: &str,
    container: &str,
    follow: bool,
    cursor: &mut Cursor,
    to: &mpsc::Sender<News>,
) -> Result<(), String> {
    let params = LogParams {
        container: Some(container.to_owned()),
        follow,
        timestamps: true,
        since_time: cursor.since(),
        ..LogParams::default()
    };
    let stream = match pods.log_stream(name, &params).await {
        Ok(stream) => stream,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Err("you may not read logs (pods/log) here".into());
        }
        // Not there yet, gone, or a node that does not answer: the next look at the pod tells.
        Err(_) => return Ok(()),
    };
    pin_mut!(stream);
    cursor.begin();
    let mut line = Vec::new();
    // An error is a connection that broke: the next one goes on from here.
    while stream.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        if let Some(line) = cursor.take(text.trim_end_matches(['\n', '\r']))
            && to.send(News::Line(line)).await.is_err()
        {
            return Ok(());
        }
        line.clear();
    }
    Ok(())
}

/// How far the log has been read. A connection can only be begun at a whole second, so what was seen of it is skipped;
/// several lines may bear the same time.
#[derive(Debug, Default)]
struct Cursor {
    last: Option<Timestamp>,
    seen_at_last: usize,
    to_skip: usize,
}

impl Cursor {
    /// From when the next connection has to begin.
    fn since(&self) -> Option<Timestamp> {
        // The parameter is rounded to seconds, in whatever direction.
        self.last.and_then(|last| last.checked_sub(SignedDuration::from_secs(1)).ok())
    }

    /// A new connection.
    fn begin(&mut self) {
        self.to_skip = self.seen_at_last;
    }

    /// The line, unless it was seen before.
    fn take(&mut self, line: &str) -> Option<Line> {
        let stamped = line.split_once(' ').and_then(|(stamp, text)| Some((stamp.parse::<Timestamp>().ok()?, text)));
        let Some((at, text)) = stamped else { return Some(Line { at: None, text: line.to_owned() }) };
        match self.last {
            Some(last) if at < last => return None,
            Some(last) if at == last => {
                if self.to_skip > 0 {
                    self.to_skip -= 1;
                    return None;
                }
                self.seen_at_last += 1;
            }
            _ => {
                (self.last, self.seen_at_last, self.to_skip) = (Some(at), 1, 0);
            }
        }
        Some(Line { at: Some(at), text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(cursor: &mut Cursor, lines: &[&str]) -> Vec<String> {
        cursor.begin();
        lines.iter().filter_map(|line| cursor.take(line)).map(|line| line.text).collect()
    }

    #[test]
    fn a_line_is_shown_once_over_two_connections_also_where_several_have_the_same_time() {
        let mut cursor = Cursor::default();
        let lines = [
            "2026-06-22T12:00:00.000000001Z one",
            "2026-06-22T12:00:00.000000002Z two",
            "2026-06-22T12:00:00.000000002Z three",
        ];
        assert_eq!(cursor.since(), None);
        assert_eq!(taken(&mut cursor, &lines[..2]), ["one", "two"]);
        assert_eq!(cursor.since().unwrap().to_string(), "2026-06-22T11:59:59.000000002Z");
        assert_eq!(taken(&mut cursor, &lines), ["three"]);
        let more = [lines.as_slice(), &["2026-06-22T12:00:01Z four"]].concat();
        assert_eq!(taken(&mut cursor, &more), ["four"]);
        assert_eq!(taken(&mut cursor, &more), [""; 0]);
    }

    #[test]
    fn a_line_without_a_time_is_shown_as_it_is() {
        assert_eq!(taken(&mut Cursor::default(), &["{\"a\": 1}", "word"]), ["{\"a\": 1}", "word"]);
    }
}
