use kube::ResourceExt;
use signalbox_agents::history;
use signalbox_runtime::{list::Only, store::Kind};
use signalbox_types::{Agent, ObjectId, Station};

/// The Store of a term.
pub(crate) struct World {
    pub(crate) agents: Kind<Agent>,
    pub(crate) stations: Kind<Station>,
}

impl World {
    /// Finished Agents beyond the Station's limits, as the Store has them.
    pub(crate) fn surplus(&self, station: &Station) -> Vec<ObjectId> {
        let agents = self.agents.all_in(&station.namespace().unwrap_or_default());
        history::surplus(station, agents.iter().map(AsRef::as_ref))
    }

    /// The Station as it is now, with its Agents as they are now in the Store. A delete is irrevocable: it is decided
    /// on what the API server says.
    pub(crate) async fn look_live(&self, station: &Station) -> Result<Option<Station>, kube::Error> {
        let (namespace, name) = (station.namespace().unwrap_or_default(), station.name_any());
        let fields = format!("spec.stationRef={name}");
        let fields = Only::Fields(&fields);
        self.agents.live_list(&namespace, fields, |agent| agent.spec.station_ref == name).await?;
        self.stations.live(&namespace, &name).await
    }
}
