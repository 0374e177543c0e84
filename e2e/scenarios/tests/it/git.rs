//! A private repository, cloned by the initializer and pushed to by the agent.

use signalbox_types::Phase;

use crate::harness::{Scene, ending, lifecycle, output, secret_token};

#[tokio::test]
async fn a_private_repository_is_cloned_and_can_be_pushed_to_by_an_agent_that_never_sees_a_password_prompt() {
    let scene = Scene::calm("git").await;
    scene.apply(include_str!("../fixtures/git.yaml"));
    let server = format!("{}-git", scene.name);
    scene.server_ready(&server).await;
    let script = "cd /workspace/app && cat README && git log --format=%s && echo more >README &&
                  git -c user.name=agent -c user.email=agent@example.invalid commit -qam second &&
                  git push -q origin HEAD:refs/heads/done && echo pushed";
    let agent = scene.run(&scene.name, script).await;
    let refused = scene.run_as("-no-token", &format!("{}-no-token", scene.name), "echo never").await;

    let ended = scene.ended(&agent).await;
    assert_eq!(ending(&ended), (Phase::Succeeded, Some(0), String::new()), "{}", output(&ended));
    assert!(output(&ended).contains("read me\nfirst\npushed\n"), "{}", output(&ended));
    let log = scene.ask_server(&server, "cgi-bin/log").await.unwrap();
    assert_eq!(log.lines().collect::<Vec<_>>(), ["second", "first"]);

    let ended = scene.ended(&refused).await;
    let (phase, code, reason) = ending(&ended);
    assert_eq!((phase, code), (Phase::Failed, Some(128)), "{reason}\n{}", output(&ended));
    assert_eq!(lifecycle(output(&ended)).last().unwrap(), "init failed tool=git exit=128");
    assert!(!output(&ended).contains(secret_token()));
}
