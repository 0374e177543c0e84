//! What becomes of all that the agent starts.

use rustix::process::{Pid, Signal, kill_process};

use crate::run::{Supervisor, assert_gone};

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

#[test]
fn case_71_a_grandchild_that_holds_standard_output_does_not_hold_the_run_up() {
    // In a session of its own, so that not even the end of the process group reaches it.
    let ended = Supervisor::over("setsid sleep 60 & echo $!; exit 0").run();
    kill_process(pid(&ended.printed()[0]), Signal::KILL).unwrap();
    ended.assert_ended(0);
    ended.assert_took(2000, 20_000);
}

#[test]
fn case_71_a_grandchild_that_prints_without_a_pause_does_not_hold_the_run_up() {
    let ended = Supervisor::over("setsid yes & echo pid $! >&2; exit 0").run();
    let own = ended.log.lines().find_map(|line| line.strip_prefix("[agent] pid ")).unwrap();
    // Its pipe went with the supervisor.
    assert_gone(own);
    assert_eq!(ended.code, 0);
    ended.assert_took(2000, 20_000);
}

#[test]
fn no_tool_or_worker_in_the_agent_s_group_survives_it() {
    let ended = Supervisor::over("sleep 60 & echo $!; (trap '' TERM HUP; exec sleep 60) & echo $!; exit 0").run();
    ended.assert_ended(0);
    ended.printed().iter().for_each(|pid| assert_gone(pid));
}

#[test]
fn what_a_worker_prints_after_the_agent_has_exited_is_still_passed_on() {
    let ended = Supervisor::over("(sleep 0.5; echo late) & exit 0").run();
    ended.assert_ended(0);
    assert_eq!(ended.printed(), ["late"]);
}

#[test]
fn a_signal_reaches_the_tools_of_the_agent_as_well() {
    let ended = Supervisor::over("sleep 60 & echo $!; echo ready; wait $!; exit 5").run_with(Signal::TERM);
    ended.assert_ended(143);
    assert_gone(&ended.printed()[0]);
    ended.assert_took(0, 20_000);
}

#[test]
fn orphans_are_reaped_while_the_agent_runs() {
    // The orphans end at once; then zombies whose parent is the supervisor are counted.
    let script = "for i in 1 2 3; do (true & ); done; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1
        n=$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v p=$PPID '$3 == \"Z\" && $4 == p' | wc -l)
        [ $n = 0 ] && break; done; echo $n";
    let ended = Supervisor::over(script).run();
    ended.assert_ended(0);
    assert_eq!(ended.printed(), ["0"]);
}

#[test]
fn the_end_of_an_orphan_is_not_taken_for_the_agent_s() {
    let ended = Supervisor::over("(sh -c 'exit 9' & ); sleep 0.3; echo alive; exit 4").run();
    ended.assert_ended(4);
    assert_eq!(ended.printed(), ["alive"]);
}
