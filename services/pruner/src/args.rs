use clap::Parser;
use signalbox_runtime::args::CommonArgs;

/// Deletes finished Agents beyond their Station's history limits.
#[derive(Parser, Clone, Debug)]
#[command(name = "pruner", version)]
pub struct Args {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
