use rstest::rstest;
use signalbox_agents::admission::{Admission, Peer, decide};
use signalbox_types::{Agent, StationSpec};

use crate::support::yaml;

/// `at` is a second of one minute: the creation of a Pending Agent, the start of a Running one.
fn agent(name: &str, phase: &str, at: &str) -> Agent {
    let time = if at.is_empty() { "null".to_owned() } else { format!("'2026-06-22T12:00:{at}Z'") };
    yaml(&format!(
        "{{metadata: {{name: {name}, namespace: n, uid: u-{name}, resourceVersion: '1', creationTimestamp: {time}}},
          spec: {{stationRef: s}}, status: {{phase: {phase}, startedAt: {time}}}}}"
    ))
}

fn pending(name: &str, at: &str) -> Agent {
    agent(name, "Pending", at)
}

fn running(name: &str, at: &str) -> Agent {
    agent(name, "Running", at)
}

fn station(spec: &str) -> StationSpec {
    yaml(&format!("{{agentDefRef: d, {spec}}}"))
}

fn peer(agent: &Agent) -> Peer<'_> {
    Peer { agent, live_job: false, reserved: false, admissible: true }
}

fn decide_among(agent: &Agent, spec: &str, others: &[Agent]) -> Admission {
    let peers: Vec<Peer<'_>> = others.iter().chain([agent]).map(peer).collect();
    decide(agent, &station(spec), &peers)
}

fn replaces(name: &str, admission: Admission) {
    match admission {
        Admission::Replace { victim } => assert_eq!(victim.name, name),
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case("concurrencyPolicy: Allow")]
#[case("maxConcurrentRuns: 0")]
#[case("maxConcurrentRuns: -1")]
fn a_station_without_a_limit_admits_everyone(#[case] spec: &str) {
    let others = [running("a", "01"), running("b", "02"), pending("c", "03")];
    assert_eq!(decide_among(&pending("d", "04"), spec, &others), Admission::Admit);
}

#[test]
fn case_47_limit_1_and_three_pending_start_one_oldest_first() {
    let agents = [pending("c", "01"), pending("b", "02"), pending("a", "02")];
    let admitted: Vec<_> = agents
        .iter()
        .filter(|agent| decide_among(agent, "maxConcurrentRuns: 1", &agents) == Admission::Admit)
        .map(|agent| agent.metadata.name.as_deref().unwrap())
        .collect();
    assert_eq!(admitted, ["c"]);
    assert_eq!(decide_among(&agents[2], "maxConcurrentRuns: 2", &agents), Admission::Admit, "ties go by name");
    assert_eq!(decide_among(&agents[1], "maxConcurrentRuns: 2", &agents), Admission::Wait);
}

#[test]
fn case_48_a_reservation_holds_the_slot_before_its_patch_is_seen() {
    let (first, second) = (pending("b", "01"), pending("a", "01"));
    let peers = [Peer { reserved: true, ..peer(&first) }, peer(&second)];
    assert_eq!(decide(&second, &station("maxConcurrentRuns: 1"), &peers), Admission::Wait);
    assert_eq!(decide(&first, &station("maxConcurrentRuns: 1"), &peers), Admission::Admit, "its own slot");
}

#[test]
fn a_pending_run_with_a_job_or_a_claim_holds_a_slot() {
    let (holder, mut claimed, waiting) = (pending("z", "09"), pending("y", "09"), pending("a", "01"));
    claimed.metadata.finalizers = Some(vec!["foreign".to_owned(), "agents.re-cinq.com/batch-cleanup".to_owned()]);
    let station = station("maxConcurrentRuns: 1");
    let with_job = [Peer { live_job: true, admissible: false, ..peer(&holder) }, peer(&waiting)];
    assert_eq!(decide(&waiting, &station, &with_job), Admission::Wait);
    let with_claim = [peer(&claimed), peer(&waiting)];
    assert_eq!(decide(&waiting, &station, &with_claim), Admission::Wait);
    let foreign = [peer(&holder), peer(&waiting)];
    assert_eq!(decide(&waiting, &station, &foreign), Admission::Admit);
}

#[test]
fn case_28_a_run_that_has_its_job_goes_on_though_older_ones_wait_and_the_station_is_full() {
    let (younger, older, running) = (pending("z", "09"), pending("a", "01"), running("r", "00"));
    let peers = [Peer { live_job: true, ..peer(&younger) }, peer(&older), peer(&running)];
    for spec in ["maxConcurrentRuns: 1", "concurrencyPolicy: Replace"] {
        assert_eq!(decide(&younger, &station(spec), &peers), Admission::Admit);
        assert_eq!(decide(&older, &station(spec), &peers), Admission::Wait, "the two end before anyone starts");
    }
}

#[test]
fn case_1_an_agent_without_a_status_is_pending() {
    let mut older = pending("a", "01");
    older.status = None;
    let younger = pending("b", "02");
    assert_eq!(decide_among(&older, "maxConcurrentRuns: 1", std::slice::from_ref(&younger)), Admission::Admit);
    assert_eq!(decide_among(&younger, "maxConcurrentRuns: 1", &[older]), Admission::Wait);
}

#[test]
fn an_older_run_that_cannot_start_anyway_does_not_stand_before_others() {
    let (older, younger) = (pending("a", "01"), pending("b", "02"));
    let peers = [Peer { admissible: false, ..peer(&older) }, peer(&younger)];
    assert_eq!(decide(&younger, &station("maxConcurrentRuns: 1"), &peers), Admission::Admit);
}

#[test]
fn case_49_forbid_is_one_at_a_time_whatever_the_number() {
    let spec = "concurrencyPolicy: Forbid, maxConcurrentRuns: 5";
    assert_eq!(decide_among(&pending("b", "02"), spec, &[running("a", "01")]), Admission::Wait);
    assert_eq!(decide_among(&pending("b", "02"), spec, &[]), Admission::Admit);
}

#[test]
fn case_53_a_lowered_limit_stops_nothing_and_pending_waits() {
    let others = [running("a", "01"), running("b", "02"), running("c", "03")];
    assert_eq!(decide_among(&pending("d", "04"), "maxConcurrentRuns: 1", &others), Admission::Wait);
}

#[test]
fn other_stations_finished_runs_and_runs_being_deleted_do_not_count() {
    let (mut station_t, mut namespace_m, mut going) = (running("a", "01"), running("b", "01"), running("c", "01"));
    station_t.spec.station_ref = "t".to_owned();
    namespace_m.metadata.namespace = Some("m".to_owned());
    going.metadata.deletion_timestamp = yaml("'2026-06-22T13:00:00Z'");
    let mut going_pending = pending("d", "01");
    going_pending.metadata.deletion_timestamp = yaml("'2026-06-22T13:00:00Z'");
    let done = agent("e", "Succeeded", "01");
    let others = [station_t, namespace_m, going, going_pending, done];
    assert_eq!(decide_among(&pending("f", "02"), "maxConcurrentRuns: 1", &others), Admission::Admit);
}

#[test]
fn replace_takes_the_one_started_first() {
    let others = [running("b", "02"), running("a", "02"), running("c", "03")];
    replaces("a", decide_among(&pending("d", "04"), "concurrencyPolicy: Replace", &others));
    let others = [running("a", "01"), running("z", "")];
    replaces("z", decide_among(&pending("d", "04"), "concurrencyPolicy: Replace", &others));
}

#[test]
fn replace_admits_at_once_where_there_is_room() {
    let spec = "concurrencyPolicy: Replace, maxConcurrentRuns: 3";
    assert_eq!(decide_among(&pending("a", "01"), spec, &[]), Admission::Admit);
    replaces("b", decide_among(&pending("a", "01"), spec, &[running("b", "01")]));
}

#[test]
fn case_50_a_victim_that_finished_first_leaves_room_at_the_next_look() {
    let newcomer = pending("b", "02");
    replaces("a", decide_among(&newcomer, "concurrencyPolicy: Replace", &[running("a", "01")]));
    let finished = agent("a", "Succeeded", "01");
    assert_eq!(decide_among(&newcomer, "concurrencyPolicy: Replace", &[finished]), Admission::Admit);
}

#[test]
fn case_51_and_case_52_a_victim_being_deleted_is_neither_counted_nor_chosen_again() {
    let mut going = running("a", "01");
    going.metadata.deletion_timestamp = yaml("'2026-06-22T13:00:00Z'");
    // A batch victim stays until its finalizer is gone; the new run does not wait for that.
    going.metadata.finalizers = Some(vec!["agents.re-cinq.com/batch-cleanup".to_owned()]);
    let newcomer = pending("b", "02");
    assert_eq!(decide_among(&newcomer, "concurrencyPolicy: Replace", &[going.clone()]), Admission::Admit);
    replaces("c", decide_among(&newcomer, "concurrencyPolicy: Replace", &[going, running("c", "03")]));
}

#[test]
fn replace_waits_for_a_slot_that_a_starting_run_holds() {
    let (starting, newcomer, old) = (pending("a", "01"), pending("b", "02"), running("r", "00"));
    let spec = station("concurrencyPolicy: Replace");
    let peers = [Peer { reserved: true, ..peer(&starting) }, peer(&newcomer), peer(&old)];
    assert_eq!(decide(&newcomer, &spec, &peers), Admission::Wait, "its victim's death would free nothing");
    assert_eq!(decide(&newcomer, &spec, &peers[..2]), Admission::Wait);
}

#[test]
fn replace_lets_the_older_one_go_first_so_that_the_newest_stays() {
    let (older, newer) = (pending("a", "01"), pending("b", "02"));
    let others = [running("r", "00"), older.clone(), newer.clone()];
    replaces("r", decide_among(&older, "concurrencyPolicy: Replace", &others));
    assert_eq!(decide_among(&newer, "concurrencyPolicy: Replace", &others), Admission::Wait);
    replaces("a", decide_among(&newer, "concurrencyPolicy: Replace", &[running("a", "03")]));
}
