use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{Event, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{ResourceExt, api::ListParams, runtime::watcher};
use signalbox_types::{Agent, AgentDefinition, Station, names};

use crate::{
    fault::Ask,
    fetch::{self, Seen},
    follow::{find_pod, get_agent},
    session::Session,
};

/// All that a run's place is explained from.
pub(super) struct Facts {
    pub(super) agent: Agent,
    pub(super) station: Seen<Station>,
    pub(super) recipe: Seen<AgentDefinition>,
    /// The Agents of the Station, this one included.
    pub(super) peers: Seen<Vec<Agent>>,
    /// Whatever has the name of the run's Job.
    pub(super) job: Seen<Job>,
    pub(super) pod: Seen<Pod>,
    /// Those of the Agent, its Job and its pod.
    pub(super) events: Seen<Vec<Event>>,
}

/// Reads them; what the caller may not see is left open.
pub(super) async fn gather(session: &Session, name: &str) -> anyhow::Result<Facts> {
    let agent = get_agent(session, name).await?;
    let station_ref = &agent.spec.station_ref;
    let station = fetch::get(&session.api::<Station>(), station_ref, &session.named("station", station_ref)).await?;
    let recipe = match &station {
        Seen::Found(station) => {
            let name = &station.spec.agent_def_ref;
            fetch::get(&session.api::<AgentDefinition>(), name, &session.named("agentdefinition", name)).await?
        }
        Seen::Missing => Seen::Missing,
        Seen::Denied => Seen::Denied,
    };
    let of_station = watcher::Config::default().fields(&format!("spec.stationRef={station_ref}"));
    let peers = fetch::list_seen::<Agent>(session.api(), of_station, "agents").await?;
    let job_name = agent.recorded_job().map_or_else(|| names::job_name(name), str::to_owned);
    let job = fetch::get(&session.api::<Job>(), &job_name, &session.named("job", &job_name)).await?;
    let pod = find_pod(session, &agent).await?;
    let job_meta = job.found().map(|job| &job.metadata);
    let metas = [Some(&agent.metadata), job_meta, pod.found().map(|pod| &pod.metadata)];
    let events = events(session, metas.into_iter().flatten()).await?;
    Ok(Facts { agent, station, recipe, peers, job, pod, events })
}

/// The Events about the objects, by uid: one of the same name may have been there before.
async fn events<'a>(
    session: &Session,
    metas: impl Iterator<Item = &'a ObjectMeta>,
) -> anyhow::Result<Seen<Vec<Event>>> {
    let api = session.api::<Event>();
    let object = format!("events in namespace \"{}\"", session.namespace);
    let ask = Ask { verb: "list", object: &object, if_missing: "" };
    let mut all = Vec::new();
    for uid in metas.filter_map(|meta| meta.uid.as_ref()) {
        let params = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        match fetch::seen(api.list(&params).await, &ask)? {
            Seen::Found(events) => all.extend(events.items),
            Seen::Denied => return Ok(Seen::Denied),
            Seen::Missing => {}
        }
    }
    // Two objects never share an Event, but the order among objects is not the order in time.
    all.sort_by_key(|event| (super::view::time_of(event), event.name_any()));
    Ok(Seen::Found(all))
}
