use std::{path::Path, time::Duration};

use signalbox_testkit::{Process, TempDir, eventually, wait_for};

const LIMIT: Duration = Duration::from_secs(10);

/// The test that plays the parent.
const PARENT: &str = "process::parent_for_the_test_above";

/// The state of a process as the kernel tells it, `None` once it is gone.
fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

#[tokio::test]
async fn a_child_dies_with_a_parent_that_is_killed() {
    let dir = TempDir::new("parent");
    let pid_file = dir.path().join("pid");
    // The parent is this very test program in a process of its own, made to start a child and to wait.
    let (variable, executable) = (format!("PID_FILE={}", pid_file.display()), std::env::current_exe().unwrap());
    let args = [variable.as_str(), executable.to_str().unwrap(), "--ignored", "--exact", PARENT];
    let parent = Process::start(Path::new("/usr/bin/env"), args, &dir.path().join("log"));
    let written = || async { std::fs::read_to_string(&pid_file).is_ok_and(|text| text.lines().count() == 2) };
    eventually("the child runs", LIMIT, written).await;
    let text = std::fs::read_to_string(&pid_file).unwrap();
    let (pid, left_dir) = text.trim().split_once('\n').unwrap();
    assert!(state(pid).is_some(), "the child runs");
    parent.kill();
    eventually("the child is gone", LIMIT, || async { state(pid).is_none() }).await;
    eventually("its directory is gone", LIMIT, || async { !Path::new(left_dir).exists() }).await;
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn parent_for_the_test_above() {
    let dir = TempDir::new("child");
    let script = "echo $$ > pid; exec sleep 1000";
    let args = ["-c".to_owned(), format!("cd {} && {script}", dir.path().display())];
    let _child = Process::start(Path::new("/bin/sh"), args, &dir.path().join("log"));
    let pid = wait_for("the child says its pid", LIMIT, || async {
        std::fs::read_to_string(dir.path().join("pid")).ok().filter(|pid| pid.ends_with('\n')).ok_or("no pid")
    });
    let pid = pid.await;
    std::fs::write(std::env::var("PID_FILE").unwrap(), format!("{}\n{}\n", pid.trim(), dir.path().display())).unwrap();
    tokio::time::sleep(Duration::from_secs(1000)).await;
}

#[tokio::test]
async fn a_paused_child_is_stopped_and_can_still_be_killed() {
    let dir = TempDir::new("paused");
    let process = Process::start(Path::new("/bin/sh"), ["-c", "echo $$; exec sleep 1000"], &dir.path().join("log"));
    eventually("the child says its pid", LIMIT, || async { process.log_tail().ends_with('\n') }).await;
    let pid = process.log_tail().trim().to_owned();
    process.pause();
    eventually("it is stopped", LIMIT, || async { state(&pid) == Some('T') }).await;
    process.resume();
    eventually("it sleeps", LIMIT, || async { state(&pid) == Some('S') }).await;
    process.pause();
    process.kill();
    assert_eq!(state(&pid), None);
    assert!(!process.is_running());
}

#[tokio::test]
async fn a_child_that_ends_by_itself_is_seen_to_have_ended() {
    let dir = TempDir::new("ends");
    let process = Process::start(Path::new("/bin/sh"), ["-c", "echo last words"], &dir.path().join("log"));
    eventually("it has ended", LIMIT, || async { !process.is_running() }).await;
    assert_eq!(process.log_tail(), "last words\n");
}
