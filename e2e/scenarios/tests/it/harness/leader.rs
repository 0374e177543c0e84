use std::fs;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use rustix::process::{Pid, Signal, kill_process};
use signalbox_testkit::wait_for;

use super::scene::{STEP, Scene, paused};

/// How a leader is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// SIGKILL to its process: its Lease stays until it expires.
    Kill,
    /// Its pod is deleted by force: SIGTERM, and a moment later SIGKILL.
    Delete,
}

impl Scene {
    /// The pod that holds the Lease of a service.
    pub async fn leader(&self, service: &str) -> String {
        let lease = format!("signalbox-{service}");
        wait_for("a leader", STEP, || {
            paused(async {
                let lease = self.api::<Lease>().get(&lease).await.map_err(|error| error.to_string())?;
                let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                let pod = holder.rsplit_once('_').map(|(pod, _)| pod.to_owned()).ok_or("nobody holds it")?;
                // A holder that is gone is no leader, whatever its Lease still says.
                let there = self.api::<Pod>().get_opt(&pod).await.map_err(|error| error.to_string())?;
                there.map(|_| pod).ok_or_else(|| format!("{holder} is gone"))
            })
        })
        .await
    }

    /// Ends the leader of a service. SIGKILL needs the rights of root on the machine of the node; without them it is a
    /// delete by force.
    pub async fn end_leader(&self, service: &str, how: How) {
        let leader = self.leader(service).await;
        if how == How::Kill {
            let pod = self.api::<Pod>().get(&leader).await.expect("the leader's pod");
            if kill(pod.metadata.uid.as_deref().expect("a uid"), service) {
                return;
            }
            eprintln!("no process of {leader} can be killed from here; its pod is deleted");
        }
        let _ = self.site.kubectl(&["delete", "pod", &leader, "--force", "--grace-period=0"]);
    }
}

/// Kills the processes of that name in a pod, which is known by its cgroup.
fn kill(uid: &str, program: &str) -> bool {
    // The systemd driver writes a uid with underscores.
    let marks = [format!("pod{uid}"), format!("pod{}", uid.replace('-', "_"))];
    let mut killed = false;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        // The kernel keeps 15 bytes of a name.
        if read("comm").trim() == &program[..program.len().min(15)] {
            let cgroups = read("cgroup");
            killed |= marks.iter().any(|mark| cgroups.contains(mark)) && kill_process(pid, Signal::KILL).is_ok();
        }
    }
    killed
}
