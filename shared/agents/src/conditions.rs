//! The conditions of an Agent: why a run is where it is. `docs/contract/agents.md` section 4.1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use signalbox_types::{
    Agent, Timestamp,
    names::{CONDITION_ADMITTED, CONDITION_FINISHED, CONDITION_STARTED},
};

/// The longest message of a condition, in bytes.
const MAX_MESSAGE: usize = 1024;

/// The conditions of an Agent, to be changed and written as a whole: a merge patch replaces the list.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    all: Vec<Condition>,
    generation: Option<i64>,
    changed: bool,
}

impl Conditions {
    /// Those that the Agent has.
    pub fn of(agent: &Agent) -> Self {
        let all = agent.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        Self { all, generation: agent.metadata.generation, changed: false }
    }

    /// It has a slot of its Station.
    #[must_use]
    pub fn admitted(self, now: Timestamp) -> Self {
        self.set(CONDITION_ADMITTED, true, "Admitted", "", now)
    }

    /// It waits for a slot of its Station.
    #[must_use]
    pub fn station_full(self, message: &str, now: Timestamp) -> Self {
        self.set(CONDITION_ADMITTED, false, "StationFull", message, now)
    }

    /// A container of its pod runs, or did.
    #[must_use]
    pub fn started(self, now: Timestamp) -> Self {
        self.set(CONDITION_STARTED, true, "Started", "", now)
    }

    /// Its pod does not start.
    #[must_use]
    pub fn not_started(self, reason: &str, message: &str, now: Timestamp) -> Self {
        self.set(CONDITION_STARTED, false, reason, message, now)
    }

    /// It has ended.
    #[must_use]
    pub fn finished(self, reason: &str, message: &str, now: Timestamp) -> Self {
        self.set(CONDITION_FINISHED, true, reason, message, now)
    }

    /// Without what was said of a start that is being tried anew.
    #[must_use]
    pub fn without_started(mut self) -> Self {
        let before = self.all.len();
        self.all.retain(|condition| condition.type_ != CONDITION_STARTED);
        self.changed |= self.all.len() != before;
        self
    }

    /// True if a status or a reason changed: a change of text alone is not worth a write.
    pub const fn changed(&self) -> bool {
        self.changed
    }

    /// All of them.
    pub fn into_vec(self) -> Vec<Condition> {
        self.all
    }

    fn set(mut self, kind: &str, status: bool, reason: &str, message: &str, now: Timestamp) -> Self {
        let status = if status { "True" } else { "False" };
        let held = self.all.iter().position(|condition| condition.type_ == kind);
        let before = held.map(|at| self.all.remove(at));
        let same_status = before.as_ref().filter(|before| before.status == status);
        self.changed |= same_status.is_none_or(|before| before.reason != reason);
        let since =
            same_status.map_or_else(|| Time(now.whole_seconds().get()), |before| before.last_transition_time.clone());
        self.all.push(Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: message[..message.floor_char_boundary(MAX_MESSAGE)].to_owned(),
            last_transition_time: since,
            observed_generation: self.generation,
        });
        self.all.sort_by_key(|condition| rank(&condition.type_));
        self
    }
}

fn rank(kind: &str) -> usize {
    [CONDITION_ADMITTED, CONDITION_STARTED, CONDITION_FINISHED].iter().position(|known| *known == kind).unwrap_or(3)
}
