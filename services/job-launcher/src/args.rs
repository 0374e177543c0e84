use clap::Parser;
use signalbox_runtime::args::{CommonArgs, non_negative_integer};

/// Turns Agents into Jobs, and writes what becomes of them back.
#[derive(Parser, Clone, Debug)]
#[command(name = "job-launcher", version)]
pub struct Args {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    /// The image of the init container of runs.
    #[arg(long, env = "AGENT_IMAGE", value_name = "IMAGE", default_value = "localhost/signalbox-agent:dev")]
    pub(crate) agent_image: String,
    /// The last bytes of a run's log that are kept in `status.output`.
    #[arg(
        long, env = "MAX_OUTPUT_BYTES", value_name = "BYTES", default_value = "262144",
        value_parser = non_negative_integer("MAX_OUTPUT_BYTES")
    )]
    pub(crate) max_output_bytes: u64,
}
