use clap::Parser;
use signalbox_runtime::args::CommonArgs;

/// Lists and watches the resources of Signalbox and publishes what it sees on the bus.
#[derive(Parser, Clone, Debug)]
#[command(name = "watcher", version)]
pub struct Args {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}
