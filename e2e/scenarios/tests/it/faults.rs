//! Parts of Signalbox go away in the middle of runs. Every run still ends, and none has a second Job.

use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod, rbac::v1::Role};
use kube::{
    ResourceExt,
    api::{ListParams, PostParams},
};
use signalbox_testkit::wait_for;
use signalbox_types::{Agent, Phase, names};

use crate::harness::{How, STEP, Scene, output, paused, requests};

/// The most that a silent bus may cost: the leader makes its own listing after 35 s and up to 10 s of jitter, then every
/// 15 s.
const SILENCE: Duration = Duration::from_secs(60);

/// Asserts that the run has ended well, and that it had one Job with one pod.
async fn ended_with_one_job(scene: &Scene, agent: &str) {
    let ended = scene.ended(agent).await;
    assert_eq!(ended.phase(), Phase::Succeeded, "{agent}: {:?}", ended.status);
    let job = names::job_name(agent);
    let created =
        requests(scene, &job).into_iter().filter(|request| request.what == "create jobs" && request.code == 201);
    assert_eq!(created.count(), 1, "{agent} has had one Job");
    assert_eq!(scene.pods_of(agent).await.len(), 1, "{agent} has had one pod");
    assert_eq!(output(&ended).matches("done\n").count(), 1, "{}", output(&ended));
}

/// Scales a Deployment, and waits until no pod of it is left where it is scaled to none.
async fn scale(scene: &Scene, deployment: &str, replicas: u32) {
    scene.kubectl(&["scale", "deployment", deployment, &format!("--replicas={replicas}")]);
    if replicas == 0 {
        let of_it = ListParams::default().labels(&format!("app.kubernetes.io/name={deployment}"));
        wait_for("its pods to go", STEP, || {
            paused(async {
                let pods = scene.api::<Pod>().list(&of_it).await.map_err(|error| error.to_string())?;
                if pods.items.is_empty() { Ok(()) } else { Err(format!("{} pods", pods.items.len())) }
            })
        })
        .await;
    }
}

#[tokio::test]
async fn without_nats_a_run_ends_and_another_starts() {
    let scene = Scene::stormy("no-bus").await;
    let before = scene.run_as("-before", "shell", "sleep 8; echo done").await;
    scene.at_work(&before).await;
    scale(&scene, "nats", 0).await;
    let meanwhile = scene.run_as("-meanwhile", "shell", "echo done").await;
    ended_with_one_job(&scene, &before).await;
    ended_with_one_job(&scene, &meanwhile).await;
    scale(&scene, "nats", 1).await;
    let after = scene.run_as("-after", "shell", "echo done").await;
    ended_with_one_job(&scene, &after).await;
}

#[tokio::test]
async fn without_the_watcher_a_run_ends_and_another_starts() {
    let scene = Scene::stormy("no-watcher").await;
    let before = scene.run_as("-before", "shell", "sleep 8; echo done").await;
    scene.at_work(&before).await;
    scale(&scene, "signalbox-watcher", 0).await;
    let meanwhile = scene.run_as("-meanwhile", "shell", "echo done").await;
    let ended = scene.until(&before, "its end", SILENCE + STEP, |agent: Option<&Agent>| {
        agent.is_some_and(|agent| agent.phase().is_terminal())
    });
    ended.await;
    ended_with_one_job(&scene, &before).await;
    ended_with_one_job(&scene, &meanwhile).await;
}

#[tokio::test]
async fn leaders_that_are_killed_again_and_again_never_make_a_second_job() {
    let scene = Scene::stormy("killed").await;
    let mut agents = Vec::new();
    for (round, how) in [How::Delete, How::Delete, How::Kill, How::Delete, How::Delete].into_iter().enumerate() {
        for suffix in [format!("-{round}a"), format!("-{round}b")] {
            agents.push(scene.run_as(&suffix, "shell", "sleep 5; echo done").await);
        }
        // The leader goes at the very moment in which its Job is there and its status is perhaps not.
        let job = names::job_name(&agents[2 * round]);
        scene.until(&job, "a Job", STEP, |job: Option<&Job>| job.is_some()).await;
        scene.end_leader("job-launcher", how).await;
    }
    for agent in agents {
        ended_with_one_job(&scene, &agent).await;
    }
}

#[tokio::test]
async fn case_28_a_leader_killed_between_a_job_s_create_and_the_status_leaves_no_second_job() {
    let scene = Scene::stormy("between").await;
    // Without the right to write statuses the leader stops exactly there.
    let roles = scene.api::<Role>();
    let whole = roles.get("signalbox-job-launcher").await.unwrap();
    let mut cut = whole.clone();
    let is_status = |resources: &Option<Vec<String>>| resources.iter().flatten().any(|name| name == "agents/status");
    cut.rules.iter_mut().for_each(|rules| rules.retain(|rule| !is_status(&rule.resources)));
    assert_ne!(cut.rules, whole.rules);
    let cut = roles.replace(&whole.name_any(), &PostParams::default(), &cut).await.unwrap();

    let agent = scene.run("shell", "sleep 2; echo done").await;
    let job = names::job_name(&agent);
    scene.until(&job, "the Job", STEP, |job: Option<&Job>| job.is_some()).await;
    wait_for("a refused status", STEP, || {
        paused(async {
            let refused = requests(&scene, &agent).into_iter().find(|request| request.code == 403);
            refused.ok_or("none")
        })
    })
    .await;
    scene.end_leader("job-launcher", How::Kill).await;
    assert_eq!(scene.api::<Agent>().get(&agent).await.unwrap().phase(), Phase::Pending);
    let back = Role { rules: whole.rules.clone(), ..cut };
    roles.replace(&whole.name_any(), &PostParams::default(), &back).await.unwrap();
    ended_with_one_job(&scene, &agent).await;
}

#[tokio::test]
async fn at_rest_nothing_is_written_but_leases() {
    let scene = Scene::stormy("rest").await;
    // What an earlier scenario left comes to its end first.
    wait_for("all runs to end", STEP, || {
        paused(async {
            let agents = scene.api::<Agent>().list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let open: Vec<_> =
                agents.iter().filter(|agent| !agent.phase().is_terminal()).map(Agent::name_any).collect();
            if open.is_empty() { Ok(()) } else { Err(format!("{open:?}")) }
        })
    })
    .await;
    let before = requests(&scene, "").len();
    let after = wait_for("two more listings", STEP, || {
        paused(async {
            let all = requests(&scene, "").split_off(before);
            let listings = all.iter().filter(|request| request.service == "watcher" && request.what == "list agents");
            if listings.count() >= 2 { Ok(all) } else { Err(all.len()) }
        })
    })
    .await;
    let reads = ["get", "list", "watch"];
    let is_write = |what: &str| !reads.iter().any(|read| what.starts_with(read));
    let written: Vec<_> = after.iter().filter(|request| is_write(&request.what)).collect();
    assert!(!written.is_empty() && written.iter().all(|request| request.what == "patch leases"), "{written:#?}");
}
