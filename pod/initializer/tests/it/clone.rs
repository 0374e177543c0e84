use std::fs;

use rstest::rstest;
use serde_json::json;

use crate::{
    init::{Init, git},
    server::{GitServer, TOKEN},
};

#[test]
fn a_repository_is_there_with_its_whole_history_its_tags_and_its_default_branch() {
    let server = GitServer::start();
    let url = format!("{}/public/app.git", server.url);
    let mut init = Init::new().repos(&json!([{"name": "app", "url": url}]));
    let ended = init.run();
    ended.assert_succeeded();
    assert_eq!(ended.tools(), ["supervisor", "git", "skills"]);

    let clone = init.workspace().join("app");
    let run = |arguments: &[&str]| git(&clone, &[], arguments).unwrap();
    assert_eq!(fs::read_to_string(clone.join("two")).unwrap(), "two");
    assert_eq!(run(&["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(run(&["status", "--porcelain", "--branch"]), "## main...origin/main");
    assert_eq!(run(&["tag"]), "annotated\nv1\nv2");
    assert_eq!(run(&["remote", "get-url", "origin"]), url);
    run(&["fsck", "--strict"]);
    run(&["pull", "-q"]);
}

#[rstest]
#[case::branch("feature/x", "feature", "## feature/x...origin/feature/x")]
#[case::default_branch("main", "two", "## main...origin/main")]
#[case::tag("v1", "one", "## HEAD (no branch)")]
#[case::annotated_tag("annotated", "one", "## HEAD (no branch)")]
#[case::full_name("refs/tags/v1", "one", "## HEAD (no branch)")]
#[case::revision("v2~1", "one", "## HEAD (no branch)")]
fn a_ref_is_a_branch_a_tag_or_a_commit(#[case] reference: &str, #[case] file: &str, #[case] status: &str) {
    let server = GitServer::start();
    let repo = json!([{"name": "app", "url": format!("{}/public/app.git", server.url), "ref": reference}]);
    let mut init = Init::new().repos(&repo);
    init.run().assert_succeeded();
    let clone = init.workspace().join("app");
    assert!(clone.join(file).exists());
    assert_eq!(clone.join("two").exists(), file == "two");
    assert_eq!(git(&clone, &[], &["status", "--porcelain", "--branch"]).unwrap(), status);
}

#[test]
fn a_commit_is_checked_out_even_where_a_branch_has_taken_its_name() {
    let server = GitServer::start();
    let bare = server.root().join("public/app.git");
    let commit = git(&bare, &[], &["rev-parse", "v1"]).unwrap();
    // Git itself refuses to make such a branch.
    let other = git(&bare, &[], &["rev-parse", "v2"]).unwrap();
    fs::write(bare.join("refs/heads").join(&commit), other).unwrap();
    let url = format!("{}/public/app.git", server.url);
    let repos = json!([{"name": "a", "url": url, "ref": commit}, {"name": "b", "url": url, "ref": &commit[..9]}]);
    let mut init = Init::new().repos(&repos);
    init.run().assert_succeeded();
    for name in ["a", "b"] {
        assert_eq!(git(&init.workspace().join(name), &[], &["rev-parse", "HEAD"]).unwrap(), commit);
    }
}

#[rstest]
#[case::unknown("absent")]
#[case::option("--orphan=x")]
#[case::another_option("-f")]
#[case::a_file("one")]
#[case::a_tree("v1^{tree}")]
fn fix_99_a_ref_that_names_no_commit_fails_whatever_it_looks_like(#[case] reference: &str) {
    let server = GitServer::start();
    let repo = json!([{"name": "app", "url": format!("{}/public/app.git", server.url), "ref": reference}]);
    let mut init = Init::new().repos(&repo);
    init.run().assert_failed(1, &json!({"tool": "git"}));
    assert!(!init.workspace().join("app").exists());
}

#[rstest]
#[case::absent("/public/absent.git")]
#[case::no_token("/private/app.git")]
fn case_38_a_clone_that_fails_ends_the_initializer_with_128(#[case] path: &str) {
    let server = GitServer::start();
    let mut init = Init::new().repos(&json!([{"name": "app", "url": format!("{}{path}", server.url)}]));
    let ended = init.run();
    ended.assert_failed(128, &json!({"tool": "git"}));
    assert!(ended.log.contains("repository \"app\": clone failed"), "{}", ended.log);
    assert!(!init.workspace().join("app").exists());
}

#[test]
fn fix_99_an_address_that_looks_like_an_option_is_no_option() {
    let mut init = Init::new().repos(&json!([{"name": "app", "url": "--upload-pack=touch x;@h:p"}]));
    init.run().assert_failed(128, &json!({"tool": "git"}));
    assert!(!init.workspace().join("x").exists());
}

#[rstest]
#[case("/usr")]
#[case("..")]
#[case("a/../..")]
fn case_79_a_repository_outside_the_workspace_is_skipped_and_nothing_is_removed(#[case] path: &str) {
    let server = GitServer::start();
    let url = format!("{}/public/app.git", server.url);
    let mut init = Init::new().repos(&json!([{"name": "x", "url": url, "path": path}, {"name": "app", "url": url}]));
    fs::write(init.home().join("kept"), "").unwrap();
    let ended = init.run();
    ended.assert_succeeded();
    assert!(ended.log.contains("repository \"x\" is skipped"), "{}", ended.log);
    assert!(init.home().join("kept").exists() && init.workspace().join("app/one").exists());
}

#[test]
fn fix_100_a_link_in_an_earlier_clone_leads_no_later_one_out_of_the_workspace() {
    let server = GitServer::start();
    let url = format!("{}/public/app.git", server.url);
    let mut init = Init::new();
    let target = init.home().join("victim");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("kept"), "").unwrap();
    // `root` is a link to `/` in that branch.
    let path = format!("app/root{}", target.display());
    init =
        init.repos(&json!([{"name": "app", "url": url, "ref": "feature/x"}, {"name": "y", "url": url, "path": path}]));
    let ended = init.run();
    ended.assert_succeeded();
    assert!(ended.log.contains("repository \"y\" is skipped"), "{}", ended.log);
    assert!(target.join("kept").exists());
}

#[test]
fn what_an_earlier_attempt_left_is_replaced() {
    let server = GitServer::start();
    let url = format!("{}/public/app.git", server.url);
    let mut init = Init::new().repos(&json!([{"name": "n", "url": url, "path": "src/app"}]));
    let clone = init.workspace().join("src/app");
    fs::create_dir_all(clone.join(".git")).unwrap();
    fs::write(clone.join("old"), "").unwrap();
    init.run().assert_succeeded();
    assert!(clone.join("one").exists() && !clone.join("old").exists());
}

#[test]
fn case_80_a_password_in_an_address_reaches_neither_server_nor_log_nor_disk() {
    let server = GitServer::start();
    let url = format!("{}/public/app.git", server.url).replace("http://", "http://user:p@ss-s3cret@");
    let mut init = Init::new().repos(&json!([{"name": "app", "url": url}]));
    let ended = init.run();
    ended.assert_succeeded();
    assert!(server.seen().iter().all(|(_, credentials)| !credentials));
    let config = fs::read_to_string(init.workspace().join("app/.git/config")).unwrap();
    let reflog = fs::read_to_string(init.workspace().join("app/.git/logs/HEAD")).unwrap();
    for text in [ended.log, config, reflog, format!("{:?}", ended.events)] {
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_query_in_an_address_is_not_logged_even_when_the_clone_fails() {
    let server = GitServer::start();
    let url = format!("{}/public/absent.git?token=s3cret", server.url);
    let ended = Init::new().repos(&json!([{"name": "app", "url": url}])).run();
    ended.assert_failed(128, &json!({"tool": "git"}));
    assert!(!ended.log.contains("s3cret"), "{}", ended.log);
}

#[test]
fn case_81_a_token_secret_that_is_no_variable_clones_without_a_token_and_configures_nothing() {
    let server = GitServer::start();
    let url = format!("{}/public/app.git", server.url);
    let mut init =
        Init::new().env("GH;rm", TOKEN).repos(&json!([{"name": "app", "url": url, "token_secret": "GH;rm"}]));
    init.run().assert_succeeded();
    assert!(server.seen().iter().all(|(_, credentials)| !credentials));
    let config = fs::read_to_string(init.workspace().join("app/.git/config")).unwrap();
    assert!(!config.contains("credential") && !config.contains("include"), "{config}");
}

#[test]
fn a_redirect_to_another_server_does_not_get_the_token() {
    let thief = GitServer::start();
    let server = GitServer::with_away(Some(format!("{}/private", thief.url)));
    let url = format!("{}/away/app.git", server.url);
    let ended = Init::new()
        .env("GH_TOKEN", TOKEN)
        .repos(&json!([{"name": "app", "url": url, "token_secret": "GH_TOKEN"}]))
        .run();
    ended.assert_failed(128, &json!({"tool": "git"}));
    assert!(!thief.seen().is_empty() && thief.seen().iter().all(|(_, credentials)| !credentials));
    assert!(ended.log.contains("another server"), "{}", ended.log);
}

#[test]
fn a_repository_that_has_moved_is_followed() {
    let target = GitServer::start();
    let server = GitServer::with_away(Some(format!("{}/public", target.url)));
    let mut init = Init::new().repos(&json!([{"name": "app", "url": format!("{}/away/app.git", server.url)}]));
    init.run().assert_succeeded();
    assert!(init.workspace().join("app/two").exists());
}

#[test]
fn an_empty_repository_is_cloned_empty() {
    let server = GitServer::start();
    let bare = server.root().join("public/empty.git");
    fs::create_dir(&bare).unwrap();
    git(&bare, &[], &["init", "-q", "--bare"]).unwrap();
    let mut init = Init::new().repos(&json!([{"name": "app", "url": format!("{}/public/empty.git", server.url)}]));
    init.run().assert_succeeded();
    assert!(git(&init.workspace().join("app"), &[], &["status"]).unwrap().contains("No commits yet"));
}
