//! The end of a process: this test program starts itself again and is sent signals.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use signalbox_runtime::shutdown;
use signalbox_testkit::{Process, TempDir, eventually};

const LIMIT: Duration = Duration::from_secs(20);

/// A process that behaves as `test` says, once it waits for signals.
async fn started(dir: &TempDir, test: &str) -> Process {
    let executable = std::env::current_exe().unwrap();
    let process =
        Process::start(Path::new(&executable), ["--ignored", "--exact", test, "--nocapture"], &dir.path().join("log"));
    eventually("it waits", LIMIT, || async { process.log_tail().contains("waits\n") }).await;
    process
}

async fn ends_within(process: &Process, limit: Duration) -> Duration {
    let began = Instant::now();
    eventually("it ends", limit, || async { !process.is_running() }).await;
    began.elapsed()
}

#[tokio::test]
async fn sigterm_ends_the_work_within_a_second() {
    let dir = TempDir::new("shutdown");
    let process = started(&dir, "shutdown::process_that_ends_in_order").await;
    process.terminate();
    ends_within(&process, shutdown::LIMIT).await;
    assert!(process.log_tail().contains("ended in order"), "{}", process.log_tail());
}

#[tokio::test]
async fn a_shutdown_that_hangs_is_cut_off_and_a_second_signal_cuts_it_off_at_once() {
    let dir = TempDir::new("shutdown");
    let process = started(&dir, "shutdown::process_that_hangs").await;
    process.terminate();
    let took = ends_within(&process, LIMIT).await;
    assert!(took > Duration::from_millis(1500), "{took:?}");
    assert!(!process.log_tail().contains("test result: ok"));

    let process = started(&dir, "shutdown::process_that_hangs").await;
    process.terminate();
    eventually("it has seen the first", LIMIT, || async { process.log_tail().ends_with("hangs\n") }).await;
    process.terminate();
    let took = ends_within(&process, LIMIT).await;
    assert!(took < Duration::from_millis(1000), "{took:?}");
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn process_that_ends_in_order() {
    let token = shutdown::on_signals().unwrap();
    println!("waits");
    token.cancelled().await;
    println!("ended in order");
}

#[tokio::test]
#[ignore = "run by the test above, in a process of its own"]
async fn process_that_hangs() {
    let token = shutdown::on_signals().unwrap();
    println!("waits");
    token.cancelled().await;
    println!("hangs");
    std::future::pending::<()>().await;
}
