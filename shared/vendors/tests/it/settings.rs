use rstest::rstest;
use serde_json::{Value, json};
use signalbox_types::McpServer;
use signalbox_vendors::{
    codex::complete_config,
    gemini::{BYPASS_POLICY, BYPASS_POLICY_PATH, EXPERIMENTS, complete_settings},
};
use toml_edit::DocumentMut;

#[test]
fn codex_without_settings_gets_those_of_a_pod() {
    let expected = "[analytics]\nenabled = false\n\n[features]\nplugins = false\n";
    assert_eq!(complete_config("", None).unwrap(), expected);
    assert_eq!(complete_config("", Some("")).unwrap(), expected);
}

#[test]
fn the_address_of_codex_is_above_the_tables() {
    let config = complete_config("[tui]\nx = 1\n", Some("http://vendor.example/v1?a=\"b\"")).unwrap();
    let read: DocumentMut = config.parse().unwrap();
    assert_eq!(read["openai_base_url"].as_str(), Some("http://vendor.example/v1?a=\"b\""));
    assert_eq!(read["tui"]["x"].as_integer(), Some(1));
    assert_eq!(read["analytics"]["enabled"].as_bool(), Some(false));
}

#[test]
fn what_is_in_the_settings_of_codex_stays_and_wins() {
    let config = r#"# Ours.
openai_base_url = "http://mine.example/v1" # not the recipe's

[analytics]
enabled = true

[features]
web_search = true # kept
"#;
    let completed = complete_config(config, Some("http://vendor.example/v1")).unwrap();
    assert_eq!(completed, format!("{config}plugins = false\n"));
    assert_eq!(complete_config(&completed, Some("http://vendor.example/v1")).unwrap(), completed, "and again");
}

#[rstest]
#[case::inline("features = { plugins = true }\n")]
#[case::dotted("features.plugins = true\n")]
#[case::no_table("features = 7\n")]
fn a_key_of_codex_wins_however_it_is_written(#[case] features: &str) {
    let config = complete_config(features, None).unwrap();
    assert!(config.starts_with(features), "{config}");
    assert_eq!(config.matches("plugins").count(), features.matches("plugins").count());
    config.parse::<DocumentMut>().unwrap();
}

#[rstest]
#[case("a = \n")]
#[case("key = 'sk-secret\n")]
#[case("a = 1\na = 'sk-secret'\n")]
#[case("{\"json\": \"sk-secret\"}")]
fn settings_of_codex_that_are_no_toml_are_refused_without_their_text(#[case] config: &str) {
    let error = complete_config(config, None).unwrap_err().to_string();
    assert!(error.starts_with("config.toml is not TOML: ") && !error.contains("sk-secret"), "{error}");
}

fn servers(list: Value) -> Vec<McpServer> {
    serde_json::from_value(list).unwrap()
}

#[test]
fn fix_0_11_2_mcp_servers_reach_the_settings_of_gemini() {
    let servers = servers(json!([
        { "name": "a", "transport": "http", "url": "u", "headers_secret": "tools-mcp-auth" },
        { "name": "b", "transport": "sse", "url": "v" },
        { "name": "c", "transport": "stdio", "command": "serve", "args": ["--port", "1"] },
        { "name": "d", "transport": "stdio", "command": "serve", "headers_secret": "k" },
    ]));
    assert_eq!(
        complete_settings(Value::Null, &servers, None),
        json!({
            "mcpServers": {
                "a": { "httpUrl": "u", "headers": { "Authorization": "${TOOLS_MCP_AUTH}" } },
                "b": { "url": "v" },
                "c": { "command": "serve", "args": ["--port", "1"] },
                "d": { "command": "serve" },
            },
            "privacy": { "usageStatisticsEnabled": false },
        })
    );
}

#[test]
fn what_is_in_the_settings_of_gemini_stays_and_wins() {
    let settings = json!({
        "theme": "dark",
        "privacy": { "usageStatisticsEnabled": true },
        "security": { "auth": { "selectedType": "vertex-ai" }, "folderTrust": { "enabled": true } },
    });
    assert_eq!(complete_settings(settings.clone(), &[], Some("http://vendor.example")), settings);
}

#[test]
fn a_server_of_the_recipe_replaces_its_namesake_and_leaves_the_others() {
    let settings = json!({ "mcpServers": { "a": { "url": "old", "trust": true }, "b": { "url": "kept" } } });
    let servers = servers(json!([{ "name": "a", "transport": "http", "url": "new" }]));
    assert_eq!(
        complete_settings(settings, &servers, None)["mcpServers"],
        json!({ "a": { "httpUrl": "new" }, "b": { "url": "kept" } })
    );
}

#[rstest]
#[case::no_address(None, false)]
#[case::an_empty_one(Some(""), false)]
#[case::an_address(Some("http://vendor.example"), true)]
fn gemini_signs_in_by_key_where_the_recipe_sets_an_address(#[case] address: Option<&str>, #[case] by_key: bool) {
    let settings = complete_settings(json!({}), &[], address);
    let expected = by_key.then_some(json!({ "auth": { "selectedType": "gemini-api-key" } }));
    assert_eq!(settings.get("security"), expected.as_ref());
    assert_eq!(settings["privacy"]["usageStatisticsEnabled"], false);
}

#[rstest]
#[case(json!({ "privacy": "none", "security": { "auth": [] }, "mcpServers": 7 }))]
#[case(json!({ "privacy": null, "security": true, "mcpServers": [] }))]
fn settings_of_gemini_of_another_shape_are_left_alone(#[case] settings: Value) {
    let servers = servers(json!([{ "name": "a", "transport": "http", "url": "u" }]));
    assert_eq!(complete_settings(settings.clone(), &servers, Some("http://vendor.example")), settings);
}

#[test]
fn a_bypass_run_of_gemini_may_use_every_tool_and_asks_no_one() {
    let policy: DocumentMut = BYPASS_POLICY.parse().unwrap();
    let rules: Vec<_> = policy["rule"].as_array_of_tables().unwrap().iter().collect();
    let rule = |tool: &str| rules.iter().find(|rule| rule["toolName"].as_str() == Some(tool)).unwrap();
    assert_eq!(rule("*")["decision"].as_str(), Some("allow"));
    assert_eq!(rule("ask_user")["decision"].as_str(), Some("deny"));
    let priority = |tool: &str| rule(tool)["priority"].as_integer().unwrap();
    assert!(priority("ask_user") > priority("*") && priority("ask_user") <= 999);
    assert_eq!(rules.len(), 2);
    assert_eq!(BYPASS_POLICY_PATH, "/agent/.gemini/policies/bypass.toml");
}

#[test]
fn gemini_is_told_of_no_experiments() {
    let experiments: Value = serde_json::from_str(EXPERIMENTS).unwrap();
    assert_eq!(experiments, json!({ "flags": [], "experimentIds": [] }));
}
