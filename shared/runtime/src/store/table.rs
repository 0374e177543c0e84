//! What is held of one kind, and the rules by which news goes in: `docs/contract/agents.md` section 7.
//!
//! Pure but for the lock inside the reflector's map. All inputs are safe to lose, repeat and reorder.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use kube::runtime::{
    reflector::{self, ObjectRef, store::Writer},
    watcher::Event,
};
use signalbox_types::{ObjectId, Watched, bus::Change, resource_version};

use crate::scope::covers;

/// A namespace and a name.
pub type Key = (String, String);

/// An object that became another, came, or went.
#[derive(Clone, Debug)]
pub struct Transition<K> {
    /// What was held before.
    pub old: Option<Arc<K>>,
    /// What is held now.
    pub new: Option<Arc<K>>,
    /// The W3C trace context that the change came with over the bus.
    pub trace: Option<String>,
}

impl<K> Transition<K> {
    /// The object as it is now, or as it was last.
    pub fn latest(&self) -> Option<&Arc<K>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

/// When a live read was asked for. Every one that is opened must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask(u64);

struct Touch {
    at: u64,
    /// The version that went in or, for what went out, the version that is known to be gone.
    version: u64,
}

/// What is held of one kind.
pub struct Table<K: Watched> {
    writer: Writer<K>,
    reader: reflector::Store<K>,
    /// Counts inputs: the order in which news came, as opposed to the order in which it was made.
    clock: u64,
    /// What changed since the oldest open question; empty while nothing is asked.
    touched: HashMap<Key, Touch>,
    asks: BTreeMap<u64, usize>,
    /// What was held in a version above the last listing's.
    ahead: HashMap<Key, u64>,
}

impl<K: Watched> Default for Table<K> {
    fn default() -> Self {
        let mut writer = Writer::new(());
        // The reflector counts as filled from the start: kube's control loop waits for this, and a service starts that
        // loop only after the first LIST of every kind is in.
        writer.apply_watcher_event(&Event::Init);
        writer.apply_watcher_event(&Event::InitDone);
        Self {
            reader: writer.as_reader(),
            writer,
            clock: 0,
            touched: HashMap::new(),
            asks: BTreeMap::new(),
            ahead: HashMap::new(),
        }
    }
}

impl<K: Watched> Table<K> {
    /// The map as kube's control loop reads it.
    pub fn reader(&self) -> reflector::Store<K> {
        self.reader.clone()
    }

    /// The object of that name.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.reader.get(&ObjectRef::new(&key.1).within(&key.0))
    }

    /// Takes a change from the bus: `applied` goes in unless the version held under its name is not lower, `deleted`
    /// takes out the object of that uid if the version held is not higher.
    pub fn change(&mut self, change: Change<K>) -> Option<Transition<K>> {
        match change {
            Change::Applied(object) => {
                let key = key_of(&object);
                let version = resource_version(&object);
                if self.get(&key).is_some_and(|held| resource_version(&*held) >= version) {
                    return None;
                }
                self.put(key, object)
            }
            Change::Deleted(id) => {
                let key = (id.namespace.clone(), id.name.clone());
                let held = self.get(&key)?;
                let same = held.meta().uid.as_deref() == Some(id.uid.as_str());
                if !same || resource_version(&*held) > id.version() {
                    return None;
                }
                self.take(&key, id.version())
            }
        }
    }

    /// Opens a question to the API server.
    pub fn ask(&mut self) -> Ask {
        *self.asks.entry(self.clock).or_default() += 1;
        Ask(self.clock)
    }

    /// Closes a question, answered or not.
    pub fn close(&mut self, ask: Ask) {
        if let Some(count) = self.asks.get_mut(&ask.0) {
            *count -= 1;
            if *count == 0 {
                self.asks.remove(&ask.0);
            }
        }
        match self.asks.keys().next().copied() {
            None => self.touched.clear(),
            Some(oldest) => self.touched.retain(|_, touch| touch.at > oldest),
        }
    }

    /// Takes a live answer (a GET, an item of a LIST, the response to an own write). It replaces what was held when it
    /// was asked for, unless that has changed since to a version not lower.
    pub fn answer(&mut self, ask: Ask, object: K) -> Option<Transition<K>> {
        let key = key_of(&object);
        let version = resource_version(&object);
        if self.touched_since(ask, &key).is_some_and(|touched| touched >= version) {
            return None;
        }
        if !object.belongs() {
            return self.take(&key, version);
        }
        self.put(key, object)
    }

    /// Takes the live answer that there is no such object: it goes, unless it has changed since.
    pub fn answer_absent(&mut self, ask: Ask, key: &Key) -> Option<Transition<K>> {
        if self.touched_since(ask, key).is_some() {
            return None;
        }
        let version = self.get(key).map_or(0, |held| resource_version(&*held));
        self.take(key, version)
    }

    /// Takes a whole live LIST of the objects that satisfy `listed`: those held and not in it go, by the same rule.
    pub fn answer_list(&mut self, ask: Ask, items: Vec<K>, listed: impl Fn(&K) -> bool) -> Vec<Transition<K>> {
        let named: std::collections::HashSet<Key> = items.iter().map(key_of).collect();
        let mut transitions: Vec<_> = items.into_iter().filter_map(|item| self.answer(ask, item)).collect();
        for held in self.reader.state() {
            let key = key_of(&*held);
            if listed(&held) && !named.contains(&key) {
                transitions.extend(self.answer_absent(ask, &key));
            }
        }
        transitions
    }

    /// What must be asked for after a listing: what it has in another version than we, and what we hold and it lacks.
    ///
    /// A version above the listing's own was made after it: that is no difference, and asking for it would cost a
    /// request for every object that happens to change while a listing is on its way. A version that is still above the
    /// next listing's is none that the API server has given out: a forged message, or an etcd that was restored.
    pub fn differences(&mut self, listing: &Listing) -> Vec<Key> {
        let listed: HashMap<Key, &ObjectId> =
            listing.objects.iter().map(|id| ((id.namespace.clone(), id.name.clone()), id)).collect();
        let (mut differing, mut ahead) = (Vec::new(), HashMap::new());
        for held in self.reader.state() {
            let (key, version) = (key_of(&*held), resource_version(&*held));
            let same = match listed.get(&key) {
                Some(id) => ObjectId::of(&*held).as_ref() == Some(*id),
                None => !covers(&listing.scope, &key.0),
            };
            if same {
                continue;
            }
            if version > listing.version && self.ahead.get(&key) != Some(&version) {
                ahead.insert(key, version);
            } else {
                differing.push(key);
            }
        }
        self.ahead = ahead;
        differing.extend(listed.into_keys().filter(|key| self.get(key).is_none()));
        differing
    }

    /// How many changes are remembered for open questions.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.touched.len()
    }

    fn touched_since(&self, ask: Ask, key: &Key) -> Option<u64> {
        self.touched.get(key).filter(|touch| touch.at > ask.0).map(|touch| touch.version)
    }

    fn touch(&mut self, key: &Key, version: u64) {
        self.clock += 1;
        if !self.asks.is_empty() {
            self.touched.insert(key.clone(), Touch { at: self.clock, version });
        }
    }

    fn put(&mut self, key: Key, mut object: K) -> Option<Transition<K>> {
        object.slim();
        self.touch(&key, resource_version(&object));
        let old = self.get(&key);
        if old.as_ref().is_some_and(|old| ObjectId::of(&**old) == ObjectId::of(&object)) {
            return None;
        }
        self.writer.apply_watcher_event(&Event::Apply(object));
        Some(Transition { old, new: self.get(&key), trace: None })
    }

    fn take(&mut self, key: &Key, version: u64) -> Option<Transition<K>> {
        self.touch(key, version);
        let old = self.get(key)?;
        self.writer.apply_watcher_event(&Event::Delete((*old).clone()));
        Some(Transition { old: Some(old), new: None, trace: None })
    }
}

/// A complete listing: what the API server had at `version`.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The namespaces that were listed; empty means all.
    pub scope: Vec<String>,
    /// The version of the LIST; of several LISTs, one a namespace, the lowest of theirs.
    pub version: u64,
    /// Every object of the scope.
    pub objects: Vec<ObjectId>,
}

/// The key of an object.
pub fn key_of<K: kube::Resource>(object: &K) -> Key {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}
