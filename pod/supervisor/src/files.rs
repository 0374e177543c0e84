//! Watched files, reported when the agent has ended: `docs/contract/agents.md` section 9.

use std::{
    fs::OpenOptions,
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use rustix::fs::OFlags;
use serde::Serialize;
use sha2::{Digest, Sha256};
use signalbox_output::{Events, http::Http, workspace};
use signalbox_types::{Upload, Watch};
use tokio::{task::spawn_blocking, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{config::Config, upload};

/// The largest file whose content goes into an event, in bytes.
const MAX_CONTENT_BYTES: u64 = 128 * 1024;
/// The largest file that is uploaded, in bytes; it is held in memory.
const MAX_UPLOAD_BYTES: u64 = 64 * 1024 * 1024;
/// How long a read of the local disk may go on when time is up.
const LAST_READ: Duration = Duration::from_millis(100);

/// The event of a watched file.
#[derive(Serialize)]
struct FileEvent<'a> {
    kind: &'static str,
    event: &'a str,
    path: &'a str,
    #[serde(flatten)]
    fate: Fate,
}

/// What became of a watched file.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Fate {
    Told { content: String },
    Uploaded { uploaded: bool, bytes: usize, sha256: String },
    Failed { reason: Reason },
}

/// Why a file is not in its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Reason {
    /// It is not there, or no regular file.
    Missing,
    TooLarge,
    /// It cannot be read, or is no text where text is asked for.
    Unreadable,
    UploadFailed,
}

/// Why a file is not read.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It is not below the workspace: nothing is told of it.
    Outside,
    For(Reason),
}

/// Raises an event for each watched file, in the recipe's order. Each waits for standard output and the sinks for at most
/// `patience`. Once `stop` is cancelled nothing is uploaded any more.
pub(crate) async fn raise(
    config: &Config,
    events: &Events,
    http: Option<&Http>,
    patience: Duration,
    stop: &CancellationToken,
) {
    for watch in &config.watches {
        let fate = match fate(watch, config, http, stop).await {
            Ok(fate) => fate,
            Err(Refusal::For(reason)) => Fate::Failed { reason },
            Err(Refusal::Outside) => {
                tracing::warn!("watched file {:?}: {:?} is not below the workspace", watch.event, watch.path);
                continue;
            }
        };
        let event = FileEvent { kind: "file", event: &watch.event, path: &watch.path, fate };
        events.emit_within(&event, patience).await;
    }
}

async fn fate(watch: &Watch, config: &Config, http: Option<&Http>, stop: &CancellationToken) -> Result<Fate, Refusal> {
    let place = workspace::below(&config.workspace, Path::new(&watch.path)).ok_or(Refusal::Outside)?;
    let Some(upload) = &watch.upload else {
        let content = read(place, config, MAX_CONTENT_BYTES, stop).await?;
        let content = String::from_utf8(content).map_err(|_| Refusal::For(Reason::Unreadable))?;
        return Ok(Fate::Told { content });
    };
    let content = read(place, config, MAX_UPLOAD_BYTES, stop).await?;
    let sent = stop.run_until_cancelled(send(watch, upload, config, http, content.into())).await;
    sent.unwrap_or_else(|| {
        tracing::warn!("watched file {:?}: there was no time left for its upload", watch.event);
        Err(Refusal::For(Reason::UploadFailed))
    })
}

async fn send(
    watch: &Watch,
    upload: &Upload,
    config: &Config,
    http: Option<&Http>,
    content: Bytes,
) -> Result<Fate, Refusal> {
    let bytes = content.len();
    let sent = upload::file(upload, &config.agent, &watch.event, http, content.clone()).await;
    sent.map_err(|error| {
        tracing::warn!("watched file {:?}: {error}", watch.event);
        Refusal::For(Reason::UploadFailed)
    })?;
    let sha256 = spawn_blocking(move || hexadecimal(&Sha256::digest(&content))).await;
    let sha256 = sha256.map_err(|_| Refusal::For(Reason::UploadFailed))?;
    Ok(Fate::Uploaded { uploaded: true, bytes, sha256 })
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn read(place: PathBuf, config: &Config, max: u64, stop: &CancellationToken) -> Result<Vec<u8>, Refusal> {
    let workspace = config.workspace.clone();
    let too_late = async {
        stop.cancelled().await;
        sleep(LAST_READ).await;
    };
    tokio::select! {
        biased;
        read = spawn_blocking(move || content(&workspace, &place, max)) => {
            read.unwrap_or(Err(Refusal::For(Reason::Unreadable)))
        }
        () = too_late => Err(Refusal::For(Reason::Unreadable)),
    }
}

/// The content of a regular file that is below the workspace on the disk too, where a link may lead away.
fn content(workspace: &Path, place: &Path, max: u64) -> Result<Vec<u8>, Refusal> {
    let root = workspace.canonicalize().map_err(refusal)?;
    let real = place.canonicalize().map_err(refusal)?;
    if !real.starts_with(root) {
        return Err(Refusal::Outside);
    }
    // Not blocking, or a pipe without writer would be waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(real).map_err(refusal)?;
    let found = file.metadata().map_err(refusal)?;
    if !found.is_file() {
        return Err(Refusal::For(Reason::Missing));
    }
    let mut content = Vec::new();
    // Of a file that grows no more is read than what shows that it is too large.
    file.take(max + 1).read_to_end(&mut content).map_err(refusal)?;
    if content.len() as u64 > max { Err(Refusal::For(Reason::TooLarge)) } else { Ok(content) }
}

fn refusal(error: io::Error) -> Refusal {
    Refusal::For(match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Reason::Missing,
        _ => Reason::Unreadable,
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::file("file", Ok("text"))]
    #[case::link_inside("inside", Ok("text"))]
    #[case::largest("largest", Ok("12345678"))]
    #[case::larger("larger", Err(Refusal::For(Reason::TooLarge)))]
    #[case::absent("absent", Err(Refusal::For(Reason::Missing)))]
    #[case::below_a_file("file/x", Err(Refusal::For(Reason::Missing)))]
    #[case::folder("folder", Err(Refusal::For(Reason::Missing)))]
    #[case::link_to_nothing("nothing", Err(Refusal::For(Reason::Missing)))]
    #[case::link_to_itself("loop", Err(Refusal::For(Reason::Unreadable)))]
    #[case::link_to_a_file_outside("outside", Err(Refusal::Outside))]
    #[case::link_to_a_folder_outside("away/secret", Err(Refusal::Outside))]
    #[case::pipe("pipe", Err(Refusal::For(Reason::Missing)))]
    fn a_file_is_read_from_below_the_workspace_only(#[case] name: &str, #[case] expected: Result<&str, Refusal>) {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, outside) = (folder.path().join("w"), folder.path().join("outside"));
        fs::create_dir_all(workspace.join("folder")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        fs::write(workspace.join("file"), "text").unwrap();
        fs::write(workspace.join("largest"), "12345678").unwrap();
        fs::write(workspace.join("larger"), "123456789").unwrap();
        for (name, target) in [
            ("inside", Path::new("folder/../file")),
            ("nothing", Path::new("absent")),
            ("loop", Path::new("loop")),
            ("outside", &outside.join("secret")),
            ("away", &outside),
        ] {
            symlink(target, workspace.join(name)).unwrap();
        }
        rustix::fs::mknodat(
            rustix::fs::CWD,
            workspace.join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!(content(&workspace, &workspace.join(name), 8), expected.map(|text| text.as_bytes().to_vec()));
    }

    #[test]
    fn a_workspace_that_is_itself_a_link_is_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("real")).unwrap();
        fs::write(folder.path().join("real/file"), "text").unwrap();
        symlink("real", folder.path().join("w")).unwrap();
        assert_eq!(content(&folder.path().join("w"), &folder.path().join("w/file"), 8), Ok(b"text".to_vec()));
    }
}
