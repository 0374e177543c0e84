use signalbox_agents::history::surplus;
use signalbox_types::{Agent, Station};

use crate::support::yaml;

fn station(limits: &str) -> Station {
    yaml(&format!("{{metadata: {{name: s, namespace: n}}, spec: {{agentDefRef: d, {limits}}}}}"))
}

/// `completed` is a second of one minute, or empty.
fn agent(name: &str, phase: &str, completed: &str) -> Agent {
    let completed = if completed.is_empty() { "null".to_owned() } else { format!("'2026-06-22T12:00:{completed}Z'") };
    yaml(&format!(
        "{{metadata: {{name: {name}, namespace: n, uid: u-{name}, resourceVersion: '1'}}, spec: {{stationRef: s}},
          status: {{phase: {phase}, completedAt: {completed}}}}}"
    ))
}

fn names(station: &Station, agents: &[Agent]) -> Vec<String> {
    surplus(station, agents).into_iter().map(|agent| agent.name).collect()
}

#[test]
fn the_latest_of_each_phase_are_kept() {
    let station = station("successfulRunsHistoryLimit: 2, failedRunsHistoryLimit: 1");
    let agents = [
        agent("s1", "Succeeded", "01"),
        agent("f2", "Failed", "02"),
        agent("s3", "Succeeded", "03"),
        agent("s2", "Succeeded", "02.5"),
        agent("f3", "Failed", "03"),
    ];
    assert_eq!(names(&station, &agents), ["s1", "f2"]);
}

#[test]
fn the_id_carries_the_version_that_was_looked_at() {
    let agents = [agent("a", "Failed", "01")];
    let surplus = surplus(&station("failedRunsHistoryLimit: 0"), &agents);
    assert_eq!((surplus[0].uid.as_str(), surplus[0].resource_version.as_str()), ("u-a", "1"));
}

#[test]
fn three_of_each_phase_are_kept_where_the_station_does_not_say() {
    let agents: Vec<_> = (1..=5).map(|second| agent(&format!("a{second}"), "Failed", &format!("0{second}"))).collect();
    assert_eq!(names(&station(""), &agents), ["a2", "a1"]);
}

#[test]
fn limit_0_and_a_negative_one_keep_none() {
    let agents = [agent("a", "Failed", "01"), agent("b", "Succeeded", "01")];
    assert_eq!(names(&station("successfulRunsHistoryLimit: 0, failedRunsHistoryLimit: -1"), &agents), ["b", "a"]);
}

#[test]
fn ties_go_by_name_and_an_absent_time_is_the_oldest() {
    let station = station("failedRunsHistoryLimit: 2");
    let agents = [
        agent("d", "Failed", ""),
        agent("c", "Failed", "05"),
        agent("a", "Failed", "05"),
        agent("b", "Failed", "05"),
        agent("e", "Failed", ""),
    ];
    assert_eq!(names(&station, &agents), ["c", "d", "e"]);
}

#[test]
fn runs_that_have_not_ended_are_never_touched() {
    let mut no_status = agent("c", "Pending", "");
    no_status.status = None;
    let agents = [agent("a", "Pending", "01"), agent("b", "Running", "01"), no_status];
    assert_eq!(names(&station("successfulRunsHistoryLimit: 0, failedRunsHistoryLimit: 0"), &agents), [""; 0]);
}

#[test]
fn a_run_that_is_being_deleted_is_neither_deleted_again_nor_kept_in_the_place_of_another() {
    let mut going = agent("going", "Failed", "09");
    going.metadata.deletion_timestamp = yaml("'2026-06-22T13:00:00Z'");
    let agents = [going, agent("a", "Failed", "01"), agent("b", "Failed", "02")];
    assert_eq!(names(&station("failedRunsHistoryLimit: 1"), &agents), ["a"]);
    assert_eq!(names(&station("failedRunsHistoryLimit: 2"), &agents), [""; 0]);
}

#[test]
fn case_56_other_stations_history_is_untouched() {
    let mut other_station = agent("a", "Failed", "01");
    other_station.spec.station_ref = "t".to_owned();
    let mut other_namespace = agent("b", "Failed", "01");
    other_namespace.metadata.namespace = Some("m".to_owned());
    let agents = [other_station, other_namespace, agent("mine", "Failed", "01")];
    assert_eq!(names(&station("failedRunsHistoryLimit: 0"), &agents), ["mine"]);
}

#[test]
fn case_54_of_2657_finished_runs_the_limit_is_kept() {
    let agents: Vec<_> = (0..2657).map(|n| agent(&format!("a{n:04}"), "Succeeded", "01")).collect();
    let surplus = names(&station("successfulRunsHistoryLimit: 10"), &agents);
    assert_eq!((surplus.len(), surplus[0].as_str()), (2647, "a0010"));
}
