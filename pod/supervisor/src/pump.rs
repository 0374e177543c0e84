//! The CLI's pipes, each with a task of its own, so that neither fills up and blocks the CLI.

use std::{io, sync::Arc};

use bytes::Bytes;
use signalbox_output::{Class, Output};
use signalbox_vendors::{Vendor, classify};
use tokio::{
    io::{
        AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter, copy,
        sink,
    },
    sync::mpsc::Sender,
};
use tokio_util::sync::CancellationToken;

/// The longest line that is read, in bytes.
const MAX_LINE: u64 = 16 * 1024 * 1024;
/// What tells the CLI's standard error from our own log.
const STDERR_PREFIX: &[u8] = b"[agent] ";

/// One step of reading.
#[derive(Debug, PartialEq, Eq)]
enum Read {
    Line,
    TooLong,
    End,
}

/// Passes the CLI's standard output on, line by line and byte for byte: to `stdout`, to `lines`, where its end is looked
/// for, and to the sinks. Ends with the pipe, or between two lines when `stop` says so.
pub(crate) async fn stdout(
    pipe: impl AsyncRead + Unpin,
    stdout: impl AsyncWrite + Unpin,
    lines: Sender<Bytes>,
    output: Arc<Output>,
    vendor: Vendor,
    stop: CancellationToken,
) {
    let mut pipe = Lines::of(pipe);
    let mut stdout = BufWriter::new(stdout);
    while let Some(()) = pipe.next(&stop).await {
        if pipe.line.is_empty() {
            continue;
        }
        print(&mut stdout, &[&pipe.line, b"\n"], pipe.has_more()).await;
        let line = Bytes::copy_from_slice(&pipe.line);
        // No one listens any more when the run has ended; what is left is still printed.
        let _ = lines.send(line.clone()).await;
        let class = if output.needs_class() { classify(vendor, &String::from_utf8_lossy(&line)) } else { None };
        let class = class.as_ref().map(|class| Class { event: class.event, tool: &class.tool, text: &class.text });
        output.line(&line, class).await;
    }
    let _ = stdout.flush().await;
}

/// Passes the CLI's standard error on, each line marked as the CLI's.
pub(crate) async fn stderr(pipe: impl AsyncRead + Unpin, stderr: impl AsyncWrite + Unpin, stop: CancellationToken) {
    let mut pipe = Lines::of(pipe);
    let mut stderr = BufWriter::new(stderr);
    while let Some(()) = pipe.next(&stop).await {
        print(&mut stderr, &[STDERR_PREFIX, &pipe.line, b"\n"], pipe.has_more()).await;
    }
    let _ = stderr.flush().await;
}

/// Writes a line. It is sent off at once unless the next one is at hand: a CLI that prints line by line is seen line by
/// line, and one that prints a flood does not cost a system call a line.
async fn print(to: &mut (impl AsyncWrite + Unpin), parts: &[&[u8]], more: bool) {
    // A closed output has no reader to miss the line, and the CLI must not notice.
    for part in parts {
        let _ = to.write_all(part).await;
    }
    if !more {
        let _ = to.flush().await;
    }
}

/// The lines of a pipe, one at a time in `line`.
struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn of(pipe: R) -> Self {
        Self { reader: BufReader::new(pipe), line: Vec::new() }
    }

    /// Reads the next line; none at the end of the pipe and when `stop` says so. After one that is too long nothing more is
    /// told, but the pipe is still emptied: a full one would hold the CLI up until the deadline.
    async fn next(&mut self, stop: &CancellationToken) -> Option<()> {
        let step = stop.run_until_cancelled(read(&mut self.reader, &mut self.line, MAX_LINE)).await?;
        match step {
            Ok(Read::Line) => Some(()),
            Ok(Read::TooLong) => {
                tracing::error!("the agent printed a line of over {MAX_LINE} bytes; nothing after it is read");
                let _ = stop.run_until_cancelled(copy(&mut self.reader, &mut sink())).await;
                None
            }
            Ok(Read::End) | Err(_) => None,
        }
    }

    /// Whether the next line has been read already.
    fn has_more(&self) -> bool {
        self.reader.buffer().contains(&b'\n')
    }
}

/// Reads up to a line feed, which is dropped, with a carriage return before it.
async fn read(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>, max: u64) -> io::Result<Read> {
    line.clear();
    let length = reader.take(max + 1).read_until(b'\n', line).await?;
    if length == 0 {
        return Ok(Read::End);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if length as u64 > max {
        return Ok(Read::TooLong);
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(Read::Line)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    async fn lines(input: &[u8], max: u64) -> (Vec<Vec<u8>>, Read) {
        let (mut input, mut line, mut lines) = (input, Vec::new(), Vec::new());
        loop {
            match read(&mut input, &mut line, max).await.unwrap() {
                Read::Line => lines.push(line.clone()),
                end => return (lines, end),
            }
        }
    }

    #[rstest]
    #[case::lines("a\nb\n", &["a", "b"])]
    #[case::the_last_without_its_feed("a\nb", &["a", "b"])]
    #[case::carriage_returns("a\r\nb\rc\r\n\r\n", &["a", "b\rc", ""])]
    #[case::nothing("", &[])]
    #[tokio::test]
    async fn a_line_ends_at_its_feed(#[case] input: &str, #[case] expected: &[&str]) {
        let (lines, end) = lines(input.as_bytes(), 10).await;
        assert_eq!(end, Read::End);
        assert_eq!(lines, expected.iter().map(|line| line.as_bytes()).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn the_longest_line_is_read_and_a_longer_one_is_not() {
        assert_eq!(lines(b"1234\n1234", 4).await, (vec![b"1234".to_vec(), b"1234".to_vec()], Read::End));
        assert_eq!(lines(b"1\n12345\n1\n", 4).await, (vec![b"1".to_vec()], Read::TooLong));
    }
}
