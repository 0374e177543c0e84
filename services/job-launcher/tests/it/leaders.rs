//! Two replicas, and leaders that die, stop or lose their Lease.

use std::time::Duration;

use kube::{ResourceExt, api::ListParams};
use serde_json::json;
use signalbox_testkit::{Proxy, eventually, wait_for};
use signalbox_types::{Agent, Phase};

use crate::{
    gate::{Act, Gate},
    runs::{
        Kubelet, SERVICE, agent, get, in_phase, jobs, jobs_created, launcher, launcher_via, run_launcher, world,
        world_with,
    },
    world::{LIMIT, Program, Via, World},
};

const EXE: &str = env!("CARGO_BIN_EXE_job-launcher");

/// Kills the leader ten times at random moments while twenty runs come and end; each is started exactly once. A dead
/// leader's Lease is freed by the test: waiting for it to expire would only let the dust settle.
#[tokio::test]
async fn leaders_killed_at_ten_random_moments_start_each_of_twenty_runs_once_when_we_play_the_kubelet() {
    let world = world_with(json!({"successfulRunsHistoryLimit": 100})).await;
    let _watcher = world.watcher().await;
    let _kubelet = Kubelet::play(&world);
    let mut replicas: Vec<(String, Program)> = Vec::new();
    for number in 0..2 {
        replicas.push(replica(&world, number).await);
    }
    for round in 0..10 {
        for run in 0..2 {
            agent(&world, &format!("run-{round}-{run}")).await;
        }
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..400))).await;
        let leader = wait_for("a leader", LIMIT, || async {
            let holder = world.holder(SERVICE).await;
            let leads = |pod: &str| holder.starts_with(&format!("{pod}_"));
            replicas.iter().position(|(pod, _)| leads(pod)).ok_or(holder.clone())
        })
        .await;
        let (_, dead) = replicas.remove(leader);
        dead.process.kill();
        world.free_lease(SERVICE).await;
        replicas.push(replica(&world, round + 2).await);
    }
    let mut uids = std::collections::BTreeSet::new();
    for round in 0..10 {
        for run in 0..2 {
            let run = in_phase(&world, &format!("run-{round}-{run}"), Phase::Succeeded).await;
            uids.insert(run.uid().unwrap());
        }
    }
    assert_eq!((uids.len(), jobs(&world).await.len()), (20, 20));
    // The log has no 201 for a create whose sender died before the answer.
    assert!(jobs_created(&world).await <= 20);
}

async fn replica(world: &World, number: usize) -> (String, Program) {
    let pod = format!("pod-{number}");
    let program = world.program(EXE, SERVICE, &pod, None).await;
    (pod, program)
}

#[tokio::test]
async fn case_68_a_leader_that_was_stopped_past_its_term_wakes_to_nothing_while_another_leads() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    let first = world.program(EXE, SERVICE, "first", Some(&gate)).await;
    world.led_by(SERVICE, "first").await;
    let second = world.program(EXE, SERVICE, "second", None).await;
    let watcher = world.watcher().await;
    watcher.works().await;
    // Stopped in the middle of a start: it has asked for the Station of a run and not heard the answer.
    gate.rule(|asked| if asked.is("GET", "/stations/station") { Act::HoldAnswer } else { Act::Pass });
    for name in ["a", "b", "c"] {
        agent(&world, name).await;
    }
    eventually("it is at work", LIMIT, || async { gate.count("GET", "/stations/station") == 3 }).await;
    first.process.pause();
    world.led_by(SERVICE, "second").await;
    for name in ["a", "b", "c"] {
        in_phase(&world, name, Phase::Running).await;
    }
    gate.release();
    let before = gate.asked().len();
    first.process.resume();
    eventually("it looks at its Lease", LIMIT, || async {
        gate.asked()[before..].iter().any(|asked| asked.is("GET", "/leases/signalbox-job-launcher"))
    })
    .await;
    eventually("it leads no more", LIMIT, || async { first.metric("controller_is_leader").await == Some(0.0) }).await;
    agent(&world, "d").await;
    in_phase(&world, "d", Phase::Running).await;
    let writes: Vec<_> = gate.asked()[before..].iter().filter(|asked| asked.method != "GET").cloned().collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!((jobs(&world).await.len(), jobs_created(&world).await), (4, 4));
    assert_eq!(second.metric("controller_jobs_created_total").await, Some(4.0));
}

#[tokio::test]
async fn case_65_leadership_lost_in_the_middle_of_a_pass_sends_no_further_create() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    gate.rule(|asked| if asked.is("GET", "/agentdefinitions/recipe") { Act::HoldAnswer } else { Act::Pass });
    let launcher = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    launcher.works().await;
    let watcher = world.watcher().await;
    for name in ["a", "b", "c"] {
        agent(&world, name).await;
    }
    eventually("it is at work", LIMIT, || async { gate.count("GET", "/agentdefinitions/recipe") == 3 }).await;
    world.set_holder(SERVICE, "another").await;
    eventually("it leads no more", LIMIT, || async { launcher.metric("controller_is_leader") == Some(0.0) }).await;
    // The answers come while the pass is still being heard out.
    gate.release();
    // It has got over that pass once it stands by again.
    let before = gate.count("GET", "/leases/signalbox-job-launcher");
    eventually("it stands by", LIMIT, || async { gate.count("GET", "/leases/signalbox-job-launcher") > before }).await;
    assert_eq!((gate.count("POST", "/jobs"), gate.count("PATCH", "/status")), (0, 0));
    // Once the Lease is free it starts them.
    world.free_lease(SERVICE).await;
    for name in ["a", "b", "c"] {
        in_phase(&world, name, Phase::Running).await;
    }
    assert_eq!(jobs_created(&world).await, 3);
    watcher.stop().await;
}

#[tokio::test]
async fn a_launcher_that_is_asked_to_end_is_gone_within_a_second_and_the_other_leads_at_once() {
    let world = world().await;
    let first = world.program(EXE, SERVICE, "first", None).await;
    world.led_by(SERVICE, "first").await;
    let second = world.program(EXE, SERVICE, "second", None).await;
    eventually("the second has seen the Lease", LIMIT, || async {
        second.get("/readyz").await.as_deref() == Some("ok")
    })
    .await;
    let asked = tokio::time::Instant::now();
    first.process.terminate();
    eventually("it ends", LIMIT, || async { !first.process.is_running() }).await;
    let took = asked.elapsed();
    assert!(took <= Duration::from_secs(1), "{took:?}");
    world.led_by(SERVICE, "second").await;
    // A Lease that only expired would have taken fifteen seconds.
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    let log = first.process.log_tail();
    assert!(log.contains("Lease released") && log.contains("job-launcher ended"), "{log}");
}

#[tokio::test]
async fn a_standby_reads_its_lease_and_nothing_else() {
    let world = world().await;
    let leader = launcher(&world).await;
    leader.works().await;
    let gate = Gate::before(world.namespace.plane()).await;
    let standby = launcher_via(&world, Via { gate: Some(&gate), ..Via::default() }).await;
    let _watcher = world.watcher().await;
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    eventually("it has looked three times", LIMIT, || async { gate.asked().len() >= 3 }).await;
    assert!(gate.asked().iter().all(|asked| asked.is("GET", "/leases/signalbox-job-launcher")), "{:?}", gate.asked());
    assert!(standby.service.health.is_ready());
    assert_eq!(standby.metric("controller_is_leader"), Some(0.0));
}

#[tokio::test]
async fn two_leaders_at_once_make_one_job_a_run() {
    let world = world().await;
    let (first, second) = (launcher(&world).await, Gate::before(world.namespace.plane()).await);
    first.works().await;
    // The second believes what no election would tell it: it sees a Lease of its own.
    let mut service = world.service(SERVICE, Via { gate: Some(&second), ..Via::default() }).await;
    service.name = "job-launcher-two";
    let rights = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: two}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: two}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: two}
subjects: [{kind: ServiceAccount, name: signalbox-job-launcher}]
";
    world.namespace.apply(rights).await;
    let second = run_launcher(service);
    second.works().await;
    let _watcher = world.watcher().await;
    for number in 0..10 {
        agent(&world, &format!("run-{number}")).await;
    }
    for number in 0..10 {
        in_phase(&world, &format!("run-{number}"), Phase::Running).await;
    }
    assert_eq!((jobs(&world).await.len(), jobs_created(&world).await), (10, 10));
    let agents = world.namespace.api::<Agent>().list(&ListParams::default()).await.unwrap();
    for run in agents {
        let name = run.name_any();
        assert_eq!(get(&world, &name).await.status.unwrap().job_name, Some(format!("agent-job-{name}")));
    }
}

/// A partition between the launcher and the API server in the middle of many starts: requests are carried out and not
/// answered, or not carried out, and the Lease is lost on the way.
#[tokio::test]
async fn case_69_a_launcher_cut_off_from_the_api_server_steps_down_and_later_goes_on_when_we_play_the_kubelet() {
    let world = world().await;
    let plane = world.namespace.plane();
    let proxy = Proxy::to(plane.address()).await;
    let mut config = plane.config_as(&world.namespace.name, &World::account(SERVICE)).await;
    config.cluster_url = format!("https://{}", proxy.address()).parse().unwrap();
    let launcher = run_launcher(world.service_with(SERVICE, config, world.nats.address()).await);
    launcher.works().await;
    let _watcher = world.watcher().await;
    let _kubelet = Kubelet::play(&world);
    for number in 0..10 {
        agent(&world, &format!("run-{number}")).await;
    }
    eventually("some have begun", LIMIT, || async { !jobs(&world).await.is_empty() }).await;
    proxy.stall_answers();
    eventually("it leads no more", LIMIT, || async { launcher.metric("controller_is_leader") == Some(0.0) }).await;
    assert!(!launcher.service.health.is_ready());
    proxy.stall();
    proxy.drop_connections();
    proxy.resume();
    for number in 0..10 {
        in_phase(&world, &format!("run-{number}"), Phase::Succeeded).await;
    }
    assert_eq!(jobs(&world).await.len(), 10);
    assert!(jobs_created(&world).await <= 10);
    assert!(launcher.service.health.is_ready());
}
