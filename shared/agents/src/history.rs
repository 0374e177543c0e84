//! Which finished runs are no longer kept: `docs/contract/agents.md` section 6.

use std::cmp::Reverse;

use signalbox_types::{Agent, ObjectId, Phase, Station};

/// The finished runs of `station` beyond its history limits, each phase apart, the latest completed being kept. Those
/// already being deleted count for nothing.
pub fn surplus<'a>(station: &Station, agents: impl IntoIterator<Item = &'a Agent>) -> Vec<ObjectId> {
    let meta = &station.metadata;
    let (succeeded, failed) = agents
        .into_iter()
        .filter(|agent| {
            agent.metadata.namespace == meta.namespace && Some(&agent.spec.station_ref) == meta.name.as_ref()
        })
        .filter(|agent| agent.phase().is_terminal() && !agent.is_terminating())
        .partition(|agent| agent.phase() == Phase::Succeeded);
    let mut surplus = beyond(station.spec.successful_runs_kept(), succeeded);
    surplus.extend(beyond(station.spec.failed_runs_kept(), failed));
    surplus
}

fn beyond(kept: usize, mut agents: Vec<&Agent>) -> Vec<ObjectId> {
    // An absent time sorts last: it is the oldest.
    agents.sort_by_key(|agent| {
        (Reverse(agent.status.as_ref().and_then(|status| status.completed_at)), &agent.metadata.name)
    });
    agents.into_iter().skip(kept).filter_map(ObjectId::of).collect()
}
