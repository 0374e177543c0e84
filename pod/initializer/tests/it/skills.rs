//! Skills and hooks: best effort, whatever their registry does.

use std::fs;

use rstest::rstest;
use tar::EntryType;
use wiremock::ResponseTemplate;

use crate::{
    init::Init,
    web::{Web, archive, hostile},
};

fn claude() -> Init {
    Init::new().env("AGENT_MODEL", "claude-opus-5-5")
}

#[test]
fn skills_settings_and_hooks_come_from_the_registry() {
    let web = Web::start();
    web.put("/r/settings.json", r#"{"from":"registry"}"#);
    web.put("/r/review.tar.gz", archive(&[("review/SKILL.md", "how to review")]));
    web.put("/r/hooks/claude.tar.gz", archive(&[(".claude/hooks/stop", "#!/bin/sh")]));
    let mut init = claude().env("AGENT_SKILLS", r#"["review","../evil"]"#).env("AGENT_SKILLS_SOURCE", &web.at("/r/"));
    let ended = init.run();
    ended.assert_succeeded();
    assert_eq!(ended.tools(), ["supervisor", "claude", "skills", "hooks"]);
    let read = |path: &str| fs::read_to_string(init.home().join(".claude").join(path)).unwrap();
    assert_eq!(read("skills/review/SKILL.md"), "how to review");
    assert_eq!(read("settings.json"), r#"{"from":"registry"}"#);
    assert_eq!(read("hooks/stop"), "#!/bin/sh");
    assert_eq!(web.paths(), ["/r/settings.json", "/r/review.tar.gz", "/r/hooks/claude.tar.gz"]);
}

#[test]
fn fix_0_10_14_the_settings_of_a_claude_hook_bundle_win_over_the_flat_file() {
    let web = Web::start();
    web.put("/settings.json", r#"{"from":"flat"}"#);
    web.put("/hooks/claude.tar.gz", archive(&[(".claude/settings.json", r#"{"from":"hooks"}"#)]));
    let mut init = claude().env("AGENT_SKILLS_SOURCE", &web.at(""));
    init.run().assert_succeeded();
    assert_eq!(fs::read_to_string(init.home().join(".claude/settings.json")).unwrap(), r#"{"from":"hooks"}"#);
}

#[test]
fn case_83_a_registry_that_is_down_lets_the_run_start_without_skills() {
    let mut init = claude()
        .env("AGENT_SKILLS", r#"["a","b","c"]"#)
        .env("AGENT_SKILLS_SOURCE", "http://user:s3cret@127.0.0.1:1/r?token=s3cret");
    let ended = init.run();
    ended.assert_succeeded();
    assert!(ended.log.contains("going on without settings.json"), "{}", ended.log);
    // It is given up at once, not for each of its things anew.
    assert!(!ended.log.contains("a.tar.gz") && !ended.log.contains("hooks/"), "{}", ended.log);
    assert!(!ended.log.contains("s3cret"), "{}", ended.log);
    assert_eq!(fs::read_to_string(init.home().join(".claude/settings.json")).unwrap(), "{}\n");
}

#[test]
fn case_83_a_registry_that_has_nothing_lets_the_run_start_without_skills() {
    let web = Web::start();
    let mut init = claude().env("AGENT_SKILLS", r#"["a","b"]"#).env("AGENT_SKILLS_SOURCE", &web.at("/r"));
    init.run().assert_succeeded();
    assert_eq!(web.paths(), ["/r/settings.json", "/r/a.tar.gz", "/r/b.tar.gz", "/r/hooks/claude.tar.gz"]);
}

#[test]
fn a_registry_that_fails_is_no_reason_to_leave_out_what_it_has() {
    let web = Web::start();
    web.answer("/a.tar.gz", ResponseTemplate::new(403));
    web.put("/settings.json", "no JSON");
    web.put("/b.tar.gz", archive(&[("b/SKILL.md", "b")]));
    let mut init = claude().env("AGENT_SKILLS", r#"["a","b"]"#).env("AGENT_SKILLS_SOURCE", &web.at(""));
    let ended = init.run();
    ended.assert_succeeded();
    assert!(init.home().join(".claude/skills/b/SKILL.md").exists());
    // A settings file that is none would end the CLI without a word.
    assert_eq!(fs::read_to_string(init.home().join(".claude/settings.json")).unwrap(), "{}\n");
    assert!(ended.log.contains("no JSON object"), "{}", ended.log);
}

#[rstest]
#[case(EntryType::Regular, "../evil")]
#[case(EntryType::Regular, "/tmp/evil")]
#[case(EntryType::Char, "evil")]
fn a_hostile_skill_is_refused_with_its_member_s_name_and_leaves_nothing(#[case] kind: EntryType, #[case] name: &str) {
    let web = Web::start();
    web.put("/a.tar.gz", hostile(kind, name));
    let mut init = claude().env("AGENT_SKILLS", r#"["a"]"#).env("AGENT_SKILLS_SOURCE", &web.at(""));
    let ended = init.run();
    ended.assert_succeeded();
    assert!(ended.log.contains(&format!("member {name:?}")), "{}", ended.log);
    assert_eq!(fs::read_dir(init.home().join(".claude/skills")).unwrap().count(), 0);
}

#[test]
fn the_skills_of_clones_are_there_for_the_agent() {
    let mut init = claude();
    let skill = init.workspace().join("app/.claude/skills/build");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "how to build").unwrap();
    init.run().assert_succeeded();
    let copy = init.home().join(".claude/skills/build/SKILL.md");
    assert_eq!(fs::read_to_string(copy).unwrap(), "how to build");
}
