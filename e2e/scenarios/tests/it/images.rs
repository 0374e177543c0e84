//! The three kinds of image that a Station may bring: nothing but a program, busybox, and a distribution.

use signalbox_types::Phase;

use crate::harness::{Scene, ending, lifecycle, output};

const ABOUT: &str = r#"echo "uid $(id -u) gid $(id -g) home $HOME path $PATH in $(pwd)"; touch "$HOME/x" "$WORKSPACE_DIR/y" && echo writable"#;
const EXPECTED: &str =
    "uid 1000 gid 1000 home /agent path /agent/.local/bin:/usr/local/bin:/usr/bin:/bin in /\nwritable\n";

#[tokio::test]
async fn a_run_works_in_an_image_with_nothing_but_a_program() {
    let scene = Scene::calm("empty").await;
    let agent = scene.run_with("", "empty", &[("text", "hello")]).await;
    let agent = scene.ended(&agent).await;
    assert_eq!(ending(&agent), (Phase::Succeeded, Some(0), String::new()));
    let output = output(&agent);
    for part in ["1 hello", "2 hello", "/agent", "/agent/.local/bin:/usr/local/bin:/usr/bin:/bin", "[agent] 1 hello"] {
        assert!(output.contains(part), "{part}: {output}");
    }
}

#[tokio::test]
async fn a_run_works_in_a_busybox_image() {
    let scene = Scene::calm("busybox").await;
    let agent = scene.run("shell", ABOUT).await;
    let agent = scene.ended(&agent).await;
    assert_eq!(ending(&agent), (Phase::Succeeded, Some(0), String::new()));
    assert!(output(&agent).contains(EXPECTED), "{}", output(&agent));
}

#[tokio::test]
async fn a_run_works_in_a_debian_image() {
    let scene = Scene::calm("debian").await;
    let agent = scene.run("debian", &format!("{ABOUT}; bash -c 'git --version'")).await;
    let agent = scene.ended(&agent).await;
    assert_eq!(ending(&agent), (Phase::Succeeded, Some(0), String::new()));
    assert!(output(&agent).contains(EXPECTED), "{}", output(&agent));
    assert!(output(&agent).contains("git version 2."));
}

#[tokio::test]
async fn a_program_that_the_image_lacks_fails_the_run_by_name() {
    let scene = Scene::calm("lacks").await;
    let agent = scene.run("not-there", "").await;
    let agent = scene.ended(&agent).await;
    let (phase, code, reason) = ending(&agent);
    assert_eq!((phase, code), (Phase::Failed, Some(1)), "{reason}");
    assert_eq!(lifecycle(output(&agent)), ["agent failed reason=not-found exit=1"]);
}
