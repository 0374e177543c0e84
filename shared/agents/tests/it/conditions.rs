use signalbox_agents::conditions::Conditions;
use signalbox_types::{Agent, Timestamp};

use crate::support::yaml;

const AT: &str = "2026-06-22T12:00:00Z";
const LATER: &str = "2026-06-22T12:05:00.75Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn agent(conditions: &Conditions) -> Agent {
    let mut agent: Agent = yaml("{metadata: {name: a, generation: 3}, spec: {stationRef: s}, status: {}}");
    agent.status.as_mut().unwrap().conditions = conditions.clone().into_vec();
    agent
}

fn none() -> Conditions {
    Conditions::of(&yaml::<Agent>("{metadata: {name: a, generation: 3}, spec: {stationRef: s}}"))
}

#[test]
fn a_change_of_text_alone_is_no_change_and_keeps_the_time() {
    let first = none().not_started("Unschedulable", "0/1 nodes", at(AT));
    assert!(first.changed());
    let second = Conditions::of(&agent(&first)).not_started("Unschedulable", "0/2 nodes", at(LATER));
    assert!(!second.changed());
    assert_eq!(second.into_vec()[0].last_transition_time.0, at(AT).get());
}

#[test]
fn another_reason_is_a_change_and_keeps_the_time_and_another_status_does_not() {
    let first = none().not_started("Unschedulable", "", at(AT));
    let second = Conditions::of(&agent(&first)).not_started("ImagePullBackOff", "", at(LATER));
    assert!(second.changed());
    assert_eq!(second.clone().into_vec()[0].last_transition_time.0, at(AT).get());
    let third = Conditions::of(&agent(&second)).started(at(LATER)).into_vec();
    assert_eq!(third.len(), 1);
    assert_eq!(third[0].last_transition_time.0, at("2026-06-22T12:05:00Z").get(), "in whole seconds");
    assert_eq!((third[0].status.as_str(), third[0].observed_generation), ("True", Some(3)));
}

#[test]
fn conditions_stand_in_the_order_of_a_run() {
    let all = none().finished("Succeeded", "", at(AT)).started(at(AT)).admitted(at(AT)).into_vec();
    let kinds: Vec<_> = all.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(kinds, ["Admitted", "Started", "Finished"]);
}

#[test]
fn a_start_that_is_tried_anew_forgets_what_stood_against_the_last() {
    let before = none().not_started("QuotaExceeded", "", at(AT));
    let after = Conditions::of(&agent(&before)).without_started();
    assert!(after.changed() && after.into_vec().is_empty());
    assert!(!none().without_started().changed());
}

#[test]
fn a_message_is_cut_at_a_character() {
    let long = "\u{20ac}".repeat(1000);
    let message = none().finished("JobFailed", &long, at(AT)).into_vec().remove(0).message;
    assert_eq!(message.len(), 1023);
}
