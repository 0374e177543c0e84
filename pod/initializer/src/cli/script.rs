use std::{
    io,
    path::{Path, PathBuf},
};

use reqwest::header::HeaderMap;

use super::{LOCAL, Place, failed};
use crate::{
    beneath::Folder,
    fetch::{Fetcher, Source},
    paths::{find_program, is_program},
    prepare::Failure,
    process::{MISSING, Step},
};

/// The largest script.
const MAX_SCRIPT: u64 = 4 << 20;

/// A vendor's installer.
pub(super) struct Script {
    pub(super) url: &'static str,
    pub(super) shell: &'static str,
    pub(super) leaves: &'static str,
}

/// Fetches a vendor's installer and gives it to its shell on standard input, as vendors tell people to; the program.
///
/// # Errors
/// The first step that failed, with its code.
pub(super) async fn install(
    place: &Place<'_>,
    command: &str,
    script: &Script,
    fetcher: &Fetcher,
) -> Result<PathBuf, Failure> {
    let tool = place.vendor.as_str();
    let Some(shell) = find_program(script.shell, &place.search) else { return Err(Failure::of(tool, MISSING)) };
    let address = place.address(script.url);
    let source = Source::new(&address, HeaderMap::new()).map_err(|error| failed(tool, error.to_string()))?;
    tracing::info!("{tool}: fetching the installer from {address}");
    let text = fetcher.fetch(&source, MAX_SCRIPT, place.home).await;
    let text = text.map_err(|error| failed(tool, format!("the installer cannot be fetched: {error}")))?;
    Step::new(&shell, &place.search).with_input(text).run().await.map_err(|code| Failure::of(tool, code))?;

    let program = place.home.join(LOCAL).join("bin").join(command);
    let left = place.home.join(script.leaves);
    if !is_program(&left) {
        return Err(failed(tool, format!("the installer has left no {}", left.display())));
    }
    if left != program {
        link(place.home, &left, command).map_err(|error| failed(tool, format!("{}: {error}", program.display())))?;
    }
    Ok(program)
}

/// Makes a program that an installer has left elsewhere findable on the `PATH` of a run.
fn link(home: &Path, left: &Path, command: &str) -> io::Result<()> {
    let bin = Path::new(LOCAL).join("bin");
    Folder::open(home)?.make(&bin)?.symlink(command.as_ref(), left)
}
