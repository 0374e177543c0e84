//! What a terminal shows: the program on a pseudo-terminal.

use std::{
    io::{Read, Write},
    num::NonZeroU16,
    process::Child,
    sync::{Arc, Mutex},
    thread,
};

use kube::{ResourceExt, api::ListParams};
use pty_process::{
    Size,
    blocking::{Command, Pty, open},
};
use rstest::rstest;
use serde_json::json;
use signalbox_testkit::{eventually, wait_for};
use signalbox_types::Agent;

use crate::{
    program::{EXE, LIMIT},
    scene::Scene,
};

const ROWS: u16 = 24;
const COLUMNS: u16 = 140;

/// The program on a terminal.
struct Terminal {
    pty: Arc<Pty>,
    child: Child,
    shown: Arc<Mutex<Shown>>,
}

/// What came, and what is to be seen of it.
struct Shown {
    bytes: Vec<u8>,
    screen: vt100::Parser,
}

impl Terminal {
    fn start(scene: &Scene, args: &[&str], env: &[(&str, &str)]) -> Self {
        let (pty, pts) = open().unwrap();
        pty.resize(Size::new(ROWS, COLUMNS)).unwrap();
        let kubeconfig = scene.kubeconfig.to_str().unwrap();
        let args = [args, &["-n", &scene.namespace.name, "--kubeconfig", kubeconfig]].concat();
        let command = Command::new(EXE).args(args).env_clear().env("TERM", "xterm").envs(env.iter().copied());
        let child = command.spawn(pts).unwrap();
        let pty = Arc::new(pty);
        let screen = vt100::Parser::new(size(ROWS), size(COLUMNS), 0);
        let shown = Arc::new(Mutex::new(Shown { bytes: Vec::new(), screen }));
        let (from, to) = (pty.clone(), shown.clone());
        // Ends with the terminal: a read fails once the program has closed its side.
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = (&*from).read(&mut buffer) {
                let mut shown = to.lock().unwrap();
                shown.bytes.extend(&buffer[..read]);
                shown.screen.process(&buffer[..read]);
            }
        });
        Self { pty, child, shown }
    }

    fn screen(&self) -> String {
        self.shown.lock().unwrap().screen.screen().contents()
    }

    fn bytes(&self) -> String {
        String::from_utf8(self.shown.lock().unwrap().bytes.clone()).unwrap()
    }

    async fn shows(&self, text: &str) {
        wait_for(&format!("the terminal shows {text:?}"), LIMIT, || async {
            let screen = self.screen();
            if screen.contains(text) { Ok(()) } else { Err(screen) }
        })
        .await;
    }

    fn types(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    async fn end(&mut self) -> Option<i32> {
        let child = Mutex::new(&mut self.child);
        wait_for("the program ends", LIMIT, || async { child.lock().unwrap().try_wait().unwrap().ok_or("runs") })
            .await
            .code()
    }
}

fn size(cells: u16) -> NonZeroU16 {
    NonZeroU16::new(cells).unwrap()
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[rstest]
#[case::on_a_terminal(&[], true)]
#[case::with_no_color(&[("NO_COLOR", "1")], false)]
#[case::with_an_empty_no_color(&[("NO_COLOR", "")], true)]
#[case::on_a_dumb_terminal(&[("TERM", "dumb")], false)]
#[tokio::test]
async fn there_are_colours_on_a_terminal_unless_nobody_wants_them(#[case] env: &[(&str, &str)], #[case] colours: bool) {
    let scene = Scene::new().await;
    scene.agent_with("a", json!({"phase": "Failed", "exitCode": 1, "failureReason": "canceled"})).await;
    for args in [["explain", "a"].as_slice(), &["top"], &["logs", "-f", "a"], &["doctor"]] {
        let mut terminal = Terminal::start(&scene, args, env);
        let _ = terminal.end().await;
        eventually("its end is read", LIMIT, || async { terminal.bytes().ends_with("\r\n") }).await;
        assert_eq!(terminal.bytes().contains("\x1b["), colours, "{args:?}: {:?}", terminal.bytes());
    }
}

#[tokio::test]
async fn logs_are_for_people_on_a_terminal_and_cannot_move_its_cursor() {
    let scene = Scene::new().await;
    let output = "{\"type\":\"result\",\"result\":\"Do\\u001b[2Jne.\"}\n\x1b]0;title\x07plain\n";
    scene.agent_with("a", json!({"phase": "Succeeded", "exitCode": 0, "output": output})).await;
    let mut terminal = Terminal::start(&scene, &["logs", "a"], &[("NO_COLOR", "1")]);
    assert_eq!(terminal.end().await, Some(0));
    terminal.shows("plain").await;
    assert_eq!(terminal.bytes(), "result  Do [2Jne.\r\n         ]0;title plain\r\n");
}

#[tokio::test]
async fn prune_asks_and_deletes_only_after_a_yes() {
    let scene = Scene::new().await;
    for minute in 0..3 {
        let at = format!("2026-06-22T12:0{minute}:00Z");
        scene.agent_with(&format!("a{minute}"), json!({"phase": "Succeeded", "exitCode": 0, "completedAt": at})).await;
    }
    let names = async || {
        let agents = scene.namespace.api::<Agent>().list(&ListParams::default()).await.unwrap();
        agents.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    for answer in ["n\n", "\n", "perhaps\n"] {
        let mut terminal = Terminal::start(&scene, &["prune"], &[]);
        terminal.shows("Delete these 2 runs? [y/N]").await;
        terminal.types(answer);
        terminal.shows("Nothing was deleted.").await;
        assert_eq!((terminal.end().await, names().await.len()), (Some(0), 3));
    }
    let mut terminal = Terminal::start(&scene, &["prune"], &[]);
    terminal.shows("[y/N]").await;
    terminal.types("y\n");
    terminal.shows("agent.agents.re-cinq.com \"a0\" deleted").await;
    assert_eq!((terminal.end().await, names().await), (Some(0), vec!["a2".to_owned()]));
}

#[tokio::test]
async fn top_w_draws_in_place_and_gives_the_terminal_back() {
    let scene = Scene::new().await;
    let mut terminal = Terminal::start(&scene, &["top", "-w"], &[("NO_COLOR", "1")]);
    terminal.shows("hello    greeter  Allow   2      0        -     0").await;
    assert!(terminal.shown.lock().unwrap().screen.screen().alternate_screen());
    scene.agent_with("a", json!({"phase": "Running"})).await;
    terminal.shows("hello    greeter  Allow   2      0        -     1").await;
    assert_eq!(terminal.screen().matches("STATION").count(), 1, "{}", terminal.screen());
    terminal.types("\x03");
    assert_eq!(terminal.end().await, Some(0));
    terminal.shows("hello    greeter  Allow   2      0        -     1").await;
    let shown = terminal.shown.lock().unwrap();
    let screen = shown.screen.screen();
    assert!(!screen.alternate_screen() && !screen.hide_cursor());
}

#[tokio::test]
async fn more_stations_than_rows_are_counted_and_not_scrolled() {
    let scene = Scene::new().await;
    for at in 0..30 {
        let spec = json!({"agentDefRef": "greeter", "template": {}});
        let _: signalbox_types::Station = scene
            .create(json!({"apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Station",
                           "metadata": {"name": format!("s{at:02}")}, "spec": spec}))
            .await;
    }
    let terminal = Terminal::start(&scene, &["top", "-w"], &[("NO_COLOR", "1")]);
    // The header, 31 Stations and the sums are 33 lines, of which 23 are shown.
    terminal.shows("… 10 more").await;
    assert!(terminal.screen().starts_with("STATION"), "{}", terminal.screen());
}

#[tokio::test]
async fn ctrl_c_detaches_from_a_run() {
    let scene = Scene::new().await;
    let mut terminal = Terminal::start(&scene, &["run", "hello", "--name", "a", "-f"], &[]);
    terminal.shows("on station hello").await;
    terminal.types("\x03");
    assert_eq!(terminal.end().await, Some(130));
    terminal.shows("kubectl signalbox logs -f a").await;
}
