use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, Pod},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::ResourceExt;
use serde::Serialize;
use signalbox_agents::{
    admission::{self, Admission, Peer},
    outcome::{JobOutcome, job_outcome},
    owned_by,
};
use signalbox_types::{Agent, Phase, Usage, names};

use super::{advice, facts::Facts};
use crate::{
    fetch::Seen,
    pods::{self, Waiting},
};

/// Events that are shown, the latest.
const MOST_EVENTS: usize = 10;

/// Why a run is where it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    pub(super) agent: String,
    pub(super) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<Timestamp>,
    pub(super) phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failure_reason: Option<String>,
    pub(super) cancel_requested: bool,
    pub(super) terminating: bool,
    pub(super) station: StationView,
    pub(super) recipe: Recipe,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<Queue>,
    pub(super) job: JobView,
    pub(super) pod: PodView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
    pub(super) conditions: Vec<Condition>,
    /// Absent where they may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) events: Option<Vec<EventView>>,
    pub(super) what_to_do: String,
}

/// Whether something was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum There {
    Found,
    Missing,
    /// It may not be read.
    Unreadable,
}

impl There {
    const fn of<T>(seen: &Seen<T>) -> Self {
        match seen {
            Seen::Found(_) => Self::Found,
            Seen::Missing => Self::Missing,
            Seen::Denied => Self::Unreadable,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StationView {
    pub(super) name: String,
    pub(super) state: There,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limits: Option<Limits>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Limits {
    pub(super) policy: String,
    /// Runs at a time; absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runs: Option<usize>,
    pub(super) deadline_minutes: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_timeout_minutes: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stall_timeout_minutes: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recipe {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    pub(super) state: There,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) execution: Option<String>,
}

/// The live queue of the Station.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Queue {
    pub(super) running: Vec<String>,
    /// Waiting Agents that come first.
    pub(super) older: Vec<String>,
    /// 1 is next; absent for one that does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<usize>,
    /// True where nothing but the job-launcher stands between the run and its start.
    pub(super) may_start: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JobView {
    pub(super) name: String,
    pub(super) state: There,
    /// False for another's Job of that name.
    pub(super) ours: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) outcome: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodView {
    pub(super) state: There,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) ended: Vec<Ended>,
}

/// A container that has ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ended {
    pub(super) container: String,
    pub(super) exit_code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<Timestamp>,
    pub(super) object: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) count: i32,
}

/// Explains the facts.
pub(super) fn view(facts: &Facts, now: Timestamp) -> Explanation {
    let agent = &facts.agent;
    let status = agent.status.clone().unwrap_or_default();
    let mut explanation = Explanation {
        agent: agent.name_any(),
        namespace: agent.namespace().unwrap_or_default(),
        created: agent.metadata.creation_timestamp.as_ref().map(|created| created.0),
        phase: agent.phase(),
        exit_code: status.exit_code,
        failure_reason: status.failure_reason,
        cancel_requested: agent.is_cancel_requested(),
        terminating: agent.is_terminating(),
        station: station(facts),
        recipe: recipe(facts),
        queue: queue(facts),
        job: job(facts),
        pod: pod(&facts.pod),
        usage: status.usage,
        conditions: status.conditions,
        events: facts.events.found().map(|events| latest(events)),
        what_to_do: String::new(),
    };
    explanation.what_to_do = advice::advice(&explanation, now);
    explanation
}

fn station(facts: &Facts) -> StationView {
    let limits = facts.station.found().map(|station| Limits {
        policy: station.spec.concurrency_policy.to_string(),
        runs: station.spec.concurrency_limit(),
        deadline_minutes: station.spec.deadline_minutes(),
        start_timeout_minutes: station.spec.start_timeout_minutes(),
        stall_timeout_minutes: station.spec.stall_timeout_minutes(),
    });
    StationView { name: facts.agent.spec.station_ref.clone(), state: There::of(&facts.station), limits }
}

fn recipe(facts: &Facts) -> Recipe {
    let own = &facts.agent.spec.model;
    let recipe = facts.recipe.found().map(|recipe| &recipe.spec);
    Recipe {
        name: facts.station.found().map(|station| station.spec.agent_def_ref.clone()).unwrap_or_default(),
        state: There::of(&facts.recipe),
        model: recipe.map(|recipe| {
            signalbox_vendors::model_or_default(if own.is_empty() { &recipe.model } else { own }).to_owned()
        }),
        execution: recipe.map(|recipe| recipe.execution.to_string()),
    }
}

/// The queue as the admission sees it, but for Jobs that have no status yet.
fn queue(facts: &Facts) -> Option<Queue> {
    let (peers, station) = (facts.peers.found()?, facts.station.found()?);
    let agent = &facts.agent;
    let counted = |peer: &&Agent| !peer.is_terminating() && peer.uid() != agent.uid();
    let of = |phase: Phase| peers.iter().filter(counted).filter(move |peer| peer.phase() == phase);
    let age = |agent: &Agent| (agent.metadata.creation_timestamp.clone(), agent.name_any());
    let mut older: Vec<&Agent> = of(Phase::Pending).filter(|peer| age(peer) < age(agent)).collect();
    older.sort_by_key(|agent| age(agent));
    let waits = agent.phase() == Phase::Pending && !agent.is_terminating();
    let as_peer = |agent| Peer { agent, live_job: false, reserved: false, admissible: true };
    let peers: Vec<Peer<'_>> = peers.iter().map(as_peer).collect();
    Some(Queue {
        running: of(Phase::Running).map(ResourceExt::name_any).collect(),
        position: waits.then_some(older.len() + 1),
        older: older.into_iter().map(ResourceExt::name_any).collect(),
        may_start: waits && !matches!(admission::decide(agent, &station.spec, &peers), Admission::Wait),
    })
}

fn job(facts: &Facts) -> JobView {
    let agent = &facts.agent;
    let name = agent.recorded_job().map_or_else(|| names::job_name(&agent.name_any()), str::to_owned);
    let uid = agent.uid().unwrap_or_default();
    JobView {
        name,
        state: There::of(&facts.job),
        ours: facts.job.found().is_some_and(|job| owned_by(&job.metadata, &uid)),
        outcome: facts.job.found().map(|job| match job_outcome(job) {
            JobOutcome::Running => "running".to_owned(),
            JobOutcome::Succeeded => "succeeded".to_owned(),
            JobOutcome::Failed { reason } => format!("failed: {reason}"),
        }),
    }
}

fn pod(seen: &Seen<Pod>) -> PodView {
    let pod = seen.found();
    let status = pod.and_then(|pod| pod.status.as_ref());
    let ended = status.into_iter().flat_map(pods::statuses).filter_map(|status| {
        let terminated = status.state.as_ref()?.terminated.as_ref()?;
        let (container, reason) = (status.name.clone(), terminated.reason.clone());
        Some(Ended { container, exit_code: terminated.exit_code, reason })
    });
    PodView {
        state: There::of(seen),
        name: pod.map(ResourceExt::name_any),
        phase: status.and_then(|status| status.phase.clone()),
        node: pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone()),
        waiting: pod.map(pods::waiting).unwrap_or_default(),
        ended: ended.collect(),
    }
}

fn latest(events: &[Event]) -> Vec<EventView> {
    let first = events.len().saturating_sub(MOST_EVENTS);
    events[first..].iter().map(event).collect()
}

fn event(event: &Event) -> EventView {
    let object = &event.involved_object;
    let (kind, name) = (object.kind.clone().unwrap_or_default(), object.name.clone().unwrap_or_default());
    let series = event.series.as_ref().and_then(|series| series.count);
    EventView {
        at: time_of(event),
        object: format!("{}/{name}", kind.to_lowercase()),
        kind: event.type_.clone().unwrap_or_default(),
        reason: event.reason.clone().unwrap_or_default(),
        message: event.message.clone().unwrap_or_default(),
        count: series.or(event.count).unwrap_or(1),
    }
}

/// When an Event was last seen.
pub(super) fn time_of(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let once = event.event_time.as_ref().map(|time| time.0);
    series.or(last).or(once).or_else(|| event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;
    use rstest::rstest;
    use signalbox_types::{AgentDefinition, Station};

    use super::*;
    use crate::{
        explain::page,
        fixture::{Objects, objects, time},
        text::Palette,
    };

    fn seen<T>(object: Option<T>) -> Seen<T> {
        object.map_or(Seen::Missing, Seen::Found)
    }

    /// The first Agent is the one that is explained.
    fn facts(objects: &Objects) -> Facts {
        Facts {
            agent: objects.first().unwrap(),
            station: seen(objects.first::<Station>()),
            recipe: seen(objects.first::<AgentDefinition>()),
            peers: Seen::Found(objects.all()),
            job: seen(objects.first::<Job>()),
            pod: seen(objects.first()),
            events: Seen::Found(objects.all()),
        }
    }

    fn explained(yaml: &str) -> String {
        let now = time("2026-06-22T12:10:00Z");
        page::text(&view(&facts(&objects(yaml)), now), Palette::PLAIN, now)
    }

    #[rstest]
    #[case("queued", include_str!("../../tests/fixtures/explain/queued.yaml"))]
    #[case("unattended", include_str!("../../tests/fixtures/explain/unattended.yaml"))]
    #[case("image", include_str!("../../tests/fixtures/explain/image.yaml"))]
    #[case("foreign-job", include_str!("../../tests/fixtures/explain/foreign-job.yaml"))]
    #[case("no-recipe", include_str!("../../tests/fixtures/explain/no-recipe.yaml"))]
    #[case("failed", include_str!("../../tests/fixtures/explain/failed.yaml"))]
    #[case("succeeded", include_str!("../../tests/fixtures/explain/succeeded.yaml"))]
    fn a_run_is_explained_on_one_page(#[case] name: &str, #[case] yaml: &str) {
        insta::assert_snapshot!(name, explained(yaml));
    }

    #[test]
    fn the_page_of_the_documentation_is_one_of_these() {
        let page = explained(include_str!("../../tests/fixtures/explain/image.yaml"));
        assert!(include_str!("../../../docs/cli.md").contains(&page), "docs/cli.md has to have:\n{page}");
    }

    #[test]
    fn what_may_not_be_read_is_named() {
        let objects = objects(include_str!("../../tests/fixtures/explain/queued.yaml"));
        let agent = objects.first().unwrap();
        let (station, recipe, peers) = (Seen::Denied, Seen::Denied, Seen::Denied);
        let facts = Facts { agent, station, recipe, peers, job: Seen::Denied, pod: Seen::Denied, events: Seen::Denied };
        let now = time("2026-06-22T12:10:00Z");
        insta::assert_snapshot!(page::text(&view(&facts, now), Palette::PLAIN, now));
    }

    #[test]
    fn programs_get_all_of_it() {
        let facts = facts(&objects(include_str!("../../tests/fixtures/explain/queued.yaml")));
        insta::assert_yaml_snapshot!(view(&facts, time("2026-06-22T12:10:00Z")));
    }
}
