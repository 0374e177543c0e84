//! Many runs on one Station: who goes first, who waits, who has to go, who is kept.

use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{ResourceExt, api::ListParams};
use signalbox_testkit::wait_for;
use signalbox_types::{Agent, Phase, Timestamp, names};

use crate::harness::{STEP, Scene, paused};

/// Runs as many Agents at once as there are suffixes, and gives their times in this order.
async fn times(scene: &Scene, suffixes: &[&str]) -> Vec<(Timestamp, Timestamp)> {
    let mut agents = Vec::new();
    for suffix in suffixes {
        agents.push(scene.run_as(suffix, &scene.name, "sleep 2").await);
    }
    let mut times = Vec::new();
    for agent in agents {
        let agent = scene.ended(&agent).await;
        assert_eq!(agent.phase(), Phase::Succeeded, "{:?}", agent.status);
        let status = agent.status.unwrap();
        times.push((status.started_at.unwrap(), status.completed_at.unwrap()));
    }
    times
}

/// How many of the runs were there at the start of one of them, itself included.
fn most_at_once(times: &[(Timestamp, Timestamp)]) -> usize {
    let at_once = |moment: Timestamp| {
        // Times have whole seconds: a run that ends in the second in which another starts has made room for it.
        times
            .iter()
            .filter(|(start, end)| start.seconds_since(moment) <= 0.0 && end.seconds_since(moment) > 0.0)
            .count()
    };
    times.iter().map(|(start, _)| at_once(*start)).max().unwrap_or_default()
}

#[tokio::test]
async fn case_47_limit_1_runs_one_at_a_time_and_the_oldest_first() {
    let scene = Scene::calm("limit-one").await;
    scene.station("{maxConcurrentRuns: 1}");
    let times = times(&scene, &["-a", "-b", "-c"]).await;
    assert_eq!(most_at_once(&times), 1, "{times:?}");
    assert!(times.windows(2).all(|pair| pair[1].0.seconds_since(pair[0].1) >= 0.0), "{times:?}");
}

#[tokio::test]
async fn a_limit_of_2_is_used_and_never_exceeded() {
    let scene = Scene::calm("limit-two").await;
    scene.station("{maxConcurrentRuns: 2}");
    let times = times(&scene, &["-a", "-b", "-c", "-d"]).await;
    assert_eq!(most_at_once(&times), 2, "{times:?}");
}

#[tokio::test]
async fn case_49_forbid_runs_one_at_a_time_whatever_the_number_says() {
    let scene = Scene::calm("forbid").await;
    scene.station("{concurrencyPolicy: Forbid, maxConcurrentRuns: 5}");
    let times = times(&scene, &["-a", "-b"]).await;
    assert_eq!(most_at_once(&times), 1, "{times:?}");
}

#[tokio::test]
async fn replace_takes_the_running_one_away_with_its_job_and_its_pod() {
    let scene = Scene::calm("replace").await;
    scene.station("{concurrencyPolicy: Replace}");
    let old = scene.run_as("-old", &scene.name, "exec sleep 600").await;
    let pod = scene.at_work(&old).await.name_any();
    let new = scene.run_as("-new", &scene.name, "echo in its place").await;
    assert_eq!(scene.ended(&new).await.phase(), Phase::Succeeded);
    scene.until(&old, "the victim to go", STEP, |agent: Option<&Agent>| agent.is_none()).await;
    scene.until(&names::job_name(&old), "its Job to go", STEP, |job: Option<&Job>| job.is_none()).await;
    scene.until(&pod, "its pod to go", STEP, |pod: Option<&Pod>| pod.is_none()).await;
}

#[tokio::test]
async fn history_limits_keep_the_newest_of_each_phase_and_case_56_of_this_station_only() {
    let scene = Scene::calm("history").await;
    let elsewhere = scene.run_as("-elsewhere", "shell", "true").await;
    let spec = "{concurrencyPolicy: Forbid, successfulRunsHistoryLimit: 2, failedRunsHistoryLimit: 0}";
    scene.station(spec);
    for (suffix, script) in [("-a", "true"), ("-b", "false"), ("-c", "true"), ("-d", "true")] {
        scene.run_as(suffix, &scene.name, script).await;
    }
    let kept = ["-c", "-d"].map(|suffix| format!("{}{suffix}", scene.name));
    wait_for("the newest alone to be kept", STEP, || {
        paused(async {
            let agents = scene.api::<Agent>().list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let mine = agents.items.iter().filter(|agent| agent.spec.station_ref == scene.name);
            let mine: Vec<_> = mine.map(|agent| (agent.name_any(), agent.phase())).collect();
            let expected = kept.clone().map(|name| (name, Phase::Succeeded));
            if mine == expected { Ok(()) } else { Err(format!("{mine:?}")) }
        })
    })
    .await;
    for gone in ["-a", "-b"] {
        let job = names::job_name(&format!("{}{gone}", scene.name));
        scene.until(&job, "its Job to go too", Duration::from_secs(60), |job: Option<&Job>| job.is_none()).await;
    }
    assert_eq!(scene.ended(&elsewhere).await.phase(), Phase::Succeeded);
}
