use rstest::rstest;
use signalbox_types::AgentDefinitionSpec;
use signalbox_vendors::{ArgvError, Invocation, Vendor, argv};

fn run(model: &str, prompt: &str, recipe: &str) -> Result<Vec<String>, ArgvError> {
    let definition: AgentDefinitionSpec = serde_saphyr::from_str(recipe).unwrap();
    argv(&Invocation { vendor: Vendor::route(model), model, prompt, definition: &definition })
}

fn claude(model: &str, prompt: &str, recipe: &str) -> String {
    run(model, prompt, recipe).unwrap().join(" ")
}

const HEAD: &str = "claude --print --verbose --output-format stream-json --model claude-opus-5-5";
const SETTINGS: &str = "--settings /agent/.claude/settings.json";

#[test]
fn a_bare_recipe_runs_the_default_model() {
    assert_eq!(claude("", "do it", "prompt: ignored here"), format!("{HEAD} {SETTINGS} -- do it"));
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
        claude("claude-opus-5-5", "p", recipe),
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
    assert_eq!(claude("", "p", recipe), format!("{HEAD} {expected} {SETTINGS} -- p"));
}

#[test]
fn a_misspelt_permission_mode_is_auto_and_never_bypass() {
    assert!(!claude("", "p", "permission_mode: byPass").contains("--dangerously-skip-permissions"));
}

#[rstest]
#[case("--help")]
#[case("")]
#[case("-")]
fn case_15_and_fix_137_a_prompt_is_data_after_the_dashes(#[case] prompt: &str) {
    let argv = run("", prompt, "{}").unwrap();
    assert_eq!(argv[argv.len() - 2..], ["--", prompt]);
}

#[rstest]
#[case("{id: a}", "--resume a --")]
#[case("{pin: b}", "--session-id b --")]
#[case("{id: a, pin: b}", "--resume a --fork-session --session-id b --")]
fn fix_0_10_1_resume_plus_pin_forks_and_a_pin_alone_does_not(#[case] conversation: &str, #[case] options: &str) {
    let argv = claude("", "p", &format!("resources: {{conversation: {conversation}}}"));
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
