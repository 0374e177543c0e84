//! Limits, Forbid and Replace.

use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use signalbox_testkit::eventually;
use signalbox_types::{Agent, Phase, Station};

use crate::{
    gate::{Act, Gate},
    runs::{
        Kubelet, SERVICE, agent, agent_with, describe, end, get, in_phase, jobs, jobs_created, launcher, launcher_via,
        patch, patch_status, requested, time_of, world_with,
    },
    world::{LIMIT, Via, World},
};

/// Runs, with a kubelet that is played, three Agents that are all there before the launcher starts, and checks that each
/// Job is made after the run before it has ended.
async fn one_after_the_other(station: serde_json::Value) {
    let world = world_with(station).await;
    for name in ["a", "b", "c"] {
        agent(&world, name).await;
    }
    let _services = (world.watcher().await, launcher(&world).await);
    in_phase(&world, "a", Phase::Running).await;
    assert_eq!(jobs_created(&world).await, 1);
    let _kubelet = Kubelet::play(&world);
    for name in ["a", "b", "c"] {
        in_phase(&world, name, Phase::Succeeded).await;
    }
    let mut steps: Vec<_> = Vec::new();
    for event in world.requests(SERVICE).await.iter().filter(|event| event.is_write() && event.code < 300) {
        let step = (describe(event), event.name.clone());
        let has_job = steps.contains(&("create jobs".to_owned(), format!("agent-job-{}", event.name)));
        // What is written before the Job is that it waits.
        if step.0 == "create jobs" || (step.0 == "patch agents/status" && has_job) {
            steps.push(step);
        }
    }
    let of = |name: &str| {
        let patch = ("patch agents/status".to_owned(), name.to_owned());
        [("create jobs".to_owned(), format!("agent-job-{name}")), patch.clone(), patch]
    };
    assert_eq!(steps, [of("a"), of("b"), of("c")].concat());
}

#[tokio::test]
async fn case_47_limit_1_runs_three_waiting_runs_one_by_one_the_oldest_first_when_we_play_the_kubelet() {
    one_after_the_other(json!({"maxConcurrentRuns": 1})).await;
}

#[tokio::test]
async fn case_49_forbid_runs_one_at_a_time_whatever_the_number_says_when_we_play_the_kubelet() {
    one_after_the_other(json!({"maxConcurrentRuns": 5, "concurrencyPolicy": "Forbid"})).await;
}

#[tokio::test]
async fn case_48_two_runs_told_of_before_the_first_patch_echoes_make_one_job_under_limit_1() {
    let world = world_with(json!({"maxConcurrentRuns": 1})).await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("POST", "/jobs") { Act::HoldAnswer } else { Act::Pass });
    let launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    launcher.works().await;
    let _watcher = world.watcher().await;
    agent(&world, "a").await;
    eventually("the first Job is asked for", LIMIT, || async { gate.count("POST", "/jobs") == 1 }).await;
    agent(&world, "b").await;
    eventually("the second run is looked at", LIMIT, || async { gate.count("GET", "/agentdefinitions/recipe") == 2 })
        .await;
    gate.release();
    in_phase(&world, "a", Phase::Running).await;
    // A run that waits costs nothing more, so what shows that it still waits is the end of the first.
    end(&world, "a", 0).await;
    in_phase(&world, "b", Phase::Running).await;
    assert_eq!(gate.count("POST", "/jobs"), 2);
    let ended = world
        .requests(SERVICE)
        .await
        .into_iter()
        .filter(|event| describe(event) == "patch agents/status" && event.name == "a");
    assert!(ended.map(|event| event.at).max().unwrap() < time_of(&world, "create jobs", "agent-job-b").await);
}

#[tokio::test]
async fn replace_puts_the_new_run_in_the_place_of_the_running_one() {
    let world = world_with(json!({"concurrencyPolicy": "Replace"})).await;
    let launcher = launcher(&world).await;
    let _watcher = world.watcher().await;
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    agent(&world, "b").await;
    in_phase(&world, "b", Phase::Running).await;
    assert!(world.namespace.api::<Agent>().get_opt("a").await.unwrap().is_none());
    eventually("the victim's Job is collected", LIMIT, || async { jobs(&world).await == ["agent-job-b"] }).await;
    assert_eq!(launcher.metric("controller_run_failures_total{kind=\"preempted\"}"), Some(1.0));
    // Only once the API server has said that it would take the new Job.
    let created: Vec<_> = world
        .requests(SERVICE)
        .await
        .into_iter()
        .filter(|event| matches!(describe(event).as_str(), "create jobs" | "delete agents"))
        .map(|event| (event.verb, event.uri.contains("dryRun")))
        .collect();
    let wanted = [("create", false), ("create", true), ("delete", false), ("create", false)];
    assert_eq!(created, wanted.map(|(verb, dry_run)| (verb.to_owned(), dry_run)));
}

#[tokio::test]
async fn replace_spares_the_running_run_if_the_new_job_would_be_refused() {
    let world = world_with(json!({"concurrencyPolicy": "Replace"})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    let template = json!({"spec": {"containers": [
        {"name": "agent", "image": "played"}, {"name": "Not_A_Name", "image": "played"}
    ]}});
    patch::<Station>(&world, "station", json!({"spec": {"template": template}})).await;
    agent(&world, "b").await;
    in_phase(&world, "b", Phase::Failed).await;
    assert_eq!(get(&world, "a").await.phase(), Phase::Running);
}

#[tokio::test]
async fn case_50_a_victim_that_ends_first_is_not_deleted_and_the_new_run_starts_in_the_next_pass() {
    let world = world_with(json!({"concurrencyPolicy": "Replace"})).await;
    let gate = Gate::before(world.namespace.plane()).await;
    let _launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    gate.rule(|asked| if asked.is("DELETE", "/agents/a") { Act::HoldRequest } else { Act::Pass });
    agent(&world, "b").await;
    eventually("the victim is chosen", LIMIT, || async { gate.count("DELETE", "/agents/a") == 1 }).await;
    patch_status(&world, "a", json!({"phase": "Succeeded", "exitCode": 0})).await;
    gate.release();
    in_phase(&world, "b", Phase::Running).await;
    assert_eq!(get(&world, "a").await.phase(), Phase::Succeeded);
    let requests = world.requests(SERVICE).await;
    let deletes: Vec<_> = requests.iter().filter(|event| event.verb == "delete").map(|event| event.code).collect();
    assert_eq!(deletes, [409]);
}

#[tokio::test]
async fn case_51_a_victim_that_is_terminating_is_neither_counted_nor_chosen_again() {
    let world = world_with(json!({"concurrencyPolicy": "Replace"})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent_with(&world, "a", json!({"metadata": {"finalizers": ["example.com/held"]}})).await;
    in_phase(&world, "a", Phase::Running).await;
    agent(&world, "b").await;
    in_phase(&world, "b", Phase::Running).await;
    assert!(get(&world, "a").await.is_terminating(), "its finalizer holds it");
    agent(&world, "c").await;
    in_phase(&world, "c", Phase::Running).await;
    let requests = world.requests(SERVICE).await;
    let victims: Vec<_> = requests.iter().filter(|event| event.verb == "delete").map(|event| &event.name).collect();
    assert_eq!(victims, ["a", "b"]);
    patch::<Agent>(&world, "a", json!({"metadata": {"finalizers": null}})).await;
}

#[tokio::test]
async fn case_52_a_batch_that_is_replaced_makes_room_at_once_and_its_claim_is_released() {
    let world = world_with(json!({"concurrencyPolicy": "Replace"})).await;
    let claim = json!([signalbox_types::names::FINALIZER_BATCH]);
    agent_with(&world, "batch", json!({"metadata": {"finalizers": claim}})).await;
    let running = json!({"phase": "Running", "batchId": "batch_1", "startedAt": "2026-06-22T12:00:00Z"});
    patch_status(&world, "batch", running).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "b").await;
    in_phase(&world, "b", Phase::Running).await;
    let agents = world.namespace.api::<Agent>();
    eventually("it is gone", LIMIT, || async { agents.get_opt("batch").await.unwrap().is_none() }).await;
    assert_eq!(jobs_created(&world).await, 1);
}

#[tokio::test]
async fn under_replace_the_newest_of_many_is_the_one_that_stays() {
    let world = world_with(json!({"concurrencyPolicy": "Replace"})).await;
    for name in ["a", "b", "c", "d"] {
        agent(&world, name).await;
    }
    let _services = (world.watcher().await, launcher(&world).await);
    in_phase(&world, "d", Phase::Running).await;
    let agents = world.namespace.api::<Agent>();
    let left = agents.list(&ListParams::default()).await.unwrap();
    assert_eq!(left.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["d"]);
}

#[tokio::test]
async fn case_53_a_lowered_limit_kills_none_and_keeps_the_next_waiting_when_we_play_the_kubelet() {
    let world = world_with(json!({"maxConcurrentRuns": 3})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    for name in ["a", "b", "c"] {
        agent(&world, name).await;
    }
    for name in ["a", "b", "c"] {
        in_phase(&world, name, Phase::Running).await;
    }
    patch::<Station>(&world, "station", json!({"spec": {"maxConcurrentRuns": 1}})).await;
    agent(&world, "d").await;
    requested(&world, "it is looked at", |event| describe(event) == "get agents" && event.name == "d").await;
    for name in ["a", "b", "c"] {
        assert_eq!((get(&world, name).await.phase(), get(&world, "d").await.phase()), (Phase::Running, Phase::Pending));
        end(&world, name, 0).await;
        in_phase(&world, name, Phase::Succeeded).await;
    }
    in_phase(&world, "d", Phase::Running).await;
    let mut ends = Vec::new();
    for event in world.requests(SERVICE).await {
        if describe(&event) == "patch agents/status" && event.name != "d" {
            ends.push(event.at);
        }
    }
    assert!(ends.into_iter().max().unwrap() < time_of(&world, "create jobs", "agent-job-d").await);
}

#[tokio::test]
async fn a_waiting_run_that_is_deleted_lets_the_next_one_start() {
    let world = world_with(json!({"maxConcurrentRuns": 1})).await;
    let _services = (world.watcher().await, launcher(&world).await);
    agent(&world, "a").await;
    in_phase(&world, "a", Phase::Running).await;
    agent(&world, "b").await;
    agent(&world, "c").await;
    world.namespace.api::<Agent>().delete("b", &DeleteParams::default()).await.unwrap();
    end(&world, "a", 0).await;
    in_phase(&world, "c", Phase::Running).await;
}

async fn twenty_runs(world: &World) {
    for number in 0..20 {
        agent(world, &format!("run-{number:02}")).await;
    }
}

#[tokio::test]
async fn a_limit_of_three_is_never_exceeded_by_twenty_runs_when_we_play_the_kubelet() {
    let world = world_with(json!({"maxConcurrentRuns": 3})).await;
    let _kubelet = Kubelet::play(&world);
    let _services = (world.watcher().await, launcher(&world).await);
    twenty_runs(&world).await;
    for number in 0..20 {
        in_phase(&world, &format!("run-{number:02}"), Phase::Succeeded).await;
    }
    let (mut running, mut patches) = (0_i32, std::collections::BTreeMap::new());
    for event in world.requests(SERVICE).await {
        match describe(&event).as_str() {
            "create jobs" if event.code == 201 => {
                running += 1;
                patches.insert(event.name.clone(), 0);
            }
            // After its Job the first patch says Running, the second that it has ended.
            "patch agents/status" if event.code == 200 => {
                if let Some(count) = patches.get_mut(&format!("agent-job-{}", event.name)) {
                    *count += 1;
                    running -= i32::from(*count == 2);
                }
            }
            _ => {}
        }
        assert!(running <= 3, "{running} at once");
    }
    assert_eq!((running, jobs_created(&world).await), (0, 20));
}
