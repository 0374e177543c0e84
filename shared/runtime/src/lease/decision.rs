//! The pure part of the election: what was seen, and what to do about it.

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::MicroTime};
use tokio::time::Instant;

use super::DURATION;

/// What a GET showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Who holds the Lease; empty is nobody.
    pub holder: String,
    /// When the holder says it renewed; only ever compared with itself.
    pub renewed: Option<MicroTime>,
    /// How often the Lease changed hands.
    pub transitions: i32,
    /// The version a write has to name.
    pub version: String,
}

impl Record {
    pub(super) fn of(lease: Lease) -> Self {
        let spec = lease.spec.unwrap_or_default();
        Self {
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time,
            transitions: spec.lease_transitions.unwrap_or(0),
            version: lease.metadata.resource_version.unwrap_or_default(),
        }
    }
}

/// What is known of the Lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The Lease, if there is one.
    pub record: Option<Record>,
    /// When this holder and renewal were first seen, on our clock.
    pub first_seen: Instant,
}

impl Observation {
    /// Folds in what a GET showed: an unchanged holder and renewal keep their first sight, anything else is new.
    pub(super) fn fold(previous: Option<Self>, record: Option<Record>, now: Instant) -> Self {
        let key =
            |record: &Option<Record>| record.as_ref().map(|record| (record.holder.clone(), record.renewed.clone()));
        match previous {
            Some(previous) if key(&previous.record) == key(&record) => Self { record, ..previous },
            _ => Self { record, first_seen: now },
        }
    }
}

/// What to do about a Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// There is none: create it.
    Create,
    /// It is ours.
    Renew(Record),
    /// It is nobody's, or its holder has been silent for [`DURATION`].
    TakeOver(Record),
    /// It is another's.
    StandBy,
}

/// Decides as `identity` at `now`.
pub fn decide(observation: &Observation, identity: &str, now: Instant) -> Decision {
    match &observation.record {
        None => Decision::Create,
        Some(record) if record.holder == identity => Decision::Renew(record.clone()),
        Some(record) if record.holder.is_empty() || now.duration_since(observation.first_seen) >= DURATION => {
            Decision::TakeOver(record.clone())
        }
        Some(_) => Decision::StandBy,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;

    fn at(text: &str) -> Option<MicroTime> {
        Some(MicroTime(text.parse().expect("a time")))
    }

    fn held(holder: &str, renewed: &str) -> Option<Record> {
        Some(Record { holder: holder.to_owned(), renewed: at(renewed), transitions: 3, version: "1".to_owned() })
    }

    const NOON: &str = "2026-06-22T12:00:00.000001Z";
    const LATER: &str = "2026-06-22T12:00:05.000001Z";

    /// What is decided `silence` after a record was first seen.
    fn decided(record: Option<Record>, silence: Duration) -> Decision {
        let first_seen = Instant::now();
        decide(&Observation { record, first_seen }, "us", first_seen + silence)
    }

    #[rstest]
    #[case::absent(None, 0, "Create")]
    #[case::ours(held("us", NOON), 0, "Renew")]
    #[case::ours_and_old(held("us", NOON), 3600, "Renew")]
    #[case::empty(held("", NOON), 0, "TakeOver")]
    #[case::alive(held("them", NOON), 14, "StandBy")]
    #[case::silent(held("them", NOON), 15, "TakeOver")]
    fn a_lease_is_taken_only_when_it_is_free(
        #[case] record: Option<Record>,
        #[case] silence: u64,
        #[case] wanted: &str,
    ) {
        let decision = decided(record, Duration::from_secs(silence));
        assert!(format!("{decision:?}").starts_with(wanted), "{decision:?}");
    }

    #[test]
    fn a_lease_that_was_never_renewed_is_taken_like_any_other() {
        let record = Record { renewed: None, ..held("them", NOON).expect("a record") };
        assert_eq!(decided(Some(record.clone()), Duration::from_secs(14)), Decision::StandBy);
        assert_eq!(decided(Some(record.clone()), DURATION), Decision::TakeOver(record));
    }

    #[test]
    fn case_67_what_counts_is_when_a_renewal_was_seen_and_not_what_it_says() {
        let start = Instant::now();
        let tick = |count: u64| start + Duration::from_secs(5 * count);
        // A clock that is an hour slow, and one that runs backwards: each renewal differs from the last, so it is alive.
        let times =
            ["2026-06-22T11:00:00.000001Z", "2026-06-22T11:00:05.000001Z", "2026-06-22T10:59:59.999999Z", LATER];
        let mut observation = None;
        for (count, renewed) in (0..).zip(times) {
            let seen = Observation::fold(observation, held("them", renewed), tick(count));
            assert_eq!(seen.first_seen, tick(count));
            assert_eq!(decide(&seen, "us", tick(count)), Decision::StandBy);
            observation = Some(seen);
        }
        // Then it falls silent: the first sight stays, and 15 s after it the Lease is free.
        for count in 4..6 {
            let seen = Observation::fold(observation, held("them", LATER), tick(count));
            assert_eq!((seen.first_seen, decide(&seen, "us", tick(count))), (tick(3), Decision::StandBy));
            observation = Some(seen);
        }
        let seen = Observation::fold(observation, held("them", LATER), tick(6));
        assert!(matches!(decide(&seen, "us", tick(6)), Decision::TakeOver(_)));
    }

    #[test]
    fn a_new_holder_a_new_lease_and_one_that_came_back_are_seen_anew() {
        let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(20));
        let first = || Some(Observation::fold(None, held("them", NOON), start));
        for other in [held("others", NOON), held("them", LATER), None] {
            assert_eq!(Observation::fold(first(), other, later).first_seen, later);
        }
        let gone = Observation::fold(first(), None, later);
        assert_eq!(Observation::fold(Some(gone), held("them", NOON), later).first_seen, later);
    }

    #[test]
    fn a_change_of_anything_else_is_not_a_sign_of_life_but_its_version_is_kept() {
        let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(20));
        let first = Observation::fold(None, held("them", NOON), start);
        let touched = Record { version: "2".to_owned(), ..held("them", NOON).expect("a record") };
        let seen = Observation::fold(Some(first), Some(touched.clone()), later);
        assert_eq!(decide(&seen, "us", later), Decision::TakeOver(touched));
    }
}
