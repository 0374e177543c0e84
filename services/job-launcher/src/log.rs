//! The end of a container's log.

use futures::{AsyncRead, AsyncReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Error, api::LogParams};
use signalbox_output::tail::Tail;

/// The last lines that are asked for.
const TAIL_LINES: i64 = 10_000;
/// Bytes of one read.
const CHUNK: usize = 64 * 1024;

/// What became of reading a log.
pub(crate) enum Log {
    /// Its end, capped.
    Read(String),
    /// There is none any more: the pod is gone, or the container never ran.
    Gone,
    /// It could not be read now.
    Failed(Error),
}

/// Reads the end of the log of `container`, of which at most `limit` bytes are kept. Memory stays near `limit` however
/// long the lines are.
pub(crate) async fn read(pods: &Api<Pod>, pod: &str, container: &str, limit: usize) -> Log {
    let mut lines = TAIL_LINES;
    loop {
        let params =
            LogParams { container: Some(container.to_owned()), tail_lines: Some(lines), ..LogParams::default() };
        match pods.log_stream(pod, &params).await {
            Ok(stream) => match drain(stream, limit).await {
                Ok(text) => return Log::Read(text),
                // Ten thousand lines can be over the limit on an answer's size; fewer of them are not.
                Err(error) if lines > 1 && error.kind() == std::io::ErrorKind::Other => {
                    tracing::warn!(pod, container, lines, %error, "log broke off; asking for fewer lines");
                    lines = (lines / 10).max(1);
                }
                Err(error) => return Log::Failed(Error::ReadEvents(error)),
            },
            Err(Error::Api(status)) if matches!(status.code, 400 | 404) => return Log::Gone,
            Err(error) => return Log::Failed(error),
        }
    }
}

async fn drain(stream: impl AsyncRead, limit: usize) -> std::io::Result<String> {
    let mut stream = std::pin::pin!(stream);
    let mut tail = Tail::new(limit);
    let mut chunk = vec![0; CHUNK];
    loop {
        match stream.read(&mut chunk).await? {
            0 => return Ok(tail.finish()),
            read => tail.push(&chunk[..read]),
        }
    }
}
