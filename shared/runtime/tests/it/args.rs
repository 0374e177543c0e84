//! Arguments as a process gets them: this test program starts itself again, since a variable of our own process cannot be
//! set safely.

use std::process::{Command, Output};

use clap::Parser;
use rstest::rstest;
use signalbox_runtime::args::{CommonArgs, non_negative_integer, parse_from, parse_or_exit};

/// A service with one option of its own.
#[derive(Parser, Debug)]
#[command(name = "service", version)]
struct Service {
    #[command(flatten)]
    common: CommonArgs,

    /// Bytes of output that are kept
    #[arg(long, env = "MAX_OUTPUT_BYTES", default_value = "262144", value_name = "BYTES",
          value_parser = non_negative_integer("MAX_OUTPUT_BYTES"))]
    max_output_bytes: u64,
}

/// Starts a service with these variables and no others.
fn start(variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "args::service_for_the_tests_above", "--nocapture"])
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
#[ignore = "run by the tests beside it, in a process of its own"]
fn service_for_the_tests_above() {
    // The arguments are those of the test program, so they are left out: what is tested is the environment.
    match parse_from::<Service, _>(["service".into()]) {
        Ok(service) => println!(
            "{:?} own={:?} serves={} token={:?} bytes={}",
            service.common,
            service.common.namespace(),
            service.common.scope(),
            service.common.kube_api_token.as_ref().map(|token| token.expose().len()),
            service.max_output_bytes
        ),
        Err(refused) => {
            let message = match refused {
                signalbox_runtime::args::Refused::Message(message) => message,
                signalbox_runtime::args::Refused::Clap(error) => error.to_string(),
            };
            eprintln!("{message}");
            std::process::exit(2);
        }
    }
}

#[rstest]
#[case("256k")]
#[case("-1")]
#[case("+1")]
#[case("1.5")]
#[case("")]
#[case("99999999999999999999999999")]
fn case_42_max_output_bytes_that_is_no_number_stops_the_start_with_the_exact_message(#[case] raw: &str) {
    let output = start(&[("MAX_OUTPUT_BYTES", raw)]);
    assert_eq!(output.status.code(), Some(2));
    let expected = format!("MAX_OUTPUT_BYTES must be a non-negative integer, got: \"{raw}\"\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}

#[rstest]
#[case("HEALTH_PORT", "0", "HEALTH_PORT must be a port from 1 to 65535, got: \"0\"")]
#[case("HEALTH_PORT", "http", "HEALTH_PORT must be a port from 1 to 65535, got: \"http\"")]
#[case("KUBE_API_URL", "ftp://api", "KUBE_API_URL must be a URL starting with http:// or https://, got: \"ftp://api\"")]
#[case(
    "NAMESPACE",
    "a,B",
    "NAMESPACE must be the name of a namespace, several separated by commas, or * for all, got: \"a,B\""
)]
#[case(
    "NAMESPACE",
    "",
    "NAMESPACE must be the name of a namespace, several separated by commas, or * for all, got: \"\""
)]
#[case("NATS_URL", "http://nats", "NATS_URL must be a URL starting with nats:// or tls://, got: \"http://nats\"")]
#[case("NATS_URL", "", "NATS_URL must name at least one server and no empty one, got: \"\"")]
#[case("LOG", "info,=", "LOG must be a log filter such as info or info,signalbox_runtime=debug, got: \"info,=\"")]
fn a_bad_value_is_named_with_its_variable_and_what_is_accepted(
    #[case] name: &str,
    #[case] raw: &str,
    #[case] message: &str,
) {
    let output = start(&[(name, raw)]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.starts_with(message) && error.lines().count() == 1, "{error}");
}

#[test]
fn a_password_within_a_url_is_refused_without_repeating_it() {
    let output = start(&[("NATS_URL", "nats://watcher:hunter2@nats:4222")]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(error.starts_with("NATS_URL must be a URL") && !error.contains("hunter2"), "{error}");
}

#[test]
fn without_any_variable_the_defaults_of_the_contract_hold() {
    let output = start(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in [
        "own=\"ai-agents\" serves=ai-agents",
        "health_port: 8081",
        "\"nats://nats:4222\"",
        "log: \"info\"",
        "token=None",
        "bytes=262144",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
}

#[test]
fn secrets_come_from_the_environment_and_are_shown_nowhere() {
    let variables = [("KUBE_API_TOKEN", "hunter2"), ("NATS_PASSWORD", "hunter2"), ("NATS_USER", "watcher")];
    let output = start(&variables);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("token=Some(7)") && !text.contains("hunter2"), "{text}");
}

#[test]
fn help_names_each_variable_and_no_flag_takes_a_secret() {
    let help = match parse_from::<Service, _>(["service".into(), "--help".into()]) {
        Err(signalbox_runtime::args::Refused::Clap(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    for name in [
        "NAMESPACE",
        "POD_NAME",
        "HOSTNAME",
        "HEALTH_PORT",
        "KUBE_API_URL",
        "KUBE_API_TOKEN",
        "NATS_URL",
        "NATS_USER",
        "NATS_PASSWORD",
        "NATS_PASSWORD_FILE",
        "LOG",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "MAX_OUTPUT_BYTES",
    ] {
        assert!(help.contains(name), "{name} is not in\n{help}");
    }
    assert!(!help.contains("--kube-api-token") && !help.contains("--nats-password "), "{help}");
}

#[test]
fn main_itself_ends_with_code_2_and_the_message_alone() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "args::main_for_the_test_above", "--nocapture"])
        .env_clear()
        .env("BAD", "x")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "BAD must be a non-negative integer, got: \"x\"\n");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn main_for_the_test_above() {
    /// Takes whatever the test program was started with, and one bad variable.
    #[derive(Parser)]
    struct Main {
        #[arg(long)]
        ignored: bool,
        #[arg(long)]
        exact: Option<String>,
        #[arg(long)]
        nocapture: bool,
        #[arg(long, env = "BAD", value_parser = non_negative_integer("BAD"))]
        bad: u64,
    }
    let main: Main = parse_or_exit();
    panic!("not refused: {} {:?} {} {}", main.ignored, main.exact, main.nocapture, main.bad);
}
