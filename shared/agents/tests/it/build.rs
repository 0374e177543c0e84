use rstest::rstest;
use signalbox_agents::{job::BuildError, owned_by};

use crate::support::{Objects, expanded, yaml};

#[test]
fn a_full_run_gives_this_job() {
    let mut objects = Objects::full();
    objects.options.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    insta::assert_yaml_snapshot!(objects.build().unwrap());
}

#[test]
fn the_same_run_gives_the_same_job() {
    assert_eq!(Objects::full().build(), Objects::full().build());
}

#[test]
fn a_job_is_owned_by_its_agent_and_no_namesake() {
    let objects = Objects::bare();
    let mut meta = objects.build().unwrap().metadata;
    let uid = objects.agent.metadata.uid.as_deref().unwrap();
    assert!(owned_by(&meta, uid));
    assert!(!owned_by(&meta, "22222222-5a8b-4c55-9b1e-2f6a1c9d4e10"));
    assert!(!owned_by(&meta, ""));
    meta.owner_references.as_mut().unwrap()[0].controller = Some(false);
    assert!(!owned_by(&meta, uid));
}

#[test]
fn a_run_without_a_trace_has_no_trace_in_its_job() {
    let objects = Objects::bare();
    assert!(!objects.build().unwrap().metadata.annotations.unwrap().contains_key("agents.re-cinq.com/traceparent"));
    assert!(!objects.agent_env().has("TRACEPARENT"));
}

#[test]
fn a_trace_reaches_the_job_and_both_containers() {
    let mut objects = Objects::bare();
    objects.options.traceparent = Some("00-1-2-01".to_owned());
    let annotations = objects.build().unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations["agents.re-cinq.com/traceparent"], "00-1-2-01");
    assert_eq!(objects.agent_env().value("TRACEPARENT"), "00-1-2-01");
    assert_eq!(objects.init_env().value("TRACEPARENT"), "00-1-2-01");
}

#[test]
fn case_12_a_parameter_that_names_a_secret_reaches_the_pod_as_text() {
    let objects = Objects::full();
    let prompt = objects.argv().pop().unwrap();
    assert_eq!(prompt, "Fix It costs $$5 and $$(ANTHROPIC_API_KEY) in {repo}");
    assert_eq!(expanded(&prompt), "Fix It costs $5 and $(ANTHROPIC_API_KEY) in {repo}");
    let parameters = objects.agent_env().value("AGENT_PARAMETERS").to_owned();
    assert!(expanded(&parameters).contains("$(ANTHROPIC_API_KEY)"), "{parameters}");
}

#[test]
fn no_argument_and_no_value_of_ours_is_expanded_by_the_kubelet() {
    let mut objects = Objects::full();
    for text in [&mut objects.agent.spec.task_id, &mut objects.agent.spec.model, &mut objects.agent.spec.branch] {
        *text = "$(ANTHROPIC_API_KEY)".to_owned();
    }
    objects.definition.spec.output.sinks[0].url = "https://sink.example/$(ANTHROPIC_API_KEY)".to_owned();
    objects.definition.spec.allowed_tools.push("Bash($(ANTHROPIC_API_KEY))".to_owned());
    let env = objects.init_env();
    let recipe = ["LOG_LEVEL", "GREETING"];
    let values = env.0.iter().filter(|variable| !recipe.contains(&variable.name.as_str()));
    let texts = values.filter_map(|variable| variable.value.clone()).chain(objects.argv());
    for text in texts {
        assert!(!expanded(&text).contains("<EXPANDED>"), "{text}");
    }
    assert_eq!(env.value("GREETING"), "hello $(LOG_LEVEL)", "a recipe's own value stays as written");
}

#[test]
fn case_13_a_prompt_with_two_dollars_reaches_the_pod_with_both() {
    let objects = Objects::bare().recipe("{model: exec, prompt: 'pay $$ now', tool_config: {command: [echo]}}");
    assert_eq!(objects.argv().iter().map(|word| expanded(word)).collect::<Vec<_>>(), ["echo", "pay $$ now"]);
}

#[rstest]
#[case(131_071, true)]
#[case(131_072, false)]
#[case(200 * 1024, false)]
fn case_14_a_prompt_over_131071_bytes_is_refused(#[case] bytes: usize, #[case] fits: bool) {
    let mut objects = Objects::bare();
    // Dollars count once: the pod sees them once.
    objects.definition.spec.prompt = "$".repeat(bytes);
    let error = objects.build().err().map(|error| error.failure_reason());
    assert_eq!(error, (!fits).then(|| "invalid run: rendered prompt exceeds 131071 bytes".to_owned()));
}

/// The longest argument counts, and gemini takes the prompt in one word with its option.
#[rstest]
#[case("gemini", 131_071 - 9, true)]
#[case("gemini", 131_071 - 8, false)]
#[case("gpt-5.5", 131_071, true)]
#[case("gpt-5.5", 131_072, false)]
fn case_14_a_prompt_that_its_cli_could_not_be_started_with_is_refused(
    #[case] model: &str,
    #[case] bytes: usize,
    #[case] fits: bool,
) {
    let mut objects = Objects::bare();
    objects.agent.spec.model = model.to_owned();
    objects.definition.spec.prompt = "p".repeat(bytes);
    assert_eq!(objects.build().err(), (!fits).then_some(BuildError::PromptTooLong));
}

#[test]
fn case_15_and_fix_136_a_prompt_that_starts_with_a_dash_is_data() {
    let mut objects = Objects::full();
    objects.definition.spec.prompt = "--help".to_owned();
    let command = objects.agent_container().command.unwrap();
    assert_eq!(command[..2], ["/agent/bin/ai-agent-supervisor", "--"]);
    assert_eq!(command[command.len() - 2..], ["--", "--help"]);
}

#[test]
fn case_16_an_empty_prompt_is_an_empty_argument() {
    let objects = Objects::bare().recipe("{model: exec, prompt: '', tool_config: {command: [echo]}}");
    assert_eq!(objects.argv(), ["echo", ""]);
}

#[rstest]
#[case::case_17_0_is_one_minute(Some(0), 60, "50000")]
#[case::negative(Some(-5), 60, "50000")]
#[case::absent(None, 1800, "1790000")]
#[case::case_18_2147483647_is_the_longest_that_the_job_controller_can_count(
    Some(2_147_483_647),
    9_223_372_020,
    "9223372010000"
)]
#[case::the_largest(Some(i64::MAX), 9_223_372_020, "9223372010000")]
fn fix_115_any_deadline_gives_a_valid_job(#[case] minutes: Option<i64>, #[case] seconds: i64, #[case] millis: &str) {
    let mut objects = Objects::bare();
    objects.station.spec.deadline_minutes = minutes;
    assert_eq!(objects.build().unwrap().spec.unwrap().active_deadline_seconds, Some(seconds));
    assert_eq!(objects.agent_env().value("AGENT_DEADLINE_MS"), millis);
}

#[test]
fn case_19_and_fix_115_a_name_of_253_dotted_characters_gives_valid_names() {
    let mut objects = Objects::bare();
    let name = format!("{}a", "a.".repeat(126));
    objects.agent.metadata.name = Some(name.clone());
    objects.agent.spec.station_ref = name.clone();
    let job = objects.build().unwrap();
    let labels = job.metadata.labels.unwrap();
    let texts = [job.metadata.name.as_deref(), labels.get("agents.re-cinq.com/agent").map(String::as_str)];
    for text in texts.into_iter().flatten().chain([labels["agents.re-cinq.com/station"].as_str()]) {
        assert!(text.len() <= 63 && text.ends_with(|c: char| c.is_ascii_alphanumeric()), "{text}");
    }
    let env = objects.agent_env();
    assert_eq!((env.value("AGENT_NAME"), env.value("STATION_NAME")), (name.as_str(), name.as_str()));
}

#[test]
fn case_27_the_agents_model_decides_the_vendor() {
    let mut objects = Objects::full();
    objects.agent.spec.model = "exec".to_owned();
    assert_eq!(
        objects.build().unwrap_err().failure_reason(),
        "invalid run: exec recipe needs tool_config.command (the argv to spawn)"
    );
    let mut objects = Objects::bare();
    objects.agent.spec.model = "claude-haiku".to_owned();
    assert_eq!(objects.argv()[..1], ["claude"]);
    assert_eq!(objects.agent_env().value("AGENT_MODEL"), "claude-haiku");
}

#[rstest]
#[case("gpt-5.5", "codex")]
#[case("gemini-3-pro", "gemini")]
#[case("opencode/a/b", "opencode")]
fn each_vendor_has_a_job_that_starts_its_cli(#[case] model: &str, #[case] program: &str) {
    let mut objects = Objects::full();
    objects.agent.spec.model = model.to_owned();
    let argv = objects.argv();
    assert_eq!(argv[0], program);
    assert_eq!(argv.iter().filter(|word| word.contains("Fix It costs $$5")).count(), 1);
    assert_eq!(objects.agent_env().value("AGENT_MODEL"), model);
}

#[test]
fn a_run_without_a_model_says_which_one_it_has() {
    assert_eq!(Objects::full().agent_env().value("AGENT_MODEL"), "claude-opus-5-5");
}

#[test]
fn an_agent_that_no_api_server_has_named_gives_no_job() {
    let mut objects = Objects::bare();
    objects.agent.metadata.uid = None;
    assert_eq!(objects.build(), Err(BuildError::AgentUnnamed));
}

#[test]
fn fix_114_a_misspelt_selector_reaches_the_supervisor_as_it_is() {
    let objects = Objects::bare()
        .recipe("{model: exec, prompt: p, tool_config: {command: [echo]}, output: {select: [{event: tool_cal}]}}");
    assert_eq!(objects.agent_env().value("AGENT_SELECT"), r#"[{"event":"tool_cal"}]"#);
}

#[test]
fn a_command_with_shell_references_keeps_them() {
    let mut objects = Objects::bare();
    objects.definition.spec.tool_config = Some(yaml("command: [sh, -c, 'echo $HOME $0']"));
    assert_eq!(expanded(&objects.argv()[2]), "echo $HOME $0");
}
