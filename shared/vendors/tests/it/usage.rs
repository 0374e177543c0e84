use rstest::rstest;
use signalbox_types::Usage;
use signalbox_vendors::{Vendor, usage};

use crate::{
    recordings::log_of,
    support::{recording, vendor},
};

fn of(name: &str, resumed: bool) -> Option<Usage> {
    usage(vendor(name), &log_of(&recording(name)), resumed)
}

fn tokens(input: u64, cached: u64, output: u64) -> Usage {
    Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        cached_input_tokens: Some(cached),
        ..Usage::default()
    }
}

fn assert_cost(usage: &Usage, expected: f64) {
    assert!((usage.cost_usd.unwrap() - expected).abs() < 1e-9, "{:?}", usage.cost_usd);
}

#[test]
fn claude_is_the_sum_of_its_results_with_the_cached_tokens_counted_in() {
    let usage = of("claude/background_task", false).unwrap();
    assert_cost(&usage, 0.001_932);
    let expected = Usage {
        cost_usd: usage.cost_usd,
        turns: Some(3),
        duration_ms: Some(258 + 34),
        model: Some("claude-opus-5-5".to_owned()),
        ..tokens(360, 60, 36)
    };
    assert_eq!(usage, expected);
}

#[test]
fn claude_that_resumes_costs_what_this_run_cost_and_not_what_the_session_did() {
    let usage = of("claude/resume_fresh_home", true).unwrap();
    assert_cost(&usage, 0.000_644);
    assert_eq!((usage.input_tokens, usage.output_tokens), (Some(120), Some(12)));
    assert!(recording("claude/resume_fresh_home").contains(r#""total_cost_usd":0.00193"#), "the session's");
}

#[test]
fn after_an_interrupt_the_tokens_of_claude_are_absent_and_not_zero() {
    let usage = of("claude/sigint", false).unwrap();
    assert_eq!((usage.input_tokens, usage.cached_input_tokens, usage.output_tokens), (None, None, None));
    assert_cost(&usage, 0.000_524);
}

#[test]
fn claude_that_got_no_answer_has_used_nothing_and_names_no_model() {
    let usage = of("claude/error_401", false).unwrap();
    let expected = Usage { cost_usd: Some(0.0), turns: Some(1), duration_ms: Some(178_137), ..tokens(0, 0, 0) };
    assert_eq!(usage, expected);
    assert_eq!(serde_json::to_value(&usage).unwrap()["costUSD"].to_string(), "0.0", "and not minus zero");
}

#[test]
fn a_cost_that_claude_does_not_tell_is_absent() {
    assert_eq!(of("claude/resume_unknown", true).unwrap().cost_usd, None);
}

#[test]
fn codex_counts_its_thread_so_that_only_a_new_one_is_this_run() {
    assert_eq!(of("codex/tool", false), Some(tokens(240, 40, 24)));
    assert_eq!(of("codex/resume", true), None);
    assert_eq!(of("codex/error_401", false), None);
}

#[test]
fn gemini_names_the_model_that_answered() {
    let expected =
        Usage { duration_ms: Some(161), model: Some("gemini-3.5-flash-lite".to_owned()), ..tokens(240, 40, 24) };
    assert_eq!(of("gemini/tool", false), Some(expected));
    assert!(recording("gemini/tool").contains(r#""model":"gemini-3.1-flash-lite""#), "another was asked for");
    assert_eq!(of("gemini/resume", true).unwrap().input_tokens, Some(120), "of this process alone");
    assert_eq!(of("gemini/error_429", false).unwrap().model, None, "none has answered");
}

#[test]
fn opencode_is_the_sum_of_its_steps() {
    let usage = of("opencode/tool", false).unwrap();
    assert_cost(&usage, 0.000_248);
    assert_eq!(usage, Usage { cost_usd: usage.cost_usd, turns: Some(2), ..tokens(240, 40, 24) });
}

#[test]
fn reasoning_of_opencode_is_output_and_what_it_writes_to_a_cache_is_input() {
    let step = r#"{"type":"step_finish","part":{"tokens":{"input":1,"output":10,"reasoning":100,"cache":{"read":1000,"write":10000}},"cost":0.5}}"#;
    let usage = usage(Vendor::Opencode, &log_of(&format!("{step}\n")), false).unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens),
        (Some(11_001), Some(110), Some(1000))
    );
}

#[rstest]
#[case("claude/sigterm")]
#[case("gemini/sigterm")]
#[case("codex/sigterm")]
#[case("opencode/sigterm")]
#[case("opencode/error_401")]
fn a_cli_that_told_nothing_has_no_usage(#[case] name: &str) {
    assert_eq!(of(name, false), None);
}

/// A log is cut at its beginning, within a line or between two.
#[test]
fn a_sum_of_which_the_log_lacks_a_part_is_absent() {
    let log = log_of(&recording("claude/background_task"));
    let second = log.lines().position(|line| line.contains("task_notification")).unwrap();
    let cut: String = log.split_inclusive('\n').skip(second).collect();
    assert!(cut.contains(r#""type":"result""#), "the second result is there");
    assert_eq!(usage(Vendor::Claude, &cut, false), None);

    let log = log_of(&recording("opencode/tool"));
    let cut = &log[log.find("step_finish").unwrap()..];
    assert!(cut.contains(r#"{"type":"step_start""#), "the second step is there");
    assert_eq!(usage(Vendor::Opencode, cut, false), None);
}

#[test]
fn a_cut_beginning_does_not_matter_where_the_last_line_tells_all() {
    for name in ["claude/tool", "codex/tool", "gemini/tool"] {
        let log = log_of(&recording(name));
        let last = log.rfind("hello-from-tool").unwrap();
        assert_eq!(usage(vendor(name), &log[last..], false), of(name, false), "{name}");
        assert!(of(name, false).is_some());
    }
}

#[test]
fn a_model_is_that_which_wrote_most_over_all_results() {
    let result = |index: u32, models: &str| {
        format!(
            r#"{{"type":"result","result_index":{index},"usage":{{}},"model_usage_since_last_result":{{{models}}}}}"#
        )
    };
    let small = r#""small":{"outputTokens":6,"costUSD":0.1}"#;
    let large = r#""large":{"outputTokens":10,"costUSD":1}"#;
    let log = [result(0, &format!("{small},{large}")), result(1, small)].join("\n");
    let usage = usage(Vendor::Claude, &log, false).unwrap();
    assert_eq!(usage.model.as_deref(), Some("small"));
    assert_cost(&usage, 1.2);
    assert_eq!((usage.input_tokens, usage.turns), (None, None), "untold");
}

/// An agent can print what it likes; a status with it must still be one that the API server takes.
#[rstest]
#[case::more_than_a_signed_number("18446744073709551615")]
#[case::more_than_any("18446744073709551616")]
#[case::negative("-1")]
#[case::a_fraction("1.5")]
#[case::text("\"7\"")]
fn a_count_that_kubernetes_could_not_keep_is_absent(#[case] count: &str) {
    let log =
        format!(r#"{{"type":"result","usage":{{"input_tokens":{count},"output_tokens":{count}}},"num_turns":2}}"#);
    let usage = usage(Vendor::Exec, &log, false).unwrap();
    assert_eq!(usage, Usage { turns: Some(2), ..Usage::default() });
}

#[test]
fn a_cost_below_nothing_and_a_name_without_end_are_not_believed() {
    let name = "m".repeat(4096);
    let models = format!(r#"{{"{name}":{{"outputTokens":5,"costUSD":-1}},"m":{{"outputTokens":1,"costUSD":0}}}}"#);
    let log = format!(r#"{{"type":"result","num_turns":1,"model_usage_since_last_result":{models}}}"#);
    let usage = usage(Vendor::Claude, &log, false).unwrap();
    assert_eq!((usage.cost_usd, usage.model.as_deref()), (None, Some("m")));
}

#[test]
fn a_command_that_prints_nothing_like_it_has_no_usage() {
    assert_eq!(usage(Vendor::Exec, &log_of("hello\n{\"type\":\"result\",\"result\":\"done\"}\n"), false), None);
    assert_eq!(usage(Vendor::Exec, "", false), None);
}
