//! Input files: `docs/contract/agents.md` section 10, "files".

use std::fs;

use rstest::rstest;
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

use crate::{
    init::{Ended, Init},
    server::GitServer,
    web::Web,
};

fn with(init: Init, files: &Value) -> Init {
    init.env("AGENT_FILES", &files.to_string())
}

fn assert_failed_naming(ended: &Ended, path: &str) {
    assert_eq!((ended.code, &ended.last()["tool"], &ended.last()["exitCode"]), (1, &json!("files"), &json!(1)));
    let reason = ended.last()["reason"].as_str().unwrap();
    assert!(reason.contains(path) && ended.log.contains(path), "{reason}\n{}", ended.log);
}

#[test]
fn files_are_in_the_workspace_before_the_run_starts() {
    let web = Web::start();
    web.put("/a.csv", "1,2");
    web.put("/b", "b");
    let init = Init::new();
    let absolute = init.workspace().join("deep/b");
    let files = json!([{"path": "data/a.csv", "url": web.at("/a.csv")}, {"path": absolute, "url": web.at("/b")}]);
    let mut init = with(init, &files);
    fs::create_dir(init.workspace().join("deep")).unwrap();
    fs::write(&absolute, "an older attempt's").unwrap();
    let ended = init.run();
    ended.assert_succeeded();
    assert_eq!(ended.tools(), ["supervisor", "files", "skills"]);
    assert_eq!(fs::read_to_string(init.workspace().join("data/a.csv")).unwrap(), "1,2");
    assert_eq!(fs::read_to_string(absolute).unwrap(), "b");
}

#[test]
fn the_headers_go_to_the_server_that_is_named_and_to_no_other() {
    let (web, other) = (Web::start(), Web::start());
    other.put("/moved", "content");
    web.answer("/near", ResponseTemplate::new(302).insert_header("location", "/far"));
    web.answer("/far", ResponseTemplate::new(307).insert_header("location", other.at("/moved").as_str()));
    let files = json!([{"path": "a", "url": web.at("/near"), "headers_secret": "file-auth"}]);
    let mut init = with(Init::new(), &files).env("file-auth", "X-Key: s3cret\nAuthorization: Bearer s3cret\n");
    let ended = init.run();
    ended.assert_succeeded();
    assert_eq!(fs::read_to_string(init.workspace().join("a")).unwrap(), "content");
    assert_eq!(web.seen("x-key"), ["s3cret", "s3cret"]);
    assert_eq!(web.seen("authorization"), ["Bearer s3cret", "Bearer s3cret"]);
    assert!(other.seen("x-key").is_empty() && other.seen("authorization").is_empty());
    assert!(!ended.log.contains("s3cret"), "{}", ended.log);
}

#[rstest]
#[case::absent("/absent", "404")]
#[case::loop_of_redirects("/loop", "redirects")]
#[case::to_a_file("/file", "neither http nor https")]
fn a_file_that_cannot_be_fetched_fails_the_run_and_is_named(#[case] at: &str, #[case] why: &str) {
    let web = Web::start();
    web.answer("/loop", ResponseTemplate::new(302).insert_header("location", "/loop"));
    web.answer("/file", ResponseTemplate::new(302).insert_header("location", "file:///etc/passwd"));
    let files = json!([{"path": "data/a.csv", "url": format!("{}?token=s3cret", web.at(at))}]);
    let mut init = with(Init::new(), &files);
    let ended = init.run();
    assert_failed_naming(&ended, "data/a.csv");
    assert!(ended.last()["reason"].as_str().unwrap().contains(why), "{:?}", ended.last());
    assert!(!ended.log.contains("s3cret") && !format!("{:?}", ended.events).contains("s3cret"), "{}", ended.log);
    // Not even half of it.
    assert_eq!(fs::read_dir(init.workspace().join("data")).unwrap().count(), 0);
}

#[test]
fn a_server_that_is_not_there_fails_the_run_and_the_file_is_named() {
    let ended = with(Init::new(), &json!([{"path": "a.csv", "url": "http://127.0.0.1:1/"}])).run();
    assert_failed_naming(&ended, "a.csv");
}

#[test]
fn a_server_that_is_busy_for_a_moment_is_asked_again() {
    let web = Web::start();
    let busy = wiremock::Mock::given(wiremock::matchers::path("/a")).respond_with(ResponseTemplate::new(503));
    web.mount(busy.up_to_n_times(2).with_priority(1));
    web.put("/a", "content");
    let mut init = with(Init::new(), &json!([{"path": "a", "url": web.at("/a")}]));
    init.run().assert_succeeded();
    assert_eq!(web.paths(), ["/a", "/a", "/a"]);
    assert_eq!(fs::read_to_string(init.workspace().join("a")).unwrap(), "content");
}

#[test]
fn a_file_that_is_too_large_is_refused_before_it_is_fetched() {
    // Its length is the server's word; the body need not be there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n");
        }
    });
    let ended = with(Init::new(), &json!([{"path": "huge", "url": url}])).run();
    assert_failed_naming(&ended, "huge");
    assert!(ended.log.contains("larger than"), "{}", ended.log);
}

#[rstest]
#[case("../x")]
#[case("/etc/x")]
#[case("a/../..")]
#[case(".")]
#[case("")]
fn a_path_outside_the_workspace_is_refused_before_anything_is_fetched(#[case] path: &str) {
    let web = Web::start();
    let ended = with(Init::new(), &json!([{"path": path, "url": web.at("/a")}])).run();
    assert_failed_naming(&ended, &format!("{path:?}"));
    assert!(web.requests().is_empty());
}

#[rstest]
#[case::the_link_itself("app/root")]
#[case::through_it("app/root/tmp/x")]
fn case_82_a_symlink_in_a_repository_at_an_input_file_s_path_fails_the_run_and_is_named(#[case] path: &str) {
    let (server, web) = (GitServer::start(), Web::start());
    web.put("/a", "content");
    // `root` is a link to `/` in that branch.
    let repos = json!([{"name": "app", "url": format!("{}/public/app.git", server.url), "ref": "feature/x"}]);
    let ended = with(Init::new().repos(&repos), &json!([{"path": path, "url": web.at("/a")}])).run();
    assert_failed_naming(&ended, path);
    assert!(web.requests().is_empty());
}
