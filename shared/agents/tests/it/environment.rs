use rstest::rstest;

use crate::support::{Objects, yaml};

fn exec(rest: &str) -> Objects {
    let mut objects = Objects::bare();
    objects.definition.spec = yaml(&format!("model: exec\nprompt: p\ntool_config: {{command: [echo]}}\n{rest}"));
    objects
}

#[test]
fn the_variables_have_the_order_of_the_contract() {
    let mut objects = Objects::full();
    objects.options.traceparent = Some("t".to_owned());
    assert_eq!(
        objects.agent_env().names(),
        [
            "AGENT_SINKS",
            "SINK_AUTH",
            "TOOLS_MCP_AUTH",
            "AGENT_REPOS",
            "AGENT_SKILLS",
            "AGENT_SKILLS_SOURCE",
            "talks-auth",
            "AGENT_CONVERSATION_AUTH",
            "AGENT_CONVERSATION_SOURCE",
            "AGENT_CONVERSATION_ID",
            "AGENT_CONVERSATION_PIN",
            "AGENT_DEADLINE_MS",
            "SHOP_TOKEN",
            "GH_TOKEN",
            "AGENT_SELECT",
            "AGENT_WATCH",
            "UP_AUTH",
            "WORKSPACE_DIR",
            "AGENT_PARAMETERS",
            "TARGET_REPO",
            "BRANCH_NAME",
            "AGENT_MODEL",
            "AGENT_NAME",
            "STATION_NAME",
            "TASK_ID",
            "POD_NAME",
            "POD_NAMESPACE",
            "AGENT_GIT_CREDENTIAL",
            "AGENT_GIT_CREDENTIAL_URL",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
            "TRACEPARENT",
            "LOG_LEVEL",
            "GREETING",
            "ANTHROPIC_API_KEY",
            "HOME",
            "PATH",
        ]
    );
}

#[test]
fn the_initializer_alone_gets_the_input_files_their_secrets_and_the_mcp_servers() {
    let objects = Objects::full();
    let (agent, init) = (objects.agent_env(), objects.init_env());
    assert_eq!(init.0[..agent.0.len()], agent.0);
    assert_eq!(
        init.names()[agent.0.len()..],
        ["AGENT_FILES", "FILES_AUTH", "AGENT_MCP_SERVERS", "AGENT_PERMISSION_MODE"]
    );
    assert_eq!(init.secret("FILES_AUTH"), Some("FILES_AUTH"));
}

#[test]
fn a_bare_run_has_only_what_is_always_there() {
    let objects = Objects::bare();
    let env = objects.agent_env();
    let optional = ["AGENT_SELECT", "AGENT_WATCH", "AGENT_PARAMETERS", "TARGET_REPO", "BRANCH_NAME", "GH_TOKEN"];
    assert!(optional.iter().all(|name| !env.has(name)));
    assert_eq!((env.value("AGENT_REPOS"), env.value("AGENT_SKILLS"), env.value("AGENT_SINKS")), ("[]", "[]", "[]"));
    assert_eq!((env.value("HOME"), env.value("WORKSPACE_DIR"), env.value("TASK_ID")), ("/agent", "/workspace", ""));
    assert_eq!(env.value("PATH"), "/agent/.local/bin:/usr/local/bin:/usr/bin:/bin");
}

#[test]
fn case_20_a_recipes_entry_of_a_reserved_name_is_ignored() {
    let objects = exec(
        "resources:
           env: [{name: AGENT_SINKS, value: '[]x'}, {name: HOME, value: /root}, {name: PATH, value: /x}]
           secrets: [{name: AGENT_MODEL, ref: k}, {name: WORKSPACE_DIR, ref: k}]",
    );
    let env = objects.agent_env();
    for (name, value) in
        [("AGENT_SINKS", "[]"), ("HOME", "/agent"), ("AGENT_MODEL", "exec"), ("WORKSPACE_DIR", "/workspace")]
    {
        assert_eq!((env.count(name), env.value(name)), (1, value), "{name}");
    }
}

#[rstest]
#[case("AGENT_NOTIFY_URL")]
#[case("AGENT_EXIT_GRACE_MS")]
#[case("AGENT_SINK_RETRY_ATTEMPTS")]
#[case("AGENT_SINK_RETRY_BASE_MS")]
#[case("AGENT_SINK_RETRY_MAX_MS")]
fn a_recipe_may_tune_the_supervisor(#[case] name: &str) {
    let objects = exec(&format!("resources: {{env: [{{name: {name}, value: '7'}}]}}"));
    assert_eq!(objects.agent_env().value(name), "7");
}

#[rstest]
#[case("AGENT_SINKS")]
#[case("HOME")]
#[case("POD_NAME")]
fn case_21_and_fix_137_a_reserved_header_secret_is_blanked(#[case] name: &str) {
    let mcp_key = name.to_lowercase().replace('_', "-");
    let mut objects = exec("");
    let recipe = &mut objects.definition.spec;
    recipe.resources.conversation = yaml(&format!("{{source: s, headers_secret: {name}}}"));
    recipe.resources.repos = yaml(&format!("[{{name: r, url: u, token_secret: {name}}}]"));
    recipe.resources.mcp_servers = yaml(&format!("[{{name: m, transport: http, url: u, headers_secret: {mcp_key}}}]"));
    recipe.output.sinks = yaml(&format!("[{{type: http, url: u, headers_secret: {name}}}]"));
    recipe.output.watch = yaml(&format!("[{{event: e, path: p, upload: {{url: u, headers_secret: {name}}}}}]"));
    let env = objects.init_env();
    assert!(env.0.iter().all(|variable| env.secret(&variable.name).is_none()));
    assert_eq!(env.value("AGENT_SINKS"), r#"[{"type":"http","url":"u"}]"#);
    assert_eq!(env.value("AGENT_REPOS"), r#"[{"name":"r","url":"u"}]"#);
    assert_eq!(env.value("AGENT_CONVERSATION_AUTH"), "");
    assert_eq!(env.value("AGENT_MCP_SERVERS"), r#"[{"name":"m","transport":"http","url":"u"}]"#);
    assert_eq!(env.value("AGENT_WATCH"), r#"[{"event":"e","path":"p","upload":{"url":"u"}}]"#);
}

#[test]
fn a_reserved_secret_of_an_input_file_is_blanked_too() {
    let mut objects = Objects::bare();
    objects.agent.spec.files = yaml("[{path: a, url: 'https://f.example', headers_secret: AGENT_GIT_CREDENTIAL}]");
    assert_eq!(objects.init_env().value("AGENT_FILES"), r#"[{"path":"a","url":"https://f.example"}]"#);
}

#[test]
fn case_22_two_sinks_with_one_secret_have_one_variable() {
    let env = Objects::full().agent_env();
    assert_eq!((env.count("SINK_AUTH"), env.secret("SINK_AUTH")), (1, Some("SINK_AUTH")));
}

#[test]
fn case_23_every_secret_is_required_so_that_a_run_without_its_credential_never_starts() {
    let objects = Objects::full();
    let env = objects.init_env();
    let secrets = env.0.iter().filter_map(|variable| env.secret(&variable.name)).count();
    assert_eq!(secrets, 8, "and `secret` has asserted `optional: false` of each");
}

#[test]
fn fix_0_5_0_and_0_6_0_a_repo_token_is_a_variable_and_the_first_is_gh_token_too() {
    let env = Objects::full().agent_env();
    assert_eq!((env.secret("SHOP_TOKEN"), env.secret("GH_TOKEN")), (Some("SHOP_TOKEN"), Some("SHOP_TOKEN")));
    assert_eq!(env.count("GH_TOKEN"), 1, "the recipe's own entry comes too late");
}

#[test]
fn a_repo_token_named_gh_token_is_injected_once() {
    let env =
        exec("resources: {repos: [{name: r, url: u, token_secret: A}, {name: s, url: u, token_secret: GH_TOKEN}]}")
            .agent_env();
    assert_eq!((env.count("GH_TOKEN"), env.secret("GH_TOKEN")), (1, Some("GH_TOKEN")));
}

#[test]
fn case_81_a_token_that_cannot_be_a_key_leaves_the_repo_without_one() {
    let env = exec("resources: {repos: [{name: r, url: u, token_secret: 'GH;rm'}]}").agent_env();
    assert!(!env.has("GH;rm") && !env.has("GH_TOKEN"));
}

#[test]
fn a_recipe_that_sets_a_variable_of_its_vendor_keeps_it() {
    let mut objects = Objects::full();
    objects.definition.spec.resources.env = yaml("[{name: CLAUDE_CODE_DISABLE_BACKGROUND_TASKS, value: '0'}]");
    let env = objects.agent_env();
    assert_eq!(env.count("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"), 1);
    assert_eq!(env.value("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"), "0");
    assert_eq!(env.value("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"), "1");
}

fn with_model(model: &str, resources: &str) -> Objects {
    let mut objects = Objects::bare();
    objects.definition.spec = yaml(&format!("model: {model}\nprompt: p\nresources: {resources}"));
    objects
}

#[test]
fn codex_has_the_key_of_the_recipe_under_the_name_that_it_looks_at() {
    let env = with_model("gpt-5.5", "{secrets: [{name: OPENAI_API_KEY, ref: openai-key}]}").agent_env();
    assert_eq!((env.secret("CODEX_API_KEY"), env.secret("OPENAI_API_KEY")), (Some("openai-key"), Some("openai-key")));
}

#[rstest]
#[case::no_key("{}", None)]
#[case::a_literal_key("{env: [{name: OPENAI_API_KEY, value: k}]}", Some("k"))]
#[case::as_written("{env: [{name: OPENAI_API_KEY, value: $(OTHER)-$$}]}", Some("$(OTHER)-$$"))]
#[case::its_own("{env: [{name: OPENAI_API_KEY, value: k}, {name: CODEX_API_KEY, value: own}]}", Some("own"))]
#[case::of_two_the_one_the_pod_gets(
    "{env: [{name: OPENAI_API_KEY, value: k}], secrets: [{name: OPENAI_API_KEY, ref: s}]}",
    Some("k")
)]
fn codex_has_the_literal_key_of_the_recipe_too(#[case] resources: &str, #[case] value: Option<&str>) {
    let env = with_model("gpt-5.5", resources).agent_env();
    assert_eq!(env.has("CODEX_API_KEY").then(|| env.value("CODEX_API_KEY")), value);
}

#[test]
fn the_copy_of_a_key_comes_after_what_it_may_refer_to() {
    let resources = "{env: [{name: OTHER, value: k}, {name: OPENAI_API_KEY, value: $(OTHER)}]}";
    let env = with_model("gpt-5.5", resources).agent_env();
    let at = |name: &str| env.names().iter().position(|held| *held == name).unwrap();
    assert!(at("OTHER") < at("OPENAI_API_KEY") && at("OPENAI_API_KEY") < at("CODEX_API_KEY"));
}

#[test]
fn a_secret_key_of_codex_of_its_own_is_kept() {
    let resources = "{secrets: [{name: OPENAI_API_KEY, ref: a}, {name: CODEX_API_KEY, ref: b}]}";
    let env = with_model("gpt-5.5", resources).agent_env();
    assert_eq!((env.count("CODEX_API_KEY"), env.secret("CODEX_API_KEY")), (1, Some("b")));
}

#[test]
fn the_key_of_codex_is_for_codex_alone() {
    let env = with_model("opencode", "{secrets: [{name: OPENAI_API_KEY, ref: a}]}").agent_env();
    assert!(!env.has("CODEX_API_KEY") && env.has("OPENAI_API_KEY"));
}

#[test]
fn gemini_and_opencode_get_their_variables_unless_the_recipe_sets_them() {
    let env = with_model("gemini", "{env: [{name: GEMINI_CLI_NO_RELAUNCH, value: 'false'}]}").agent_env();
    assert_eq!(env.value("GEMINI_EXP"), "/agent/.gemini/experiments.json");
    assert_eq!((env.count("GEMINI_CLI_NO_RELAUNCH"), env.value("GEMINI_CLI_NO_RELAUNCH")), (1, "false"));
    let env = with_model("opencode", "{}").agent_env();
    assert_eq!(env.value("OPENCODE_DISABLE_MODELS_FETCH"), "1");
    assert!(!env.has("GEMINI_EXP"));
}

#[rstest]
#[case(None, None)]
#[case(Some(10), Some("600000"))]
#[case(Some(0), Some("60000"))]
#[case(Some(i64::MAX), Some("9223372020000"))]
fn a_run_has_a_limit_to_its_silence_only_where_its_station_has_one(
    #[case] minutes: Option<i64>,
    #[case] millis: Option<&str>,
) {
    let mut objects = exec("resources: {env: [{name: AGENT_STALL_MS, value: '1'}]}");
    objects.station.spec.stall_timeout_minutes = minutes;
    let env = objects.agent_env();
    assert_eq!(env.has("AGENT_STALL_MS").then(|| env.value("AGENT_STALL_MS")), millis);
}

#[test]
fn fix_0_10_3_a_secret_whose_key_has_dashes_keeps_its_name() {
    let env = Objects::full().agent_env();
    assert_eq!(env.secret("talks-auth"), Some("talks-auth"));
    assert_eq!(env.value("AGENT_CONVERSATION_AUTH"), "talks-auth");
    assert_eq!(env.secret("TOOLS_MCP_AUTH"), Some("tools-mcp-auth"));
}

#[test]
fn no_variable_is_named_twice() {
    let objects = Objects::full();
    let env = objects.init_env();
    assert!(env.names().into_iter().all(|name| env.count(name) == 1));
}
