//! The conversation that a run goes on with.

use std::{fs, path::PathBuf};

use rstest::rstest;
use serde_json::json;
use tar::EntryType;
use wiremock::ResponseTemplate;

use crate::{
    init::Init,
    web::{Web, archive, hostile},
};

const ID: &str = "7d0c3f0e-5a8b-4c55-9b1e-2f6a1c9d4e10";

fn resuming(web: &Web, model: &str) -> Init {
    Init::new()
        .env("AGENT_MODEL", model)
        .env("AGENT_CONVERSATION_SOURCE", &web.at("/store"))
        .env("AGENT_CONVERSATION_ID", ID)
}

fn at() -> String {
    format!("/store/{ID}")
}

fn transcript(init: &Init) -> PathBuf {
    init.home().join(".claude/projects/-/s.jsonl")
}

#[test]
fn a_conversation_is_restored_below_the_home() {
    let web = Web::start();
    web.put(&at(), archive(&[(".claude/projects/-/s.jsonl", "line")]));
    let mut init = resuming(&web, "claude");
    let ended = init.run();
    ended.assert_succeeded();
    assert_eq!(ended.tools(), ["supervisor", "claude", "skills", "conversation"]);
    assert_eq!(fs::read_to_string(transcript(&init)).unwrap(), "line");
    assert!(!init.home().join(".fresh-conversation").exists());
}

#[test]
fn case_84_a_conversation_that_is_not_there_begins_with_the_run() {
    let web = Web::start();
    let mut init = resuming(&web, "claude");
    let ended = init.run();
    ended.assert_succeeded();
    assert!(init.home().join(".fresh-conversation").exists(), "the supervisor starts the CLI without the session");
    assert_eq!(web.paths(), [at()]);
    assert!(ended.log.contains("begins with this run"), "{}", ended.log);
}

#[rstest]
#[case::refused(ResponseTemplate::new(401))]
#[case::no_archive(ResponseTemplate::new(200).set_body_string("hello"))]
fn a_store_that_fails_does_not_fail_the_run(#[case] answer: ResponseTemplate) {
    let web = Web::start();
    web.answer(&at(), answer);
    let ended = resuming(&web, "claude").run();
    ended.assert_succeeded();
    assert!(ended.log.contains("going on without conversation"), "{}", ended.log);
}

#[test]
fn fix_0_10_3_a_credential_whose_secret_key_has_dashes_reaches_the_restore_step() {
    let web = Web::start();
    web.put(&at(), archive(&[(".claude/projects/-/s.jsonl", "line")]));
    let mut init = resuming(&web, "claude")
        .env("AGENT_CONVERSATION_AUTH", "conversation-store-auth")
        .env("conversation-store-auth", "Authorization: Bearer s3cret");
    let ended = init.run();
    ended.assert_succeeded();
    assert_eq!(web.seen("authorization"), ["Bearer s3cret"]);
    assert!(transcript(&init).exists() && !ended.log.contains("s3cret"), "{}", ended.log);
}

#[test]
fn fix_0_10_2_the_credential_header_is_sent_once_as_a_whole_line() {
    let web = Web::start();
    let mut init =
        resuming(&web, "claude").env("AGENT_CONVERSATION_AUTH", "AUTH").env("AUTH", "X-Store-Key: one: two, three\n");
    init.run().assert_succeeded();
    assert_eq!(web.seen("x-store-key"), ["one: two, three"]);
    assert!(web.seen("authorization").is_empty());
}

#[test]
fn nothing_but_the_vendor_s_state_is_taken_from_an_archive() {
    let web = Web::start();
    let state = [(".gemini/tmp/p/chats/s.json", "{}"), (".gemini/projects.json", "{}")];
    let other = [(".gemini/policies/bypass.toml", "[[rule]]"), (".local/bin/gemini", "evil"), ("bin/x", "evil")];
    web.put(&at(), archive(&[&state[..], &other[..]].concat()));
    let mut init = resuming(&web, "gemini-3.1").arg("--installer-base", web.at("/none"));
    init.run().assert_succeeded();
    for (path, _) in state {
        assert!(init.home().join(path).exists(), "{path}");
    }
    for (path, _) in other {
        assert!(!init.home().join(path).exists(), "{path}");
    }
}

#[rstest]
#[case(EntryType::Regular, "../evil")]
#[case(EntryType::Fifo, ".claude/projects/evil")]
fn a_hostile_archive_is_refused_with_its_member_s_name(#[case] kind: EntryType, #[case] name: &str) {
    let web = Web::start();
    web.put(&at(), hostile(kind, name));
    let mut init = resuming(&web, "claude");
    let ended = init.run();
    ended.assert_succeeded();
    assert!(ended.log.contains(&format!("member {name:?}")), "{}", ended.log);
    assert!(!init.home().join("harmless").exists());
}

#[rstest]
#[case::absent(None, "404")]
#[case::hostile(Some(hostile(EntryType::Regular, "../evil")), "\\\"../evil\\\"")]
#[case::nothing_of_it(Some(archive(&[("other", "")])), "nothing of this vendor's")]
fn case_117_a_session_that_cannot_be_resumed_fails_the_run(#[case] body: Option<Vec<u8>>, #[case] why: &str) {
    let web = Web::start();
    if let Some(body) = body {
        web.put(&at(), body);
    }
    let ended = resuming(&web, "claude").env("AGENT_EXECUTION", "realtime").run();
    assert_eq!((ended.code, &ended.last()["tool"]), (1, &json!("conversation")), "{}", ended.log);
    assert_eq!((&ended.last()["status"], &ended.last()["exitCode"]), (&json!("failed"), &json!(1)));
    assert!(ended.last()["reason"].to_string().contains(why), "{:?}", ended.last());
}

#[test]
fn a_recipe_s_own_command_has_no_conversation() {
    let web = Web::start();
    resuming(&web, "exec").run().assert_succeeded();
    assert!(web.requests().is_empty());
}
