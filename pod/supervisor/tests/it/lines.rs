use std::process::{Command, Stdio};

use crate::run::Supervisor;

#[test]
fn lines_are_printed_bare_between_the_events_and_empty_ones_are_skipped() {
    let ended = Supervisor::over(r#"printf '{"a":1}\r\n\n\r\nplain\nlast'"#).run();
    ended.assert_ended(0);
    assert_eq!(ended.printed(), [r#"{"a":1}"#, "plain", "last"]);
}

#[test]
fn bytes_that_are_no_text_are_passed_on_as_they_are() {
    let ended = Supervisor::over(r"printf 'a\377\376b\n\0\n'").run();
    ended.assert_ended(0);
    assert_eq!(ended.lines[1..3], [b"a\xff\xfeb".to_vec(), b"\0".to_vec()]);
}

#[test]
fn case_73_four_thousand_lines_on_standard_error_are_all_forwarded_without_a_deadlock() {
    let script = "i=0; while [ $i -lt 4000 ]; do echo error $i >&2; echo line $i; i=$((i+1)); done";
    let ended = Supervisor::over(script).run();
    ended.assert_ended(0);
    let errors: Vec<_> = (0..4000).map(|n| format!("[agent] error {n}")).collect();
    assert_eq!(ended.log.lines().collect::<Vec<_>>(), errors);
    assert_eq!(ended.printed(), (0..4000).map(|n| format!("line {n}")).collect::<Vec<_>>());
}

#[test]
fn fix_0_8_1_standard_error_is_tagged_and_never_on_standard_output() {
    let ended = Supervisor::over("echo error >&2; echo line").run();
    ended.assert_ended(0);
    assert_eq!((ended.printed(), ended.log.as_str()), (vec!["line".to_owned()], "[agent] error\n"));
}

#[test]
fn what_the_agent_prints_last_is_not_lost_however_much_it_is() {
    let ended = Supervisor::over("seq 1 100000; seq 1 1000 >&2").run();
    ended.assert_ended(0);
    assert_eq!((ended.printed().len(), ended.log.lines().count()), (100_000, 1000));
    assert_eq!(ended.printed()[99_999], "100000");
}

#[test]
fn a_line_of_sixteen_mebibytes_is_passed_on() {
    let ended = Supervisor::over("head -c 16777216 /dev/zero | tr '\\0' x; echo; echo after").run();
    ended.assert_ended(0);
    assert_eq!((ended.lines[1].len(), ended.printed()[1].as_str()), (16_777_216, "after"));
}

#[test]
fn a_longer_line_stops_the_reader_and_not_the_agent() {
    let ended =
        Supervisor::over("echo before; head -c 40000000 /dev/zero | tr '\\0' x; echo; echo after; exit 3").run();
    ended.assert_ended(3);
    assert_eq!(ended.printed(), ["before"]);
    assert!(ended.log.contains("a line of over 16777216 bytes"), "{}", ended.log);
}

#[test]
fn the_run_goes_on_when_nobody_reads_its_output() {
    let mut supervisor = Command::new(env!("CARGO_BIN_EXE_ai-agent-supervisor"));
    supervisor.args(["--", "sh", "-c", "seq 1 100000; seq 1 100000 >&2; exit 7"]).env("AGENT_MODEL", "exec");
    let mut child = supervisor.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(7));
}
