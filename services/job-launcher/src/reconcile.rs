use std::sync::Arc;

use kube::{ResourceExt, runtime::controller::Action};
use signalbox_runtime::control::Reconcile;
use signalbox_types::Agent;
use tracing::Instrument;

use crate::{
    apply::{Apply, Error},
    args::Args,
    plan::{Plan, plan},
    world::World,
};

/// The service's reconcile.
pub(crate) struct Launcher {
    pub(crate) world: Arc<World>,
    pub(crate) apply: Apply,
    pub(crate) args: Args,
}

impl Reconcile for Launcher {
    type Object = Agent;
    type Error = Error;

    async fn reconcile(&self, agent: Arc<Agent>) -> Result<Action, Error> {
        // The trace that the Job and its pod go on with begins here.
        let span = tracing::info_span!("reconcile", agent = agent.name_any());
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
            Plan::FindJob => self.find_job(&agent).await?,
            Plan::Complete => self.complete(&agent).await?,
        }
        Ok(Action::await_change())
    }
}
