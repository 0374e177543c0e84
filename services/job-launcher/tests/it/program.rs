//! The program itself: what stops its start.

use std::process::{Command, Output};

use rstest::rstest;

fn started(name: &str, value: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_job-launcher")).env(name, value).output().unwrap()
}

#[rstest]
#[case::case_42("MAX_OUTPUT_BYTES", "256k", "MAX_OUTPUT_BYTES must be a non-negative integer, got: \"256k\"")]
#[case("MAX_OUTPUT_BYTES", "-1", "MAX_OUTPUT_BYTES must be a non-negative integer, got: \"-1\"")]
#[case("MAX_OUTPUT_BYTES", "", "MAX_OUTPUT_BYTES must be a non-negative integer, got: \"\"")]
#[case("HEALTH_PORT", "no", "HEALTH_PORT must be a port from 1 to 65535, got: \"no\"")]
fn a_bad_argument_stops_the_start_with_one_line(#[case] name: &str, #[case] value: &str, #[case] message: &str) {
    let output = started(name, value);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("{message}\n"));
    assert!(output.stdout.is_empty());
}
