use std::sync::Arc;

use signalbox_runtime::write::{WriteError, Writer};
use signalbox_types::ObjectId;

use crate::world::World;

/// Writes, for one term.
pub(crate) struct Apply {
    writer: Writer,
    world: Arc<World>,
}

impl Apply {
    pub(crate) const fn new(writer: Writer, world: Arc<World>) -> Self {
        Self { writer, world }
    }

    /// Deletes finished Agents, each in the version that was looked at. One that has changed since is kept until the
    /// next listing (case 55); the first write that finds the term over stops the rest (case 65).
    pub(crate) async fn prune(&self, surplus: &[ObjectId]) -> Result<(), WriteError> {
        let mut unknown = None;
        for id in surplus {
            let (namespace, agent) = (&id.namespace, &id.name);
            match self.writer.delete(&self.world.agents, id).await {
                Ok(true) => tracing::info!(namespace, agent, "pruned"),
                Ok(false) => {}
                Err(error @ WriteError::NotLeader(_)) => return Err(error),
                Err(error) if error.code() == Some(409) => {
                    tracing::info!(namespace, agent, "changed; kept for now")
                }
                Err(error) => unknown = Some(error),
            }
        }
        unknown.map_or(Ok(()), Err)
    }
}
