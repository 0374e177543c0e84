//! Slots that are taken but not yet visible in the Store: from an admission until its outcome is known.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use signalbox_runtime::sync::lock;

/// The API server's request limit: a POST without an answer may still be carried out for so long.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

type Held = HashMap<String, Option<Instant>>;

/// The reservations of a term, by Agent uid.
#[derive(Clone, Default)]
pub(crate) struct Reservations(Arc<Mutex<Held>>);

/// A slot that is reserved until this is dropped.
pub(crate) struct Reservation {
    uid: String,
    all: Reservations,
    /// Until when a request of unknown outcome may still be carried out.
    unknown_until: Option<Instant>,
}

impl Reservations {
    /// Decides under the lock, so that two admissions never count the same slot: `decide` is told who holds one and
    /// says whether this Agent gets one. It must not wait for anything.
    pub(crate) fn decide<T>(
        &self,
        uid: &str,
        decide: impl FnOnce(&dyn Fn(&str) -> bool) -> (T, bool),
    ) -> (T, Option<Reservation>) {
        let mut held = self.lock();
        let now = Instant::now();
        held.retain(|_, until| until.is_none_or(|until| until > now));
        let (decision, reserve) = decide(&|uid| held.contains_key(uid));
        if !reserve {
            return (decision, None);
        }
        // An earlier request of this Agent may still be on its way, whatever becomes of the next.
        let unknown_until = held.insert(uid.to_owned(), None).flatten();
        (decision, Some(Reservation { uid: uid.to_owned(), all: self.clone(), unknown_until }))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        lock(&self.0)
    }
}

impl Reservation {
    /// The outcome is unknown: the slot stays taken for as long as the request may still be carried out.
    pub(crate) fn keep_while_unknown(mut self) {
        self.unknown_until = Some(Instant::now() + REQUEST_LIMIT);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut held = self.all.lock();
        match self.unknown_until.filter(|until| *until > Instant::now()) {
            Some(until) => held.insert(self.uid.clone(), Some(until)),
            None => held.remove(&self.uid),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve(all: &Reservations, uid: &str) -> Option<Reservation> {
        all.decide(uid, |taken| ((), !taken("a") && !taken("b"))).1
    }

    #[test]
    fn a_slot_is_taken_until_its_reservation_is_dropped() {
        let all = Reservations::default();
        let first = reserve(&all, "a");
        assert!(first.is_some() && reserve(&all, "b").is_none());
        drop(first);
        assert!(reserve(&all, "b").is_some());
    }

    #[test]
    fn a_slot_of_unknown_outcome_stays_taken() {
        let all = Reservations::default();
        reserve(&all, "a").unwrap().keep_while_unknown();
        assert!(reserve(&all, "b").is_none());
    }

    #[test]
    fn a_second_try_that_is_refused_does_not_free_what_the_first_may_still_take() {
        let all = Reservations::default();
        all.decide("a", |_| ((), true)).1.unwrap().keep_while_unknown();
        drop(all.decide("a", |_| ((), true)));
        assert!(reserve(&all, "b").is_none());
    }
}
