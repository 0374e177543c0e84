use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use reqwest::header::HeaderMap;
use signalbox_vendors::{Cli, Install};
use tokio::task::spawn_blocking;

use super::{LOCAL, Place};
use crate::{
    archive::{self, LIMITS},
    beneath::Folder,
    fetch::{self, Fetcher, Source},
};

/// The registry.
const REGISTRY: &str = "https://registry.npmjs.org";
/// The largest package, packed.
const MAX_PACKAGE: u64 = 512 << 20;
/// The one folder that every package of npm consists of: <https://docs.npmjs.com/cli/v11/commands/npm-pack>.
const TOP: &str = "package";

/// Why a package is not installed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Fetch(#[from] fetch::Error),
    #[error("{0}")]
    Archive(#[from] archive::Error),
    #[error("{0}")]
    Write(#[from] io::Error),
    #[error("the package has no {0}")]
    NoEntry(String),
}

/// Fetches the package in the version that its rules were seen in and unpacks it into the home, with a program that
/// starts it. It is there as a whole or not at all.
pub(super) async fn install(place: &Place<'_>, cli: &Cli, fetcher: &Fetcher) -> Result<(), Error> {
    let Install::NpmPackage { folder, entry, .. } = cli.install else { return Ok(()) };
    let address = cli.install.tarball(&place.address(REGISTRY), cli.seen).ok_or(fetch::Error::NoAddress)?;
    tracing::info!("{}: fetching {address}", place.vendor);
    let package = fetcher.fetch(&Source::new(&address, HeaderMap::new())?, MAX_PACKAGE, place.home).await?;
    let wrapper = wrapper(cli.command, &place.home.join(folder).join(entry));
    let (home, command) = (place.home.to_owned(), cli.command);
    let installed = spawn_blocking(move || {
        unpack(package, &home, folder, entry)?;
        let bin = Folder::open(&home)?.make(&Path::new(LOCAL).join("bin"))?;
        Ok(bin.create(command.as_ref(), 0o755)?.write_all(wrapper.as_bytes())?)
    });
    installed.await.unwrap_or_else(|panic| Err(io::Error::other(panic).into()))
}

fn unpack(package: File, home: &Path, folder: &str, entry: &str) -> Result<(), Error> {
    let target = home.join(folder);
    let above = target.parent().unwrap_or(home);
    fs::create_dir_all(above)?;
    let partial = tempfile::Builder::new().prefix(".partial-").tempdir_in(above)?;
    archive::unpack(package, partial.path(), LIMITS, |path| path.starts_with(TOP))?;
    let unpacked: PathBuf = partial.path().join(TOP);
    if !unpacked.join(entry).is_file() {
        return Err(Error::NoEntry(entry.to_owned()));
    }
    match fs::remove_dir_all(&target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(fs::rename(unpacked, target)?),
    }
}

/// Starts the package with the node of the Station's image, unless that image has the CLI itself: the Station's owner
/// has chosen that one, and the `PATH` of a run finds this file first.
fn wrapper(command: &str, entry: &Path) -> String {
    let entry = entry.display().to_string().replace('\'', r"'\''");
    format!(
        "#!/bin/sh\n\
         IFS=:\n\
         for folder in $PATH; do\n  \
           own=\"$folder/{command}\"\n  \
           if [ -x \"$own\" ] && [ ! \"$own\" -ef \"$0\" ]; then exec \"$own\" \"$@\"; fi\n\
         done\n\
         exec node '{entry}' \"$@\"\n"
    )
}
