use signalbox_output::Events;
use signalbox_types::event::{Lifecycle, LifecycleStatus, Stage};
use signalbox_vendors::Vendor;
use tokio::task::spawn_blocking;

use crate::{
    config::{Args, Config},
    files, git,
};

/// Why the initializer ends without having prepared the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) tool: Option<&'static str>,
    pub(crate) reason: Option<String>,
    pub(crate) code: i32,
}

impl Failure {
    /// A tool ended with that code.
    pub(crate) const fn of(tool: &'static str, code: i32) -> Self {
        Self { tool: Some(tool), reason: None, code }
    }

    /// Something beside the tools went wrong.
    pub(crate) fn beside(reason: &str, code: i32) -> Self {
        Self { tool: None, reason: Some(reason.to_owned()), code }
    }

    /// The same with a reason.
    pub(crate) fn because(mut self, reason: String) -> Self {
        self.reason = Some(reason);
        self
    }

    /// The event that says so.
    pub(crate) fn event(&self) -> Lifecycle {
        let event = Lifecycle::new(Stage::Init, LifecycleStatus::Failed).with_exit_code(self.code);
        Lifecycle { tool: self.tool.map(str::to_owned), reason: self.reason.clone(), ..event }
    }
}

/// The steps in the contract's order. Each that blocks has a thread of its own, so that the caller can give up on it.
pub(crate) async fn prepare(args: &Args, config: Config, events: &Events) -> Result<(), Failure> {
    let home = config.home.clone().filter(|home| files::is_writable(home)).ok_or_else(|| Failure::beside("home", 2))?;

    events.emit(&running("supervisor")).await;
    let (staged, agent_dir) = (args.staged_supervisor.clone(), args.agent_dir.clone());
    blocking("supervisor", move || files::stage_supervisor(&staged, &agent_dir)).await?;
    if config.vendor == Vendor::Claude {
        files::leave_claude_settings(&args.agent_dir).map_err(|error| failed("settings", &error))?;
    }

    if !config.repos.is_empty() {
        events.emit(&running("git")).await;
    }
    for repo in config.repos {
        let workspace = config.workspace.clone();
        let clone = move || git::fetch(&repo, &workspace, |name| std::env::var(name).ok());
        spawn_blocking(clone).await.unwrap_or(Err(git::CLONE_FAILED)).map_err(|code| Failure::of("git", code))?;
    }

    let owned = [home, config.workspace];
    blocking("chown", move || files::give_to_agent(&owned)).await.map_err(|_| Failure::beside("chown", 2))
}

fn running(tool: &str) -> Lifecycle {
    Lifecycle::new(Stage::Init, LifecycleStatus::Running).with_tool(tool)
}

fn failed(tool: &'static str, error: &std::io::Error) -> Failure {
    tracing::error!("{tool}: {error}");
    Failure::of(tool, 1)
}

/// Runs a step on a thread of its own; an error is logged and fails the tool with code 1.
async fn blocking(
    tool: &'static str,
    step: impl FnOnce() -> std::io::Result<()> + Send + 'static,
) -> Result<(), Failure> {
    let result = spawn_blocking(step).await.unwrap_or_else(|panic| Err(std::io::Error::other(panic)));
    result.map_err(|error| failed(tool, &error))
}
