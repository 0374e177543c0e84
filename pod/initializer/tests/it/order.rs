//! A recipe that asks for everything: the order of the steps, and whom all of it belongs to in the end.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    init::Init,
    server::GitServer,
    web::{Web, archive},
};

fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    if fs::symlink_metadata(folder).unwrap().is_dir() {
        found.extend(fs::read_dir(folder).unwrap().flat_map(|entry| all_below(&entry.unwrap().path())));
    }
    found
}

#[test]
fn fix_0_6_0_the_tools_run_in_order_and_home_and_workspace_belong_to_uid_1000() {
    let (server, web) = (GitServer::start(), Web::start());
    web.put("/a", "input");
    web.put("/r/settings.json", "{}");
    web.put("/r/hooks/gemini.tar.gz", archive(&[(".gemini/settings.json", r#"{"theme":"dark"}"#)]));
    web.put("/r/review.tar.gz", archive(&[("review/SKILL.md", "")]));
    web.put("/store/x", archive(&[(".gemini/tmp/s.json", "{}")]));
    web.put(
        "/registry.npmjs.org/@google/gemini-cli/-/gemini-cli-0.61.0.tgz",
        archive(&[("package/bundle/gemini.js", "")]),
    );
    let mut init = Init::new()
        .env("AGENT_MODEL", "gemini-3.1-flash-lite")
        .env("AGENT_PERMISSION_MODE", "bypass")
        .env("AGENT_FILES", &json!([{"path": "app/input", "url": web.at("/a")}]).to_string())
        .env("AGENT_SKILLS", r#"["review"]"#)
        .env("AGENT_SKILLS_SOURCE", &web.at("/r"))
        .env("AGENT_CONVERSATION_SOURCE", &web.at("/store"))
        .env("AGENT_CONVERSATION_ID", "x")
        .env("AGENT_MCP_SERVERS", r#"[{"name":"t","transport":"stdio","command":"c"}]"#)
        .arg("--installer-base", web.at(""))
        .repos(&json!([{"name": "app", "url": format!("{}/public/app.git", server.url)}]));
    let ended = init.run();
    ended.assert_succeeded();
    let said = ended.events.iter().map(|event| {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("status"), text("tool"))
    });
    let expected = [
        "started ",
        "running supervisor",
        "running git",
        "running files",
        "running gemini",
        "installed gemini",
        "running skills",
        "running hooks",
        "running conversation",
        "running mcp",
        "succeeded ",
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);

    let settings: Value =
        serde_json::from_str(&fs::read_to_string(init.home().join(".gemini/settings.json")).unwrap()).unwrap();
    assert_eq!((&settings["theme"], &settings["mcpServers"]["t"]["command"]), (&json!("dark"), &json!("c")));
    assert_eq!(settings["privacy"]["usageStatisticsEnabled"], false);
    for path in [".gemini/experiments.json", ".gemini/policies/bypass.toml", ".gemini/tmp/s.json"] {
        assert!(init.home().join(path).exists(), "{path}");
    }
    // Nothing is left half-way.
    let all = [all_below(&init.home()), all_below(&init.workspace())].concat();
    assert!(all.iter().all(|path| !path.to_string_lossy().contains("partial")), "{all:?}");
    let own = fs::metadata(init.beside("staged")).unwrap().uid();
    let expected = if own == 0 { 1000 } else { own };
    for path in all {
        let found = fs::symlink_metadata(&path).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o6000), (expected, 0), "{}", path.display());
    }
}

#[test]
fn the_policy_of_an_earlier_attempt_is_gone_before_an_auto_run() {
    let web = Web::start();
    let mut init = Init::new().env("AGENT_MODEL", "gemini").arg("--installer-base", web.at(""));
    let policy = init.home().join(".gemini/policies/bypass.toml");
    fs::create_dir_all(policy.parent().unwrap()).unwrap();
    fs::write(&policy, "[[rule]]").unwrap();
    init.run().assert_succeeded();
    assert!(!policy.exists());
}

#[test]
fn codex_finds_its_settings() {
    let mut init = Init::new().env("AGENT_MODEL", "gpt-5.5").env("OPENAI_BASE_URL", "http://h/v1");
    init.run().assert_succeeded();
    let config = fs::read_to_string(init.home().join(".codex/config.toml")).unwrap();
    for part in ["[analytics]\nenabled = false", "plugins = false", "openai_base_url = \"http://h/v1\""] {
        assert!(config.contains(part), "{config}");
    }
}

#[test]
fn settings_that_cannot_be_completed_fail_the_run_without_being_told() {
    let mut init = Init::new().env("AGENT_MODEL", "gpt-5.5");
    fs::create_dir(init.home().join(".codex")).unwrap();
    fs::write(init.home().join(".codex/config.toml"), "s3cret = =").unwrap();
    let ended = init.run();
    ended.assert_failed(1, &json!({"tool": "settings"}));
    assert!(!ended.log.contains("s3cret"), "{}", ended.log);
}
