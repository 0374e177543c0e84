use std::sync::Arc;

use kube::{Client, ResourceExt, runtime::controller::Action};
use signalbox_runtime::{control::Reconcile, telemetry};
use signalbox_types::Agent;
use tracing::Instrument;

use crate::{
    apply::{Apply, Error},
    args::Args,
    plan::{Plan, plan},
    told::Told,
    world::World,
};

/// The service's reconcile.
pub(crate) struct Launcher {
    pub(crate) world: Arc<World>,
    pub(crate) apply: Apply,
    /// For what no Store holds: Events.
    pub(crate) reader: Client,
    pub(crate) told: Told,
    pub(crate) args: Args,
}

impl Reconcile for Launcher {
    type Object = Agent;
    type Error = Error;

    async fn reconcile(&self, agent: Arc<Agent>) -> Result<Action, Error> {
        let span = tracing::info_span!("reconcile", namespace = agent.namespace(), agent = agent.name_any());
        // One trace a run: the one that its change came with, or its Job bears. Else it begins here.
        if let Some(trace) = self.world.trace_of(&agent) {
            telemetry::continue_trace(&span, &trace);
        }
        self.step(agent).instrument(span).await
    }
}

impl Launcher {
    async fn step(&self, agent: Arc<Agent>) -> Result<Action, Error> {
        match plan(&agent, self.world.view(&agent)) {
            Plan::Nothing => {}
            Plan::ReleaseClaim => self.apply.release_claim(&agent).await?,
            Plan::Launch => self.launch(&agent).await?,
            Plan::Adopt => self.adopt(&agent).await?,
            Plan::Cancel => return self.cancel(&agent).await,
            Plan::WatchStart => return self.watch_start(&agent).await,
            Plan::FindJob => self.find_job(&agent).await?,
            Plan::Complete => self.complete(&agent).await?,
        }
        Ok(Action::await_change())
    }
}
