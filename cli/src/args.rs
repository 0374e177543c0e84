use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Runs AI agents on Kubernetes, and shows where they are and why.
#[derive(Debug, Parser)]
#[command(name = "kubectl-signalbox", bin_name = "kubectl signalbox", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub(crate) connection: Connection,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which cluster and namespace.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// The namespace; the context's where absent
    #[arg(short, long, global = true)]
    pub(crate) namespace: Option<String>,
    /// The context of the kubeconfig
    #[arg(long, global = true)]
    pub(crate) context: Option<String>,
    /// The kubeconfig file; KUBECONFIG, then ~/.kube/config, where absent
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a run of a Station
    Run(RunArgs),
    /// Show what a run has printed
    Logs(LogsArgs),
    /// Say why a run is where it is, on one page
    Explain(ExplainArgs),
    /// Show Stations with their runs, queues, tokens and cost
    Top(TopArgs),
    /// Delete the finished runs beyond the history limits of their Stations
    Prune(PruneArgs),
    /// Ask for the end of runs
    Cancel(CancelArgs),
    /// Check an installation
    Doctor(DoctorArgs),
    /// Print the completion script of a shell
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Print the version of this program
    Version(VersionArgs),
}

/// A form for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// The shells that `completion` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Args, Debug)]
#[command(after_help = "Parameters of the recipe's prompt may also follow `--` as flags of their own names:\n  \
                        kubectl signalbox run hello --follow -- --name Ada --text 'one two'")]
pub(crate) struct RunArgs {
    /// The Station to run on
    pub(crate) station: String,
    /// A parameter of the run; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::parameters::assignment)]
    pub(crate) set: Vec<(String, String)>,
    /// The model, in place of the recipe's
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// Your own id of the task
    #[arg(long, value_name = "ID")]
    pub(crate) task_id: Option<String>,
    /// The repository to work on
    #[arg(long, value_name = "OWNER/NAME")]
    pub(crate) repo: Option<String>,
    /// The branch to work on
    #[arg(long)]
    pub(crate) branch: Option<String>,
    /// The name of the Agent
    #[arg(long, conflicts_with = "generate_name")]
    pub(crate) name: Option<String>,
    /// The beginning of the Agent's name; `STATION-` where absent
    #[arg(long, value_name = "PREFIX")]
    pub(crate) generate_name: Option<String>,
    /// Show what the run does until it ends, and exit with its code
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Wait for the end of the run, and exit with its code
    #[arg(long, conflicts_with = "follow")]
    pub(crate) wait: bool,
    /// With --follow or --wait: Ctrl-C cancels the run; a second one leaves it
    #[arg(long)]
    pub(crate) cancel_on_interrupt: bool,
    /// Print the Agent; with --follow or --wait at its end, progress going to standard error
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// Parameters as flags
    #[arg(last = true, value_name = "--NAME VALUE")]
    pub(crate) parameters: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    /// The Agent
    pub(crate) agent: String,
    /// Go on until the run ends, and exit with its code
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Lines as they were printed; this is so where the output is not a terminal
    #[arg(long, conflicts_with = "pretty")]
    pub(crate) raw: bool,
    /// Lines for people; this is so on a terminal
    #[arg(long)]
    pub(crate) pretty: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The Agent
    pub(crate) agent: String,
    /// Print it for programs
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Go on, drawing anew at each change
    #[arg(short, long, conflicts_with = "output")]
    pub(crate) watch: bool,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Print it for programs
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

#[derive(Args, Debug)]
pub(crate) struct PruneArgs {
    /// Only say what would be deleted
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Delete without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print the list for programs; only with --dry-run
    #[arg(short, long, value_name = "FORMAT", requires = "dry_run")]
    pub(crate) output: Option<Format>,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArgs {
    /// The Agents
    #[arg(required = true)]
    pub(crate) agents: Vec<String>,
    /// Wait until they have ended
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The namespace of the services, where it is not that of the runs
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) services_namespace: Option<String>,
    /// Print the checks for programs
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// Print it for programs
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}
