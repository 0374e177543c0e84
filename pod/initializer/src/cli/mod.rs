//! The CLI of the run's vendor: `docs/contract/agents.md` sections 10 and 11.
//!
//! This program sees its own image and not the Station's, in which the CLI will run. So a CLI that cannot be put into
//! the agent's home from here is no failure: the Station's image may bring it, and where it does not, the supervisor
//! says `not-found`.

mod npm;
mod script;

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use signalbox_vendors::{Cli, Install, Vendor, cli};
use tokio::task::spawn_blocking;

use crate::{
    beneath::Folder,
    copy::{self, Links},
    fetch::Fetcher,
    packages::{self, Manager},
    paths::{find_program, is_program},
    prepare::Failure,
    process,
};

/// Where programs of the agent's home are on the `PATH` of a run, below it.
const LOCAL: &str = ".local";
/// The file beside a baked CLI that says which version it is.
const VERSION_FILE: &str = "VERSION";

/// What a CLI is installed with.
pub(crate) struct Place<'a> {
    pub(crate) vendor: Vendor,
    /// `HOME`, to which it goes.
    pub(crate) home: &'a Path,
    /// The `PATH` that it is looked for on.
    pub(crate) search: OsString,
    /// Baked CLIs, a folder a vendor.
    pub(crate) baked: &'a Path,
    /// In front of each address that something is fetched from, `https://` left out; for tests.
    pub(crate) mirror: Option<&'a str>,
}

/// How the CLI comes into the agent's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The recipe brings its own command.
    NoCli,
    /// It is in this image for that, in the layout of `.local`.
    Baked(PathBuf),
    /// It is on the `PATH` already.
    Present(PathBuf),
    /// It is installed; the package manager brings what is missing for it.
    Install(Option<(Manager, Vec<&'static str>)>),
    /// It cannot be installed here: that is missing, and there is no package manager.
    Beyond(Vec<&'static str>),
}

/// A CLI that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) origin: &'static str,
    pub(crate) version: Option<String>,
}

impl Place<'_> {
    /// How the CLI will come, decided before anything is done.
    pub(crate) fn way(&self) -> Way {
        let Some(cli) = cli(self.vendor) else { return Way::NoCli };
        let baked = self.baked.join(self.vendor.as_str());
        if is_program(&baked.join("bin").join(cli.command)) {
            return Way::Baked(baked);
        }
        if let Some(found) = find_program(cli.command, &self.search) {
            return Way::Present(found);
        }
        let missing = match cli.install {
            Install::Script { .. } => packages::missing(cli.needs, &self.search),
            // Fetched and unpacked in process. What it needs to run has to be in the Station's image.
            Install::NpmPackage { .. } => Vec::new(),
        };
        if missing.is_empty() {
            return Way::Install(None);
        }
        match Manager::find(&self.search) {
            Some(manager) => Way::Install(Some((manager, missing))),
            None => Way::Beyond(missing),
        }
    }

    /// Goes that way. None where the run goes on without, for which the log has the reason.
    ///
    /// # Errors
    /// A copy or an installer that this image was made for has failed.
    pub(crate) async fn go(&self, way: Way, fetcher: &Fetcher) -> Result<Option<Installed>, Failure> {
        let tool = self.vendor.as_str();
        let Some(cli) = cli(self.vendor) else { return Ok(None) };
        match way {
            Way::NoCli => Ok(None),
            Way::Baked(from) => {
                let (home, source) = (self.home.to_owned(), from.clone());
                let copied = spawn_blocking(move || copy_baked(&source, &home)).await;
                let copied = copied.unwrap_or_else(|panic| Err(io::Error::other(panic)));
                copied.map_err(|error| failed(tool, format!("{} cannot be copied: {error}", from.display())))?;
                let version = fs::read_to_string(from.join(VERSION_FILE)).ok();
                let version = version.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
                Ok(Some(Installed { origin: "baked", version }))
            }
            Way::Present(program) => {
                Ok(Some(Installed { origin: "present", version: process::version(&program, &self.search).await }))
            }
            Way::Install(_) => self.install(&cli, fetcher).await,
            Way::Beyond(missing) => {
                tracing::warn!(
                    "{} cannot be installed here: this image has neither {} nor a package manager. Unless the Station's \
                     image has it, the run will end with not-found; use one that has, or an agent image with {} in it",
                    cli.command,
                    missing.join(", "),
                    self.baked.join(tool).join("bin").join(cli.command).display(),
                );
                Ok(None)
            }
        }
    }

    async fn install(&self, cli: &Cli, fetcher: &Fetcher) -> Result<Option<Installed>, Failure> {
        let tool = self.vendor.as_str();
        match cli.install {
            Install::Script { url, shell, leaves } => {
                let program =
                    script::install(self, cli.command, &script::Script { url, shell, leaves }, fetcher).await?;
                Ok(Some(Installed { origin: "downloaded", version: process::version(&program, &self.search).await }))
            }
            Install::NpmPackage { .. } => match npm::install(self, cli, fetcher).await {
                Ok(()) => Ok(Some(Installed { origin: "downloaded", version: Some(cli.seen.to_owned()) })),
                // Tried in every image, also where nobody has made it for that.
                Err(error) => {
                    tracing::warn!("{tool} is not installed, the Station's image may have it: {error}");
                    Ok(None)
                }
            },
        }
    }

    /// An address, or its place at the mirror.
    fn address(&self, url: &str) -> String {
        match self.mirror {
            Some(mirror) => format!("{}/{}", mirror.trim_end_matches('/'), url.trim_start_matches("https://")),
            None => url.to_owned(),
        }
    }
}

fn failed(tool: &'static str, what: String) -> Failure {
    tracing::error!("{tool}: {what}");
    Failure::of(tool, 1)
}

fn copy_baked(from: &Path, home: &Path) -> io::Result<u64> {
    copy::tree(&Folder::open(from)?, &Folder::open(home)?.make(Path::new(LOCAL))?, Links::Keep)
}
