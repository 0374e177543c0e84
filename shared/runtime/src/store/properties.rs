//! The Store against a model of an API server and of everything that can happen to a message on its way.

use std::collections::BTreeMap;

use kube::ResourceExt;
use proptest::prelude::*;
use serde_json::json;
use signalbox_types::{Agent, ObjectId, bus::Change, resource_version};

use super::table::{Ask, Key, Listing, Table, key_of};

/// What happens next. Numbers choose among what there is at that moment.
#[derive(Clone, Debug)]
enum Step {
    /// Someone creates, changes or deletes an object of one of a few names.
    Write { name: u8, delete: bool },
    /// The bus delivers a message it was ever given: late, again, out of order. What is never chosen is lost.
    Deliver(u16),
    /// We ask for an object; the API server answers now, the answer arrives later or never.
    Ask(u8),
    /// An answer that is on its way arrives.
    Answer(u16),
    /// Something that is no watcher of this API server sends a change in a version that was never given out.
    Forge { name: u8, ahead: u64, uid: bool },
}

/// Agents of the same names in two namespaces.
fn key(which: u8) -> Key {
    (format!("ns-{}", which % 2), format!("agent-{}", which / 2))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..4, prop::bool::weighted(0.3)).prop_map(|(name, delete)| Step::Write { name, delete }),
        5 => any::<u16>().prop_map(Step::Deliver),
        2 => (0u8..4).prop_map(Step::Ask),
        2 => any::<u16>().prop_map(Step::Answer),
    ]
}

fn forged() -> impl Strategy<Value = Step> {
    let ahead = prop_oneof![1u64..100, Just(u64::MAX / 2)];
    (0u8..6, ahead, any::<bool>()).prop_map(|(name, ahead, uid)| Step::Forge { name, ahead, uid })
}

#[derive(Default)]
struct World {
    version: u64,
    uids: u64,
    truth: BTreeMap<Key, Agent>,
    sent: Vec<Change<Agent>>,
    table: Table<Agent>,
    on_the_way: Vec<(Ask, Key, Option<Agent>)>,
}

impl World {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Write { name, delete } => self.write(&key(*name), *delete),
            Step::Deliver(which) => {
                if let Some(change) = pick(&self.sent, *which) {
                    self.table.change(change.clone());
                }
            }
            Step::Ask(name) => {
                let key = key(*name);
                let answer = self.truth.get(&key).cloned();
                self.on_the_way.push((self.table.ask(), key, answer));
            }
            Step::Answer(which) => {
                if !self.on_the_way.is_empty() {
                    let index = usize::from(*which) % self.on_the_way.len();
                    let (ask, key, answer) = self.on_the_way.swap_remove(index);
                    self.arrive(ask, &key, answer);
                }
            }
            Step::Forge { name, ahead, uid } => self.forge(&key(*name), self.version + ahead, *uid),
        }
    }

    fn forge(&mut self, key: &Key, version: u64, own_uid: bool) {
        let uid = self.truth.get(key).and_then(ResourceExt::uid).filter(|_| own_uid);
        let forged = agent(key, &uid.unwrap_or_else(|| "forged".to_owned()), version);
        self.table.change(Change::Applied(forged));
    }

    fn write(&mut self, key: &Key, delete: bool) {
        self.version += 1;
        if delete {
            let Some(gone) = self.truth.remove(key) else { return };
            let mut id = ObjectId::of(&gone).unwrap();
            id.resource_version = self.version.to_string();
            return self.sent.push(Change::Deleted(id));
        }
        let uid = self.truth.get(key).and_then(ResourceExt::uid).unwrap_or_else(|| {
            self.uids += 1;
            format!("uid-{}", self.uids)
        });
        let agent = agent(key, &uid, self.version);
        self.truth.insert(key.clone(), agent.clone());
        self.sent.push(Change::Applied(agent));
    }

    fn arrive(&mut self, ask: Ask, key: &Key, answer: Option<Agent>) {
        match answer {
            Some(agent) => self.table.answer(ask, agent),
            None => self.table.answer_absent(ask, key),
        };
        self.table.close(ask);
    }

    /// A LIST of one namespace, as it is now.
    fn listing_in(&self, namespace: &str) -> Listing {
        let objects = self.truth.values().filter_map(ObjectId::of).filter(|id| id.namespace == namespace).collect();
        Listing { scope: vec![namespace.to_owned()], version: self.version, objects }
    }

    /// LISTs of both namespaces at the same moment.
    fn listing(&self) -> Listing {
        join(self.listing_in("ns-0"), self.listing_in("ns-1"))
    }

    fn settle(&mut self) {
        self.settle_by(&self.listing());
    }

    /// What a service does after a listing: asks for all that differs, and is answered.
    fn settle_by(&mut self, listing: &Listing) {
        for key in self.table.differences(listing) {
            let ask = self.table.ask();
            let answer = self.truth.get(&key).cloned();
            self.arrive(ask, &key, answer);
        }
    }

    fn held(&self) -> BTreeMap<Key, (String, u64)> {
        state(self.table.reader().state().iter().map(AsRef::as_ref))
    }

    fn true_state(&self) -> BTreeMap<Key, (String, u64)> {
        state(self.truth.values())
    }
}

fn state<'a>(agents: impl Iterator<Item = &'a Agent>) -> BTreeMap<Key, (String, u64)> {
    agents.map(|agent| (key_of(agent), (agent.uid().unwrap(), resource_version(agent)))).collect()
}

/// One listing over LISTs of two namespaces.
fn join(first: Listing, second: Listing) -> Listing {
    Listing {
        scope: [first.scope, second.scope].concat(),
        version: first.version.min(second.version),
        objects: [first.objects, second.objects].concat(),
    }
}

fn agent((namespace, name): &Key, uid: &str, version: u64) -> Agent {
    serde_json::from_value(json!({
        "apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent", "spec": {"stationRef": "s"},
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": version.to_string()},
    }))
    .unwrap()
}

fn pick<T>(all: &[T], which: u16) -> Option<&T> {
    (!all.is_empty()).then(|| &all[usize::from(which) % all.len()])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn after_one_listing_the_store_equals_the_api_server(steps in prop::collection::vec(step(), 0..80)) {
        let mut world = World::default();
        steps.iter().for_each(|step| world.step(step));
        // What is still on its way when the listing is compared arrives before the questions of the comparison.
        for (ask, key, answer) in std::mem::take(&mut world.on_the_way) {
            world.arrive(ask, &key, answer);
        }
        world.settle();
        prop_assert_eq!(world.held(), world.true_state());
    }

    #[test]
    fn what_an_old_watcher_sends_after_a_listing_is_undone_by_the_next(
        steps in prop::collection::vec(step(), 0..40),
        late in prop::collection::vec(any::<u16>(), 0..40),
    ) {
        let mut world = World::default();
        steps.iter().for_each(|step| world.step(step));
        world.settle();
        for which in late {
            world.step(&Step::Deliver(which));
        }
        world.on_the_way.drain(..).for_each(|(ask, ..)| world.table.close(ask));
        world.settle();
        prop_assert_eq!(world.held(), world.true_state());
    }

    #[test]
    fn a_version_that_was_never_given_out_is_undone_by_the_second_listing(
        steps in prop::collection::vec(prop_oneof![5 => step(), 1 => forged()], 0..60),
    ) {
        let mut world = World::default();
        steps.iter().for_each(|step| world.step(step));
        world.on_the_way.drain(..).for_each(|(ask, ..)| world.table.close(ask));
        world.settle();
        world.settle();
        prop_assert_eq!(world.held(), world.true_state());
    }

    #[test]
    fn a_listing_over_lists_of_two_moments_leaves_wrong_what_changed_between_them_at_most_and_the_next_nothing(
        before in prop::collection::vec(step(), 0..60),
        between in prop::collection::vec(step(), 0..20),
    ) {
        let mut world = World::default();
        before.iter().for_each(|step| world.step(step));
        let first = world.listing_in("ns-0");
        between.iter().for_each(|step| world.step(step));
        world.on_the_way.drain(..).for_each(|(ask, ..)| world.table.close(ask));
        let (low, listing) = (first.version, join(first, world.listing_in("ns-1")));
        prop_assert_eq!(listing.version, low);
        world.settle_by(&listing);
        let changed = |key: &Key| between.iter().any(|step| matches!(step, Step::Write { name, .. } if self::key(*name) == *key));
        let unchanged = |mut state: BTreeMap<_, _>| { state.retain(|key, _| !changed(key)); state };
        prop_assert_eq!(unchanged(world.held()), unchanged(world.true_state()));
        world.settle();
        prop_assert_eq!(world.held(), world.true_state());
    }

    #[test]
    fn a_listing_of_one_namespace_asks_for_nothing_of_another(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::default();
        steps.iter().for_each(|step| world.step(step));
        let listing = world.listing_in("ns-0");
        prop_assert!(world.table.differences(&listing).iter().all(|(namespace, _)| namespace == "ns-0"));
    }

    #[test]
    fn a_listing_that_agrees_asks_for_nothing(steps in prop::collection::vec(step(), 0..40), more in 0u8..4) {
        let mut world = World::default();
        steps.iter().for_each(|step| world.step(step));
        world.on_the_way.drain(..).for_each(|(ask, ..)| world.table.close(ask));
        world.settle();
        let listing = world.listing();
        // An object that changes while the listing is on its way costs nothing either.
        world.write(&key(more), false);
        let change = world.sent.last().cloned().unwrap();
        world.table.change(change);
        prop_assert_eq!(world.table.differences(&listing), Vec::<Key>::new());
    }
}

#[test]
fn an_answer_that_was_overtaken_by_a_delete_does_not_bring_the_object_back() {
    let mut world = World::default();
    world.write(&key(0), false);
    world.table.change(world.sent[0].clone());
    let ask = world.table.ask();
    let answer = world.truth.get(&key(0)).cloned();
    world.write(&key(0), true);
    world.table.change(world.sent[1].clone());
    world.arrive(ask, &key(0), answer);
    assert!(world.held().is_empty());
}

#[test]
fn a_delete_of_an_earlier_object_of_the_same_name_leaves_the_later_one() {
    let mut world = World::default();
    world.write(&key(0), false);
    world.write(&key(0), true);
    world.write(&key(0), false);
    for index in [0, 2, 1] {
        world.table.change(world.sent[index].clone());
    }
    assert_eq!(world.held(), world.true_state());
}

#[test]
fn an_own_write_replaces_what_was_held_and_late_news_of_before_is_ignored() {
    let mut world = World::default();
    world.write(&key(0), false);
    let ask = world.table.ask();
    world.write(&key(0), false);
    let answer = world.truth.get(&key(0)).cloned();
    world.arrive(ask, &key(0), answer);
    assert!(world.table.change(world.sent[0].clone()).is_none());
    assert_eq!(world.held(), world.true_state());
}

#[test]
fn questions_that_are_closed_leave_nothing_behind() {
    let mut world = World::default();
    let (first, second) = (world.table.ask(), world.table.ask());
    world.write(&key(0), false);
    world.table.change(world.sent[0].clone());
    world.table.close(first);
    assert_eq!(world.table.remembered(), 1);
    world.table.close(second);
    assert_eq!(world.table.remembered(), 0);
}
