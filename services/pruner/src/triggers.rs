//! Which Stations need a look after what has changed.

use std::sync::Arc;

use kube::{ResourceExt, runtime::reflector::ObjectRef};
use signalbox_runtime::{
    control::Queue,
    store::{Notice, Told, Transition},
};
use signalbox_types::{Agent, Station};

use crate::world::World;

/// Turns what the Store tells into names for the control loop.
pub(crate) struct Triggers {
    world: Arc<World>,
    queue: Queue<Station>,
}

impl Triggers {
    pub(crate) fn new(world: Arc<World>, queue: Queue<Station>) -> Self {
        Self { world, queue }
    }

    /// Runs until the Store is gone.
    pub(crate) async fn run(self, mut agents: Told<Agent>, mut stations: Told<Station>) {
        loop {
            tokio::select! {
                Some(notice) = agents.recv() => match notice {
                    Notice::Changed(change) => self.agent(&change),
                    Notice::Listed => self.all(),
                },
                Some(notice) = stations.recv() => match notice {
                    Notice::Changed(Transition { new: Some(station), .. }) => self.look_at(&station),
                    Notice::Changed(_) => {}
                    Notice::Listed => self.all(),
                },
                else => return,
            }
        }
    }

    /// An Agent has ended, or was seen for the first time and has ended.
    fn agent(&self, change: &Transition<Agent>) {
        let Some(agent) = change.new.as_ref().filter(|agent| agent.phase().is_terminal()) else { return };
        let namespace = agent.namespace().unwrap_or_default();
        if let Some(station) = self.world.stations.get(&namespace, &agent.spec.station_ref) {
            self.look_at(&station);
        }
    }

    fn all(&self) {
        self.world.stations.all().iter().for_each(|station| self.look_at(station));
    }

    fn look_at(&self, station: &Station) {
        // The loop is gone once the term is over.
        let _ = self.queue.send(ObjectRef::from_obj(station));
    }
}
