//! Programs that an installer needs and this image lacks, from its own package manager: `docs/contract/agents.md`
//! section 10.

use std::{
    env::{join_paths, split_paths},
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use crate::{
    paths::find_program,
    prepare::Failure,
    process::{MISSING, Step},
};

/// A package manager, and what makes it install packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    program: &'static str,
    /// The arguments of its steps; the names of the packages go at the end of the last.
    steps: &'static [&'static [&'static str]],
}

/// The first that is there is taken.
const KINDS: &[Kind] = &[
    Kind { program: "apt-get", steps: &[&["update"], &["install", "--no-install-recommends", "-y"]] },
    Kind { program: "dnf", steps: &[&["install", "-y"]] },
    Kind { program: "apk", steps: &[&["add", "--no-cache"]] },
];

/// The package manager of this image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manager {
    kind: Kind,
    path: PathBuf,
    search: OsString,
}

impl Manager {
    /// Looks for one on `search`, and in the `sbin` beside each `bin` of it.
    pub(crate) fn find(search: &OsStr) -> Option<Self> {
        let search = with_sbin(search);
        let found = KINDS.iter().find_map(|kind| Some((*kind, find_program(kind.program, &search)?)));
        found.map(|(kind, path)| Self { kind, path, search })
    }

    /// Its name.
    pub(crate) const fn name(&self) -> &'static str {
        self.kind.program
    }

    /// Installs what is `missing` on `search`.
    ///
    /// # Errors
    /// A step's code, with reason `install`; or `prerequisites` where something is missing even then.
    pub(crate) async fn install(&self, missing: &[&'static str], search: &OsStr) -> Result<(), Failure> {
        let last = self.kind.steps.len().saturating_sub(1);
        for (number, arguments) in self.kind.steps.iter().enumerate() {
            let packages = missing.iter().map(|program| package(program)).filter(|_| number == last);
            let step = Step::new(&self.path, &self.search).with(arguments.iter().copied().chain(packages));
            step.run().await.map_err(|code| Failure::beside("install", code))?;
        }
        let still = self::missing(missing, search);
        if still.is_empty() {
            return Ok(());
        }
        tracing::error!("{} has installed all it was asked for, but there is no {}", self.name(), still.join(", "));
        Err(Failure::beside("prerequisites", MISSING))
    }
}

/// The `PATH` of a run has nothing for administrators, but package managers and what they start are there.
fn with_sbin(search: &OsStr) -> OsString {
    let bins: Vec<PathBuf> = split_paths(search).collect();
    let sbins = bins.iter().filter(|folder| folder.ends_with("bin")).map(|folder| folder.with_file_name("sbin"));
    join_paths(bins.iter().cloned().chain(sbins)).unwrap_or_else(|_| search.to_owned())
}

/// Those programs that are not on `search`.
pub(crate) fn missing(programs: &[&'static str], search: &OsStr) -> Vec<&'static str> {
    programs.iter().copied().filter(|program| find_program(program, search).is_none()).collect()
}

/// The package that has a program, in all three.
fn package(program: &str) -> &str {
    match program {
        "sha256sum" => "coreutils",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_programs_are_found_beside_all_others() {
        let search = OsStr::new("/agent/.local/bin:/usr/bin:/bin:/opt/tools");
        let expected = "/agent/.local/bin:/usr/bin:/bin:/opt/tools:/agent/.local/sbin:/usr/sbin:/sbin";
        assert_eq!(with_sbin(search), expected);
        assert_eq!(Manager::find(OsStr::new("")), None);
    }
}
