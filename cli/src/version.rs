//! `version` and `completion`: what needs no cluster.

use std::io::stdout;

use clap::CommandFactory;
use clap_complete::shells;
use serde_json::json;

use crate::{
    args::{Cli, Shell, VersionArgs},
    out,
};

/// The name that completion scripts are for: shells complete programs, and kubectl its plugins by them.
const PROGRAM: &str = "kubectl-signalbox";

/// The version of this program; it is also that of the services and resource definitions it belongs to.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn run(args: &VersionArgs) -> anyhow::Result<u8> {
    match args.output {
        Some(format) => out::object(format, &json!({ "clientVersion": format!("v{VERSION}") }))?,
        None => out::say(&format!("Client Version: v{VERSION}"))?,
    }
    Ok(0)
}

pub(crate) fn completion(shell: Shell) -> anyhow::Result<u8> {
    // `bin_name` has a space for the help; a completion script is for one word.
    let mut command = Cli::command().bin_name(PROGRAM);
    let mut script = Vec::new();
    match shell {
        Shell::Bash => clap_complete::generate(shells::Bash, &mut command, PROGRAM, &mut script),
        Shell::Zsh => clap_complete::generate(shells::Zsh, &mut command, PROGRAM, &mut script),
        Shell::Fish => clap_complete::generate(shells::Fish, &mut command, PROGRAM, &mut script),
    }
    out::bytes(&mut stdout().lock(), &script)?;
    Ok(0)
}
