//! What a watch event means for the bus. Pure.

use std::collections::HashMap;

use kube::{
    core::{DeserializeGuard, error_boundary::InvalidObject},
    runtime::watcher::Event,
};
use signalbox_types::{Agent, ObjectId, Phase, Watched, bus::Change, resource_version};

/// The phase of an object that has one: an Agent.
fn phase_of<K: Watched>(object: &K) -> Option<Phase> {
    (object as &dyn std::any::Any).downcast_ref::<Agent>().map(Agent::phase)
}

/// All that is kept of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    uid: String,
    version: u64,
    phase: Option<Phase>,
}

/// What to do about one event.
#[derive(Debug)]
pub(crate) enum Step<K> {
    /// Publish this.
    Publish(Change<K>),
    /// Tell the log that an object does not decode; the others go on.
    Report(Box<InvalidObject>),
    /// Nothing.
    Nothing,
}

/// What is known of a kind: enough to publish each change once and to count phases.
#[derive(Debug, Default)]
pub(crate) struct Known {
    seen: HashMap<(String, String), Seen>,
    /// What a LIST under way has found so far.
    listing: Option<HashMap<(String, String), Seen>>,
}

impl Known {
    /// Takes an event of the watch.
    pub(crate) fn observe<K: Watched>(&mut self, event: Event<DeserializeGuard<K>>) -> Step<K> {
        match event {
            Event::Init => {
                self.listing = Some(HashMap::new());
                Step::Nothing
            }
            Event::InitApply(object) | Event::Apply(object) => self.applied(object),
            Event::InitDone => {
                // What was missed while the watch was away is gone without a message: a delete is only told by the
                // watch itself, the listing tells the rest.
                if let Some(listing) = self.listing.take() {
                    self.seen = listing;
                }
                Step::Nothing
            }
            Event::Delete(object) => self.deleted(object),
        }
    }

    /// Objects of each phase.
    pub(crate) fn phases(&self) -> HashMap<Phase, i64> {
        let mut counts: HashMap<_, _> = Phase::ALL.iter().map(|phase| (*phase, 0)).collect();
        for phase in self.seen.values().filter_map(|seen| seen.phase) {
            *counts.entry(phase).or_default() += 1;
        }
        counts
    }

    fn applied<K: Watched>(&mut self, object: DeserializeGuard<K>) -> Step<K> {
        let mut object = match object.0 {
            Ok(object) => object,
            Err(invalid) => return Step::Report(Box::new(invalid)),
        };
        object.slim();
        let Some(id) = ObjectId::of(&object) else { return Step::Nothing };
        let seen = Seen { version: resource_version(&object), uid: id.uid, phase: phase_of(&object) };
        let key = (id.namespace, id.name);
        let known = self.seen.get(&key) == Some(&seen);
        if let Some(listing) = &mut self.listing {
            listing.insert(key.clone(), seen.clone());
        }
        self.seen.insert(key, seen);
        if known { Step::Nothing } else { Step::Publish(Change::Applied(object)) }
    }

    /// The name is read even if the rest does not decode: a delete must not be lost.
    fn deleted<K: Watched>(&mut self, object: DeserializeGuard<K>) -> Step<K> {
        let Some(id) = ObjectId::of(&object) else { return Step::Nothing };
        self.seen.remove(&(id.namespace.clone(), id.name.clone()));
        Step::Publish(Change::Deleted(id))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(name: &str, version: &str, phase: &str) -> DeserializeGuard<Agent> {
        serde_json::from_value(json!({
            "apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent",
            "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": version,
                         "managedFields": [{"manager": "x"}]},
            "spec": {"stationRef": "s", "parameters": {"git_credential": "secret"}},
            "status": {"phase": phase, "output": "long"}
        }))
        .unwrap()
    }

    fn broken(name: &str, version: &str) -> DeserializeGuard<Agent> {
        serde_json::from_value(json!({
            "apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent",
            "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": version},
            "spec": "not an object"
        }))
        .unwrap()
    }

    #[test]
    fn a_change_is_published_slim_and_once() {
        let mut known = Known::default();
        let Step::Publish(Change::Applied(published)) = known.observe(Event::Apply(agent("a", "5", "Pending"))) else {
            panic!("not published");
        };
        assert_eq!(published.status.unwrap().output, None);
        assert!(published.spec.parameters.is_empty() && published.metadata.managed_fields.is_none());
        assert!(matches!(known.observe(Event::Apply(agent("a", "5", "Pending"))), Step::Nothing));
        assert!(matches!(known.observe(Event::Apply(agent("a", "6", "Running"))), Step::Publish(_)));
    }

    #[test]
    fn case_58_an_object_that_does_not_decode_is_reported_and_the_next_is_published() {
        let mut known = Known::default();
        assert!(matches!(known.observe(Event::InitApply(broken("bad", "5"))), Step::Report(_)));
        assert!(matches!(known.observe(Event::InitApply(agent("good", "6", "Pending"))), Step::Publish(_)));
    }

    #[test]
    fn the_delete_of_an_object_that_does_not_decode_is_published_by_its_name() {
        let mut known = Known::default();
        let Step::Publish(Change::<Agent>::Deleted(id)) = known.observe(Event::Delete(broken("bad", "7"))) else {
            panic!("not published");
        };
        assert_eq!((id.name.as_str(), id.version()), ("bad", 7));
    }

    #[test]
    fn phases_are_counted_and_what_a_new_list_lacks_is_no_longer_counted() {
        let mut known = Known::default();
        known.observe(Event::Apply(agent("a", "5", "Running")));
        known.observe(Event::Apply(agent("b", "6", "Pending")));
        assert_eq!((known.phases()[&Phase::Running], known.phases()[&Phase::Pending]), (1, 1));
        known.observe::<Agent>(Event::Init);
        known.observe(Event::InitApply(agent("b", "6", "Pending")));
        known.observe::<Agent>(Event::InitDone);
        assert_eq!((known.phases()[&Phase::Running], known.phases()[&Phase::Pending]), (0, 1));
        assert_eq!(known.phases()[&Phase::Failed], 0, "all four are set");
    }
}
