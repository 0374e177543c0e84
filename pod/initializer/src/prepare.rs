use std::{io, path::Path};

use signalbox_output::Events;
use signalbox_types::{
    event::{Lifecycle, LifecycleStatus, Stage},
    names,
};
use signalbox_vendors::Vendor;
use tokio::{runtime::Handle, task::spawn_blocking};

use crate::{
    cli::{Place, Way},
    config::{Args, Config},
    fetch::Fetcher,
    files,
    git::{self, Sources, broker::Broker},
    inputs, settings,
    skills::{self, Registry},
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
    let fetcher = Fetcher::new().map_err(|error| Failure::beside(&error.to_string(), 1))?;
    let steps = Steps { args, config, events, home: &home, fetcher };
    let way = steps.place().way();
    steps.install_missing(&way).await?;
    steps.supervisor().await?;
    steps.git().await?;
    steps.files().await?;
    steps.cli(way).await?;
    let registry = Registry::new(&steps.config.skills_source, &steps.fetcher, &args.agent_dir);
    steps.skills(registry.as_ref()).await?;
    steps.hooks(registry.as_ref()).await;
    steps.conversation().await?;
    steps.settings().await?;
    let owned = [home.clone(), steps.config.workspace.clone()];
    blocking("chown", move || files::give_to_agent(&owned)).await.map_err(|_| Failure::beside("chown", 2))
}

struct Steps<'a> {
    args: &'a Args,
    config: Config,
    events: &'a Events,
    home: &'a Path,
    fetcher: Fetcher,
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl Steps<'_> {
    fn place(&self) -> Place<'_> {
        Place {
            vendor: self.config.vendor,
            home: self.home,
            search: self.config.search.clone(),
            baked: &self.args.baked_clis,
            mirror: self.args.installer_base.as_deref(),
        }
    }

    async fn emit(&self, status: LifecycleStatus, tool: &str) {
        self.events.emit(&Lifecycle::new(Stage::Init, status).with_tool(tool)).await;
    }

    async fn running(&self, tool: &str) {
        self.emit(LifecycleStatus::Running, tool).await;
    }

    async fn install_missing(&self, way: &Way) -> Result<(), Failure> {
        let Way::Install(Some((manager, missing))) = way else { return Ok(()) };
        self.emit(LifecycleStatus::Installing, manager.name()).await;
        manager.install(missing, &self.config.search).await
    }

    async fn supervisor(&self) -> Result<(), Failure> {
        self.running("supervisor").await;
        let (staged, agent_dir) = (self.args.staged_supervisor.clone(), self.args.agent_dir.clone());
        blocking("supervisor", move || files::stage(&staged, &agent_dir, files::SUPERVISOR)).await
    }

    async fn git(&self) -> Result<(), Failure> {
        if self.config.repos.is_empty() {
            return Ok(());
        }
        self.running("git").await;
        let sources = Sources { github: self.args.github_base.clone(), broker: self.broker().await? };
        for repo in self.config.repos.clone() {
            let (workspace, sources) = (self.config.workspace.clone(), sources.clone());
            let clone = move || git::fetch(&repo, &workspace, &sources, env);
            spawn_blocking(clone).await.unwrap_or(Err(git::CLONE_FAILED)).map_err(|code| Failure::of("git", code))?;
        }
        Ok(())
    }

    /// The broker of the run, with this program where the agent's container finds it.
    async fn broker(&self) -> Result<Option<Broker>, Failure> {
        let Some((url, credential)) = self.config.broker.clone() else { return Ok(None) };
        let agent_dir = self.args.agent_dir.clone();
        let stage = move || files::stage(&std::env::current_exe()?, &agent_dir, files::INITIALIZER);
        blocking("git", stage).await?;
        let helper = self.args.agent_dir.join("bin").join(files::INITIALIZER);
        Ok(Some(Broker { url, credential, helper, fetcher: self.fetcher.clone(), runtime: Handle::current() }))
    }

    async fn files(&self) -> Result<(), Failure> {
        if self.config.files.is_empty() {
            return Ok(());
        }
        self.running("files").await;
        for file in &self.config.files {
            let fetched = inputs::fetch(file, &self.config.workspace, &self.fetcher, env).await;
            fetched.map_err(|error| {
                let reason = format!("input file {:?}: {error}", file.path);
                tracing::error!("{reason}");
                Failure::of("files", 1).because(reason)
            })?;
            tracing::info!("input file {:?} is in place", file.path);
        }
        Ok(())
    }

    async fn cli(&self, way: Way) -> Result<(), Failure> {
        if way == Way::NoCli {
            return Ok(());
        }
        let tool = self.config.vendor.as_str();
        let running = Lifecycle::new(Stage::Init, LifecycleStatus::Running).with_tool(tool);
        let beyond = matches!(way, Way::Beyond(_));
        let running = if beyond { running.with_reason("no-package-manager") } else { running };
        self.events.emit(&running).await;
        if let Some(installed) = self.place().go(way, &self.fetcher).await? {
            let event = Lifecycle::new(Stage::Init, LifecycleStatus::Installed).with_tool(tool);
            let origin = Some(installed.origin.to_owned());
            self.events.emit(&Lifecycle { version: installed.version, origin, ..event }).await;
        }
        Ok(())
    }

    async fn skills(&self, registry: Option<&Registry<'_>>) -> Result<(), Failure> {
        self.running("skills").await;
        let (workspace, agent_dir) = (self.config.workspace.clone(), self.args.agent_dir.clone());
        let copy = move || {
            skills::copy_from_workspace(&workspace, &agent_dir);
            Ok(())
        };
        blocking("skills", copy).await?;
        if let Some(registry) = registry {
            registry.fetch_skills(&self.config.skills).await;
        }
        Ok(())
    }

    async fn hooks(&self, registry: Option<&Registry<'_>>) {
        if let Some(registry) = registry {
            self.running("hooks").await;
            registry.fetch_hooks(self.config.vendor).await;
        }
    }

    async fn conversation(&self) -> Result<(), Failure> {
        let Some(conversation) = &self.config.conversation else { return Ok(()) };
        self.running("conversation").await;
        let restored = conversation.restore(self.home, &self.fetcher, env).await;
        let failed = |error| Failure::of("conversation", 1).because(format!("{:?}: {error}", conversation.id));
        if restored.map_err(failed)? {
            return Ok(());
        }
        let mark = names::beneath(&self.args.agent_dir, names::FRESH_MARK_PATH);
        blocking("conversation", move || std::fs::write(mark, "")).await
    }

    async fn settings(&self) -> Result<(), Failure> {
        let vendor = self.config.vendor;
        // The contract's name of the step, from a time when only Gemini's settings were written here.
        let tool = if vendor == Vendor::Gemini { "mcp" } else { "settings" };
        if vendor == Vendor::Gemini {
            self.running(tool).await;
        }
        let (agent_dir, wanted) = (self.args.agent_dir.clone(), self.config.settings.clone());
        blocking(tool, move || settings::complete(vendor, &agent_dir, &wanted)).await
    }
}

/// Runs a step on a thread of its own; an error is logged and fails the tool with code 1.
async fn blocking(tool: &'static str, step: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<(), Failure> {
    let result = spawn_blocking(step).await.unwrap_or_else(|panic| Err(io::Error::other(panic)));
    result.map_err(|error| {
        tracing::error!("{tool}: {error}");
        Failure::of(tool, 1)
    })
}
