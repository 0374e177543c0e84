use std::sync::Arc;

use kube::runtime::controller::Action;
use signalbox_runtime::{control::Reconcile, write::WriteError};
use signalbox_types::Station;

use crate::{apply::Apply, world::World};

/// Why a Station was not pruned. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A GET or LIST failed.
    #[error("read the Station and its Agents")]
    Read(#[from] kube::Error),
    /// A delete failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The service's reconcile.
pub(crate) struct Pruner {
    pub(crate) world: Arc<World>,
    pub(crate) apply: Apply,
}

impl Reconcile for Pruner {
    type Object = Station;
    type Error = Error;

    async fn reconcile(&self, station: Arc<Station>) -> Result<Action, Error> {
        // Costs nothing while there is nothing to do.
        if !self.world.surplus(&station).is_empty()
            && let Some(live) = self.world.look_live(&station).await?
        {
            self.apply.prune(&self.world.surplus(&live)).await?;
        }
        Ok(Action::await_change())
    }
}
