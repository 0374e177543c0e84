//! The CLI of the vendor: baked, present, downloaded, or left to the Station's image.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    init::{Ended, Init},
    web::{Web, archive},
};

/// Writes a program.
pub fn program(at: &Path, text: &str) {
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, text).unwrap();
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
}

/// An initializer with a `PATH` of its own, on which there are the programs of this machine that a script needs.
pub fn with_path(programs: &[&str]) -> (Init, PathBuf) {
    let init = Init::new();
    let bin = init.beside("image/bin");
    fs::create_dir_all(&bin).unwrap();
    for name in programs {
        let found =
            ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(name)).into_iter().find(|path| path.exists());
        std::os::unix::fs::symlink(found.unwrap(), bin.join(name)).unwrap();
    }
    let path = format!("{}:{}", init.home().join(".local/bin").display(), bin.display());
    (init.env("PATH", &path), bin)
}

fn installed(ended: &Ended) -> Option<&Value> {
    ended.events.iter().find(|event| event["status"] == "installed")
}

fn event(tool: &str, origin: &str, version: &str) -> Value {
    json!({
        "kind": "lifecycle", "phase": "init", "status": "installed", "tool": tool, "origin": origin, "version": version,
    })
}

#[test]
fn a_cli_that_is_on_the_path_is_taken_as_it_is() {
    let web = Web::start();
    let (init, bin) = with_path(&[]);
    program(&bin.join("claude"), "#!/bin/sh\necho '2.1.332 (Claude Code)'\n");
    let mut init = init.env("AGENT_MODEL", "claude").arg("--installer-base", web.at(""));
    let ended = init.run();
    ended.assert_succeeded();
    assert_eq!(installed(&ended), Some(&event("claude", "present", "2.1.332")));
    assert!(web.requests().is_empty() && !init.home().join(".local").exists());
}

#[test]
fn a_baked_cli_is_copied_into_the_home_even_where_the_image_has_another() {
    let (init, bin) = with_path(&[]);
    program(&bin.join("claude"), "#!/bin/sh\necho 1.0.0\n");
    let baked = init.beside("baked");
    program(&baked.join("claude/bin/claude"), "#!/bin/sh\necho baked\n");
    program(&baked.join("claude/share/claude/lib"), "more");
    std::os::unix::fs::symlink("../share/claude/lib", baked.join("claude/bin/lib")).unwrap();
    fs::write(baked.join("claude/VERSION"), "2.1.332\n").unwrap();
    let mut init = init.env("AGENT_MODEL", "claude").arg("--baked-clis", &baked);
    for _ in 0..2 {
        let ended = init.run();
        ended.assert_succeeded();
        assert_eq!(installed(&ended), Some(&event("claude", "baked", "2.1.332")));
        let copy = init.home().join(".local/bin/claude");
        assert_eq!(Command::new(&copy).output().unwrap().stdout, b"baked\n");
        assert_eq!(fs::read_to_string(init.home().join(".local/bin/lib")).unwrap(), "more");
    }
}

#[rstest]
#[case::claude("claude", "/claude.ai/install.sh", &["bash", "curl", "sha256sum"], ".local/bin/claude")]
#[case::codex("gpt-5.5", "/chatgpt.com/codex/install.sh", &["sh", "curl", "tar"], ".local/bin/codex")]
#[case::opencode("opencode/x", "/opencode.ai/install", &["bash", "curl", "tar"], ".opencode/bin/opencode")]
fn a_vendor_s_installer_is_fetched_and_run(
    #[case] model: &str,
    #[case] at: &str,
    #[case] needs: &[&str],
    #[case] leaves: &str,
) {
    let web = Web::start();
    let tool = Path::new(leaves).file_name().unwrap().to_str().unwrap();
    let script = format!(
        "cd \"$HOME\"\nmkdir -p {}\nprintf '#!/bin/sh\\necho {tool} 9.8.7\\n' >{leaves}\nchmod +x {leaves}\n\
         echo on stdout\nenv >\"$HOME/env\"\n",
        Path::new(leaves).parent().unwrap().display()
    );
    web.put(at, script);
    let (init, _) = with_path(&[needs, &["mkdir", "chmod", "env"]].concat());
    let init = init.env("AGENT_MODEL", model).env("ANTHROPIC_API_KEY", "s3cret");
    let mut init = init.arg("--installer-base", web.at(""));
    let ended = init.run();
    ended.assert_succeeded();
    assert_eq!(web.paths(), [at]);
    assert_eq!(installed(&ended), Some(&event(tool, "downloaded", "9.8.7")), "{}", ended.log);
    let started = Command::new(init.home().join(".local/bin").join(tool)).output().unwrap();
    assert_eq!(String::from_utf8(started.stdout).unwrap(), format!("{tool} 9.8.7\n"));
    // A script of a third party has no use for the run's keys.
    let env = fs::read_to_string(init.home().join("env")).unwrap();
    assert!(env.contains("HOME=") && !env.contains("s3cret"), "{env}");
    // Standard output is for events alone; `run` has read each of its lines as JSON.
    assert!(ended.log.contains("on stdout"), "{}", ended.log);
}

#[rstest]
#[case::fails("exit 7", 7)]
#[case::dies("kill -9 $$", 137)]
#[case::leaves_nothing("true", 1)]
fn an_installer_that_fails_fails_the_run_with_its_code(#[case] script: &str, #[case] code: i32) {
    let web = Web::start();
    web.put("/claude.ai/install.sh", script);
    let (init, _) = with_path(&["bash", "curl", "sha256sum"]);
    let mut init = init.env("AGENT_MODEL", "claude").arg("--installer-base", web.at(""));
    init.run().assert_failed(code, &json!({"tool": "claude"}));
}

#[test]
fn an_installer_that_is_not_there_fails_the_run_by_the_tool() {
    let web = Web::start();
    let (init, _) = with_path(&["bash", "curl", "sha256sum"]);
    let mut init = init.env("AGENT_MODEL", "claude").arg("--installer-base", web.at(""));
    init.run().assert_failed(1, &json!({"tool": "claude"}));
}

#[test]
fn an_installer_that_hangs_ends_with_all_it_has_started_at_the_deadline() {
    let web = Web::start();
    web.put("/claude.ai/install.sh", "sleep 600 & echo $! >\"$HOME/pid\"; wait");
    let (init, _) = with_path(&["bash", "curl", "sha256sum", "sleep"]);
    let mut init =
        init.env("AGENT_MODEL", "claude").arg("--installer-base", web.at("")).env("AGENT_DEADLINE_MS", "1500");
    init.run().assert_failed(124, &json!({"reason": "deadline"}));
    let pid = fs::read_to_string(init.home().join("pid")).unwrap();
    let stat = Path::new("/proc").join(pid.trim()).join("stat");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    // Gone, or dead and waiting for whoever collects orphans here.
    while fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(std::time::Instant::now() < deadline, "{pid} is left");
        std::thread::yield_now();
    }
}

#[test]
fn an_image_that_can_install_nothing_leaves_the_cli_to_the_station_s_image() {
    let mut init = Init::new().env("AGENT_MODEL", "claude").env("PATH", "/nowhere");
    let ended = init.run();
    ended.assert_succeeded();
    let running = json!({
        "kind": "lifecycle", "phase": "init", "status": "running", "tool": "claude", "reason": "no-package-manager",
    });
    assert!(ended.events.contains(&running) && installed(&ended).is_none(), "{:?}", ended.events);
    for part in
        ["claude cannot be installed here", "bash", "Station's", "/usr/local/lib/ai-agent/cli/claude/bin/claude"]
    {
        assert!(ended.log.contains(part), "{part}: {}", ended.log);
    }
}

#[test]
fn a_recipe_s_own_command_needs_no_cli() {
    let ended = Init::new().run();
    ended.assert_succeeded();
    assert_eq!(ended.tools(), ["supervisor", "skills"]);
}

const TARBALL: &str = "/registry.npmjs.org/@google/gemini-cli/-/gemini-cli-0.61.0.tgz";

fn gemini(web: &Web) -> (Init, PathBuf) {
    let (init, bin) = with_path(&[]);
    (init.env("AGENT_MODEL", "gemini-3.1-flash-lite").arg("--installer-base", web.at("")), bin)
}

#[test]
fn fix_0_10_9_gemini_is_fetched_from_where_the_registry_has_it_and_started_by_node() {
    let web = Web::start();
    let files =
        [("package/bundle/gemini.js", "entry"), ("package/package.json", "{}"), ("README", "not of the package")];
    web.put(TARBALL, archive(&files));
    let (mut init, bin) = gemini(&web);
    let folder = init.home().join(".local/share/gemini-cli");
    fs::create_dir_all(folder.join("old")).unwrap();
    let ended = init.run();
    ended.assert_succeeded();
    assert_eq!(ended.tools(), ["supervisor", "gemini", "skills", "mcp"]);
    assert_eq!(installed(&ended), Some(&event("gemini", "downloaded", "0.61.0")));
    assert_eq!(fs::read_to_string(folder.join("bundle/gemini.js")).unwrap(), "entry");
    assert!(!folder.join("old").exists());
    assert_eq!(fs::read_dir(init.home().join(".local/share")).unwrap().count(), 1);

    // The node of the Station's image.
    program(&bin.join("node"), "#!/bin/sh\nprintf '%s|' node \"$@\"\n");
    let wrapper = init.home().join(".local/bin/gemini");
    let path = format!("{}:{}", wrapper.parent().unwrap().display(), bin.display());
    let start = || {
        let output = Command::new(&wrapper).arg("--prompt=a b").env("PATH", &path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(start(), format!("node|{}|--prompt=a b|", folder.join("bundle/gemini.js").display()));
    // A Station's image that has the CLI has it for a reason.
    program(&bin.join("gemini"), "#!/bin/sh\nprintf '%s|' own \"$@\"\n");
    assert_eq!(start(), "own|--prompt=a b|");
}

#[rstest]
#[case::absent(None)]
#[case::hostile(Some(archive(&[("package/bundle/gemini.js", ""), ("package/../../../evil", "")])))]
#[case::another_package(Some(archive(&[("package/other.js", "")])))]
fn gemini_that_cannot_be_fetched_is_left_to_the_station_s_image(#[case] body: Option<Vec<u8>>) {
    let web = Web::start();
    if let Some(body) = body {
        web.put(TARBALL, body);
    }
    let (mut init, _) = gemini(&web);
    let ended = init.run();
    ended.assert_succeeded();
    assert!(ended.log.contains("gemini is not installed") && installed(&ended).is_none(), "{}", ended.log);
    assert!(!init.home().join(".local/bin/gemini").exists());
    assert!(!init.home().join(".local/share/gemini-cli").exists());
}
