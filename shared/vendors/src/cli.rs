use crate::{Vendor, claude, codex, gemini, opencode};

/// A vendor's CLI, and where it comes from when the Station's image does not bring it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cli {
    /// Its program. Found on `PATH`, it is taken as it is.
    pub command: &'static str,
    /// The version that the rules of this crate were seen in. Another one may behave otherwise.
    pub seen: &'static str,
    /// How it is installed.
    pub install: Install,
    /// Programs that the installation or the CLI itself needs and that an image may lack.
    pub needs: &'static [&'static str],
}

/// How a CLI is installed below `HOME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Install {
    /// By the vendor's script, which takes the newest version.
    Script {
        /// Where the script is.
        url: &'static str,
        /// What runs it.
        shell: &'static str,
        /// Where it leaves the program, below `HOME`. A program outside `.local/bin` is not on the `PATH` of a run, and
        /// is to be linked there.
        leaves: &'static str,
    },
    /// From a package of the npm registry that bundles all it needs.
    NpmPackage {
        /// The package's name, with its scope.
        package: &'static str,
        /// Where it is unpacked, below `HOME`.
        folder: &'static str,
        /// Its program for node, below the package.
        entry: &'static str,
    },
}

/// The CLI of a vendor; `None` for exec, which brings its own command. Contract: `docs/contract/vendor-clis.md`
/// section 1.
pub const fn cli(vendor: Vendor) -> Option<Cli> {
    match vendor {
        Vendor::Claude => Some(claude::CLI),
        Vendor::Codex => Some(codex::CLI),
        Vendor::Gemini => Some(gemini::CLI),
        Vendor::Opencode => Some(opencode::CLI),
        Vendor::Exec => None,
    }
}

impl Install {
    /// The tarball of that version of an npm package at a registry, whose address may end with a slash or not; `None`
    /// for a script. The registry's own naming: the scope is in the path and not in the file's name.
    pub fn tarball(&self, registry: &str, version: &str) -> Option<String> {
        let Self::NpmPackage { package, .. } = self else { return None };
        let file = package.rsplit('/').next().unwrap_or(package);
        Some(format!("{}/{package}/-/{file}-{version}.tgz", registry.trim_end_matches('/')))
    }
}
