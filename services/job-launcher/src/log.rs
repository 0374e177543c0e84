//! The end of a container's log.

use futures::{AsyncRead, AsyncReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Error, api::LogParams};
use signalbox_output::tail::Tail;
use signalbox_types::Usage;
use signalbox_vendors::Vendor;

/// The last lines that are asked for.
const TAIL_LINES: i64 = 10_000;
/// The bytes of a log's end in which the CLI's word on tokens and cost is looked for, however few are kept.
const SEARCHED: usize = 1024 * 1024;
/// What the output may take in the Agent as it is stored: etcd refuses requests over 1.5 MiB, and a run whose end cannot be
/// written would never end.
const MAX_ENCODED: usize = 1024 * 1024;
/// Bytes of one read.
const CHUNK: usize = 64 * 1024;

/// How the log of a run is read.
pub(crate) struct Reading {
    /// The bytes of its end that are kept.
    pub(crate) limit: usize,
    /// Whose CLI wrote it, where that is known.
    pub(crate) vendor: Option<Vendor>,
    /// Whether the run goes on with an earlier session.
    pub(crate) resumed: bool,
}

/// What a log says.
pub(crate) struct RunLog {
    /// Its end, capped.
    pub(crate) text: String,
    /// Tokens and cost, as the CLI told them.
    pub(crate) usage: Option<Usage>,
}

/// What became of reading a log.
pub(crate) enum Log {
    /// What it says.
    Read(RunLog),
    /// There is none any more: the pod is gone, or the container never ran.
    Gone,
    /// It could not be read now.
    Failed(Error),
}

/// Reads the end of the log of `container`. Memory stays near the two limits however long the lines are.
pub(crate) async fn read(pods: &Api<Pod>, pod: &str, container: &str, reading: &Reading) -> Log {
    let mut lines = TAIL_LINES;
    loop {
        let params =
            LogParams { container: Some(container.to_owned()), tail_lines: Some(lines), ..LogParams::default() };
        match pods.log_stream(pod, &params).await {
            Ok(stream) => match drain(stream, reading).await {
                Ok(log) => return Log::Read(log),
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

async fn drain(stream: impl AsyncRead, reading: &Reading) -> std::io::Result<RunLog> {
    let mut stream = std::pin::pin!(stream);
    let (mut kept, mut searched) = (Tail::new(reading.limit), Tail::new(SEARCHED));
    let mut chunk = vec![0; CHUNK];
    loop {
        match stream.read(&mut chunk).await? {
            0 => break,
            read => {
                kept.push(&chunk[..read]);
                searched.push(&chunk[..read]);
            }
        }
    }
    let usage = |vendor| signalbox_vendors::usage(vendor, &searched.finish(), reading.resumed);
    Ok(RunLog { text: kept.finish_within(MAX_ENCODED), usage: reading.vendor.and_then(usage) })
}
