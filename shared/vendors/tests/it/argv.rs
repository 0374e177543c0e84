use std::ffi::OsString;

use rstest::rstest;
use signalbox_types::AgentDefinitionSpec;
use signalbox_vendors::{ArgvError, Invocation, Vendor, argv, without_resume};

fn run(model: &str, prompt: &str, recipe: &str) -> Result<Vec<String>, ArgvError> {
    let definition: AgentDefinitionSpec = serde_saphyr::from_str(recipe).unwrap();
    argv(&Invocation { vendor: Vendor::route(model), model, prompt, definition: &definition })
}

fn line(model: &str, prompt: &str, recipe: &str) -> String {
    run(model, prompt, recipe).unwrap().join(" ")
}

const HEAD: &str = "claude --print --verbose --output-format stream-json --model claude-opus-5-5";
const SETTINGS: &str = "--settings /agent/.claude/settings.json";

#[test]
fn a_bare_recipe_runs_the_default_model() {
    assert_eq!(line("", "do it", "prompt: ignored here"), format!("{HEAD} {SETTINGS} -- do it"));
}

#[test]
fn a_full_recipe_has_its_options_in_the_order_of_the_contract() {
    let recipe = "
        allowed_tools: [Read, 'Bash(git *)']
        disallowed_tools: [WebFetch]
        max_turns: 7
        resources:
          mcp_servers: [{name: tools, transport: stdio, command: serve}]
        ";
    assert_eq!(
        line("claude-opus-5-5", "p", recipe),
        format!(
            "{HEAD} --allowedTools Read --allowedTools Bash(git *) --disallowedTools WebFetch --mcp-config \
             {{\"mcpServers\":{{\"tools\":{{\"command\":\"serve\",\"type\":\"stdio\"}}}}}} --strict-mcp-config \
             {SETTINGS} --max-turns 7 -- p"
        )
    );
}

#[test]
fn fix_0_7_0_disallowed_tools_hold_under_bypass() {
    let recipe = "{permission_mode: bypass, allowed_tools: [Read], disallowed_tools: [Bash, WebFetch]}";
    let expected = "--dangerously-skip-permissions --disallowedTools Bash --disallowedTools WebFetch";
    assert_eq!(line("", "p", recipe), format!("{HEAD} {expected} {SETTINGS} -- p"));
}

#[test]
fn a_misspelt_permission_mode_is_auto_and_never_bypass() {
    assert!(!line("", "p", "permission_mode: byPass").contains("--dangerously-skip-permissions"));
}

#[rstest]
#[case("--help")]
#[case("-m")]
#[case("")]
#[case("-- resume")]
fn case_15_16_and_fix_136_a_prompt_is_data_after_the_dashes(
    #[case] prompt: &str,
    #[values("claude-opus-5-5", "gpt-5.5", "opencode/a/b")] model: &str,
    #[values("{}", "resources: {conversation: {id: a}}")] recipe: &str,
) {
    let argv = run(model, prompt, recipe).unwrap();
    assert_eq!(argv[argv.len() - 2..], ["--", prompt]);
    assert_eq!(argv.iter().position(|word| word == "--"), Some(argv.len() - 2));
}

#[rstest]
#[case("--help")]
#[case("-")]
#[case("")]
fn fix_136_a_prompt_of_gemini_is_in_one_word_with_its_option(#[case] prompt: &str) {
    let argv = run("gemini-3.1-flash-lite", prompt, "resources: {conversation: {id: a}}").unwrap();
    assert_eq!(argv[1], format!("--prompt={prompt}"));
    assert!(!argv[2..].iter().any(|word| word == prompt));
}

#[rstest]
#[case("gpt-5.5", "-\n")]
#[case("claude-opus-5-5", "-")]
#[case("opencode", "-")]
fn a_dash_alone_is_no_prompt_from_standard_input(#[case] model: &str, #[case] last: &str) {
    assert_eq!(run(model, "-", "{}").unwrap().pop().unwrap(), last);
    let resumed = run(model, "-", "resources: {conversation: {id: a}}").unwrap();
    assert_eq!(resumed.last().unwrap(), last);
}

const CODEX_ALWAYS: &str = "--skip-git-repo-check --dangerously-bypass-approvals-and-sandbox";

#[rstest]
#[case("gpt-5.5", "{}", "codex exec --json --model gpt-5.5")]
#[case("gpt-5.5", "permission_mode: bypass", "codex exec --json --model gpt-5.5")]
#[case("O3-mini", "{allowed_tools: [a], disallowed_tools: [b], max_turns: 3}", "codex exec --json --model O3-mini")]
#[case("codex", "{}", "codex exec --json")]
#[case("my-codex", "{}", "codex exec --json --model my-codex")]
#[case("gpt-5.5", "resources: {conversation: {id: A, pin: B}}", "codex exec resume A --json --model gpt-5.5")]
fn codex_is_never_in_its_own_sandbox(#[case] model: &str, #[case] recipe: &str, #[case] head: &str) {
    assert_eq!(line(model, "do it", recipe), format!("{head} {CODEX_ALWAYS} -- do it"));
}

const GEMINI_ALWAYS: &str = "--skip-trust --include-directories /workspace";

#[rstest]
#[case("{}", "")]
#[case("permission_mode: bypass", " --yolo")]
#[case("permission_mode: byPass", "")]
#[case("resources: {conversation: {id: A}}", " --resume A")]
#[case("{permission_mode: bypass, resources: {conversation: {id: A, pin: B}}}", " --yolo --resume A")]
fn fix_0_10_10_gemini_starts_in_an_untrusted_workspace(#[case] recipe: &str, #[case] options: &str) {
    let expected =
        format!("gemini --prompt=do it --output-format stream-json --model gemini-3-pro {GEMINI_ALWAYS}{options}");
    assert_eq!(line("gemini-3-pro", "do it", recipe), expected);
}

#[rstest]
#[case("gemini")]
#[case("Gemini")]
fn fix_0_10_11_a_model_less_gemini_recipe_uses_a_live_model(#[case] model: &str) {
    let argv = run(model, "p", "{}").unwrap();
    let at = argv.iter().position(|word| word == "--model").unwrap();
    assert_eq!(argv[at + 1], "gemini-3.1-flash-lite");
}

#[rstest]
#[case("opencode", "{}", "")]
#[case("OpenCode", "{}", "")]
#[case("opencode/", "{}", "")]
#[case("opencode/fake/m1", "{}", " --model fake/m1")]
#[case("OpenCode/fake/m1", "{}", " --model fake/m1")]
#[case("opencode/gpt-5-codex", "permission_mode: bypass", " --model gpt-5-codex")]
#[case("zen-opencode/m", "{}", " --model zen-opencode/m")]
#[case("opencode", "resources: {conversation: {id: ses_1, pin: B}}", " --session ses_1")]
fn opencode_gets_the_model_without_the_prefix_that_chose_it(
    #[case] model: &str,
    #[case] recipe: &str,
    #[case] options: &str,
) {
    assert_eq!(line(model, "do it", recipe), format!("opencode run --format json{options} -- do it"));
}

#[rstest]
#[case("gpt-5.5")]
#[case("gemini")]
#[case("opencode")]
fn mcp_servers_are_on_the_command_line_of_claude_alone(#[case] model: &str) {
    let recipe = "resources: {mcp_servers: [{name: tools, transport: stdio, command: serve}]}";
    assert!(!line(model, "p", recipe).contains("serve"));
}

#[rstest]
#[case("{id: a}", "--resume a --")]
#[case("{pin: b}", "--session-id b --")]
#[case("{id: a, pin: b}", "--resume a --fork-session --session-id b --")]
fn fix_0_10_1_resume_plus_pin_forks_and_a_pin_alone_does_not(#[case] conversation: &str, #[case] options: &str) {
    let argv = line("", "p", &format!("resources: {{conversation: {conversation}}}"));
    assert_eq!(argv, format!("{HEAD} {SETTINGS} {options} p"));
}

#[rstest]
#[case("{name: a, transport: http, url: 'u'}", r#"{"type":"http","url":"u"}"#)]
#[case("{name: a, transport: sse, url: 'u'}", r#"{"type":"sse","url":"u"}"#)]
#[case(
    "{name: a, transport: http, url: 'u', headers_secret: tools-mcp-auth}",
    r#"{"headers":{"Authorization":"${TOOLS_MCP_AUTH}"},"type":"http","url":"u"}"#
)]
#[case(
    "{name: a, transport: stdio, command: c, args: [--port, '1']}",
    r#"{"args":["--port","1"],"command":"c","type":"stdio"}"#
)]
#[case("{name: a, transport: stdio, command: c, headers_secret: k}", r#"{"command":"c","type":"stdio"}"#)]
fn an_mcp_server_names_its_secret_and_never_holds_it(#[case] server: &str, #[case] expected: &str) {
    let argv = run("", "p", &format!("resources: {{mcp_servers: [{server}]}}")).unwrap();
    let at = argv.iter().position(|word| word == "--mcp-config").unwrap();
    assert_eq!(argv[at + 1], format!(r#"{{"mcpServers":{{"a":{expected}}}}}"#));
}

#[test]
fn a_command_gets_the_prompt_as_its_last_argument() {
    let recipe = "tool_config: {command: [sh, -c, 'echo \"$0\"'], other: 1}";
    assert_eq!(run("exec", "--help", recipe).unwrap(), ["sh", "-c", "echo \"$0\"", "--help"]);
}

#[rstest]
#[case("{}", ArgvError::CommandMissing)]
#[case("{tool_config: {}}", ArgvError::CommandMissing)]
#[case("{tool_config: {command: null}}", ArgvError::CommandMissing)]
#[case("{tool_config: {command: []}}", ArgvError::CommandNotAList)]
#[case("{tool_config: {command: 'sh -c true'}}", ArgvError::CommandNotAList)]
#[case("{tool_config: {command: [sleep, 1]}}", ArgvError::CommandEntryNotAString)]
fn a_command_that_cannot_be_spawned_is_refused(#[case] recipe: &str, #[case] error: ArgvError) {
    assert_eq!(run("exec", "p", recipe), Err(error));
}

#[test]
fn the_refusals_have_the_texts_of_the_contract() {
    let texts = [ArgvError::CommandMissing, ArgvError::CommandNotAList, ArgvError::CommandEntryNotAString]
        .map(|error| error.to_string());
    assert_eq!(
        texts,
        [
            "exec recipe needs tool_config.command (the argv to spawn)",
            "exec recipe tool_config.command must be a non-empty array of strings",
            "exec recipe tool_config.command entries must be strings",
        ]
    );
}

#[rstest]
#[case("claude-opus-5-5")]
#[case("gpt-5.5")]
#[case("gemini-3.1-flash-lite")]
#[case("opencode/x")]
fn case_84_without_its_session_a_run_is_the_same_as_one_that_never_had_one(#[case] model: &str) {
    let mut definition = AgentDefinitionSpec::default();
    let argv_of = |definition: &AgentDefinitionSpec| -> Vec<OsString> {
        let prompt = "resume --resume x --session y --fork-session";
        let invocation = Invocation { vendor: Vendor::route(model), model, prompt, definition };
        argv(&invocation).unwrap().into_iter().map(OsString::from).collect()
    };
    let fresh = argv_of(&definition);
    definition.resources.conversation.id = "11111111-2222-4333-8444-555555555555".to_owned();
    let mut resumed = argv_of(&definition);
    assert_ne!(resumed, fresh);
    without_resume(Vendor::route(model), &mut resumed);
    assert_eq!(resumed, fresh);
    without_resume(Vendor::route(model), &mut resumed);
    assert_eq!(resumed, fresh, "nothing more is taken out");
}

#[test]
fn case_84_a_pinned_run_without_its_session_begins_the_pinned_one() {
    let mut definition = AgentDefinitionSpec::default();
    definition.resources.conversation.id = "11111111-2222-4333-8444-555555555555".to_owned();
    definition.resources.conversation.pin = "21111111-2222-4333-8444-555555555555".to_owned();
    let invocation = Invocation { vendor: Vendor::Claude, model: "", prompt: "p", definition: &definition };
    let mut words: Vec<OsString> = argv(&invocation).unwrap().into_iter().map(OsString::from).collect();
    without_resume(Vendor::Claude, &mut words);
    let has = |word: &str| words.iter().any(|held| held == word);
    assert!(has("--session-id") && !has("--fork-session") && !has("--resume"), "{words:?}");
}
