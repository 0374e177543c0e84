//! A broker of git credentials: asked for each token, under the credential of the run, for plain GitHub repositories.

use std::{fs, os::unix::fs::PermissionsExt};

use rstest::rstest;
use serde_json::json;
use wiremock::{
    Mock, ResponseTemplate,
    matchers::{body_json, header, method, path},
};

use crate::{
    init::{Init, git},
    server::{GitServer, TOKEN},
    web::Web,
};

const CREDENTIAL: &str = "run-cr3dential";

fn broker() -> Web {
    let web = Web::start();
    let asked = Mock::given(method("POST")).and(path("/token")).and(header("authorization", "Bearer run-cr3dential"));
    let asked = asked.and(body_json(json!({"repo": "private/app"})));
    web.mount(asked.respond_with(ResponseTemplate::new(200).set_body_json(json!({"token": TOKEN}))));
    web
}

fn brokered(server: &GitServer, web: &Web) -> Init {
    Init::new()
        .arg("--github-base", &server.url)
        .env("AGENT_GIT_CREDENTIAL", CREDENTIAL)
        .env("AGENT_GIT_CREDENTIAL_URL", &web.at("/token"))
}

#[test]
fn a_repository_is_cloned_with_a_token_of_the_broker_s_and_pushed_to_with_another() {
    let (server, web) = (GitServer::start(), broker());
    let mut init = brokered(&server, &web).repos(&json!([{"name": "it's", "url": "private/app"}]));
    let ended = init.run();
    ended.assert_succeeded();
    let clone = init.workspace().join("it's");
    let asked = web.requests().len();
    assert!(clone.join("two").exists() && asked > 0);

    git(&clone, &[], &["commit", "-q", "--allow-empty", "-m", "more"]).unwrap();
    git(&clone, &[], &["push", "-q", "origin", "HEAD:main"]).unwrap();
    let main = |folder| git(folder, &[], &["rev-parse", "main"]).unwrap();
    assert_eq!(main(&server.root().join("private/app.git")), git(&clone, &[], &["rev-parse", "HEAD"]).unwrap());
    assert!(web.requests().len() > asked);

    // The credential is on the disk for its owner alone, the token nowhere.
    for entry in fs::read_dir(clone.join(".git")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(content) = fs::read(&path) else { continue };
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains(TOKEN), "{}", path.display());
        if text.contains(CREDENTIAL) {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
    }
    for secret in [TOKEN, CREDENTIAL] {
        assert!(!ended.log.contains(secret) && !format!("{:?}", ended.events).contains(secret), "{}", ended.log);
    }
}

#[test]
fn a_token_for_one_repository_is_not_given_for_another() {
    let (server, web) = (GitServer::start(), broker());
    let mut init = brokered(&server, &web).repos(&json!([{"name": "app", "url": "private/app"}]));
    init.run().assert_succeeded();
    let asked = web.requests().len();
    let clone = init.workspace().join("app");
    let other = format!("{}/private/other.git", server.url);
    git(&clone, &[], &["push", "-q", &other, "HEAD:main"]).unwrap_err();
    assert_eq!(web.requests().len(), asked);
}

#[rstest]
#[case::another_server("elsewhere")]
#[case::more_than_a_name("below")]
fn the_broker_is_asked_for_plain_repositories_at_github_alone(#[case] which: &str) {
    let (server, other, web) = (GitServer::start(), GitServer::start(), broker());
    let url = match which {
        "elsewhere" => format!("{}/private/app.git", other.url),
        _ => format!("{}/private/deep/app.git", server.url),
    };
    brokered(&server, &web)
        .repos(&json!([{"name": "app", "url": url}]))
        .run()
        .assert_failed(128, &json!({"tool": "git"}));
    assert!(web.requests().is_empty());
}

#[test]
fn the_broker_is_not_asked_for_what_is_public() {
    let (server, web) = (GitServer::start(), broker());
    brokered(&server, &web).repos(&json!([{"name": "app", "url": "public/app"}])).run().assert_succeeded();
    assert!(web.requests().is_empty());
}

#[test]
fn a_token_of_the_recipe_s_own_wins_over_the_broker() {
    let (server, web) = (GitServer::start(), broker());
    let repos = json!([{"name": "app", "url": "private/app", "token_secret": "GH_TOKEN"}]);
    brokered(&server, &web).env("GH_TOKEN", TOKEN).repos(&repos).run().assert_succeeded();
    assert!(web.requests().is_empty());
}

#[rstest]
#[case::refused(ResponseTemplate::new(403))]
#[case::no_token(ResponseTemplate::new(200).set_body_json(json!({"other": "s3cret"})))]
#[case::no_json(ResponseTemplate::new(200).set_body_string("s3cret"))]
#[case::elsewhere(ResponseTemplate::new(307).insert_header("location", "http://127.0.0.1:1/"))]
fn a_broker_that_gives_no_token_fails_the_clone(#[case] answer: ResponseTemplate) {
    let (server, web) = (GitServer::start(), Web::start());
    web.answer_all(answer);
    let ended = brokered(&server, &web).repos(&json!([{"name": "app", "url": "private/app"}])).run();
    ended.assert_failed(128, &json!({"tool": "git"}));
    assert!(!ended.log.contains("s3cret") && !ended.log.contains(CREDENTIAL), "{}", ended.log);
}
