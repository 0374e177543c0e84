//! A private repository, and the pushes of the agent that works in it later.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    init::{Ended, Init, git},
    server::{GitServer, TOKEN},
};

struct Private {
    server: GitServer,
    init: Init,
    ended: Ended,
}

impl Private {
    fn cloned() -> Self {
        let server = GitServer::start();
        let url = format!("{}/private/app.git", server.url);
        let mut init = Init::new()
            .env("GH_TOKEN", &format!("{TOKEN}\n"))
            .repos(&json!([{"name": "it's", "url": url, "token_secret": "GH_TOKEN"}]));
        let ended = init.run();
        ended.assert_succeeded();
        Self { server, init, ended }
    }

    fn clone(&self) -> PathBuf {
        self.init.workspace().join("it's")
    }

    /// Commits and pushes; whether the server has it.
    fn push(&self, variables: &[(&str, &str)], options: &[&str]) -> Result<(), String> {
        let clone = self.clone();
        git(&clone, &[], &["commit", "-q", "--allow-empty", "-m", "more"]).unwrap();
        git(&clone, variables, &[options, &["push", "-q", "origin", "HEAD:main"]].concat())?;
        let has = |folder: &Path| git(folder, &[], &["rev-parse", "main"]).unwrap();
        assert_eq!(has(&self.server.root().join("private/app.git")), has(&clone));
        Ok(())
    }

    fn without_header_file(self) -> Self {
        fs::remove_file(self.clone().join(".git/agent-auth.gitconfig")).unwrap();
        self
    }
}

#[test]
fn a_private_repository_is_cloned_with_the_token_and_the_token_is_told_to_nobody_else() {
    let private = Private::cloned();
    assert!(private.clone().join("two").exists());
    let seen = private.server.seen();
    assert!(seen.iter().any(|(_, credentials)| *credentials));
    let basic = "eC1hY2Nlc3MtdG9rZW46czNjcmV0LXRva2Vu";
    let config = fs::read_to_string(private.clone().join(".git/config")).unwrap();
    for text in [format!("{seen:?}"), config, private.ended.log, format!("{:?}", private.ended.events)] {
        assert!(!text.contains(TOKEN) && !text.contains(basic), "{text}");
    }
}

#[test]
fn the_token_is_on_the_disk_for_its_owner_alone() {
    let private = Private::cloned();
    for entry in fs::read_dir(private.clone().join(".git")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(content) = fs::read(&path) else { continue };
        let text = String::from_utf8_lossy(&content);
        if text.contains(TOKEN) || text.contains("Authorization") {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
    }
}

#[test]
fn fix_0_10_6_a_cloned_private_repository_can_be_pushed_to_later() {
    Private::cloned().push(&[("GH_TOKEN", TOKEN)], &[]).unwrap();
    // By the helper alone, which reads the variable when it is asked.
    let private = Private::cloned().without_header_file();
    fs::remove_file(private.clone().join(".git/agent-token")).unwrap();
    private.push(&[("GH_TOKEN", TOKEN)], &[]).unwrap();
    assert!(private.push(&[("GH_TOKEN", "wrong")], &[]).is_err());
}

#[test]
fn fix_0_10_11_a_cli_that_scrubs_the_environment_can_still_push() {
    Private::cloned().push(&[], &[]).unwrap();
    Private::cloned().without_header_file().push(&[], &[]).unwrap();
}

#[test]
fn fix_0_10_12_a_cli_that_empties_the_credential_helpers_can_still_push() {
    Private::cloned().push(&[], &["-c", "credential.helper="]).unwrap();
}

#[test]
fn the_token_is_never_sent_to_another_server_by_a_later_push() {
    let private = Private::cloned();
    let other = GitServer::start();
    let url = format!("{}/private/app.git", other.url);
    git(&private.clone(), &[], &["remote", "add", "other", &url]).unwrap();
    git(&private.clone(), &[("GH_TOKEN", TOKEN)], &["push", "-q", "other", "HEAD:main"]).unwrap_err();
    assert!(!other.seen().is_empty() && other.seen().iter().all(|(_, credentials)| !credentials));
}

#[test]
fn a_token_that_the_server_refuses_fails_the_clone_and_is_not_logged() {
    let server = GitServer::start();
    let url = format!("{}/private/app.git", server.url);
    let ended = Init::new()
        .env("GH_TOKEN", "wr0ng-token")
        .repos(&json!([{"name": "app", "url": url, "token_secret": "GH_TOKEN"}]))
        .run();
    ended.assert_failed(128, &json!({"tool": "git"}));
    assert!(!ended.log.contains("wr0ng"), "{}", ended.log);
}
