//! Package managers, played by scripts that write down how they are called.

use std::{fs, path::Path};

use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    cli::{program, with_path},
    init::Init,
    web::Web,
};

/// A manager that puts what it is asked for next to itself.
fn installs(log: &Path, bin: &Path) -> String {
    format!(
        "#!/bin/sh\necho \"$(basename \"$0\") $*\" >>'{}'\nfor name in \"$@\"; do\n\
         case \"$name\" in\n\
         coreutils) name=sha256sum ;;\nbash|curl|tar) ;;\n*) continue ;;\nesac\n\
         ln -sf \"$(PATH=/usr/bin:/bin command -v \"$name\")\" '{}'/\"$name\"\ndone\n",
        log.display(),
        bin.display()
    )
}

fn install_with(manager: &str, folder: &str) -> (Init, String, Value) {
    let web = Web::start();
    let leave = "cd \"$HOME\"; mkdir -p .local/bin; echo 'echo 1.2.3' >.local/bin/claude; chmod +x .local/bin/claude";
    web.put("/claude.ai/install.sh", leave);
    let (init, bin) = with_path(&["mkdir", "chmod", "ln", "basename"]);
    let calls = init.beside("calls");
    program(&bin.with_file_name(folder).join(manager), &installs(&calls, &bin));
    let mut init = init.env("AGENT_MODEL", "claude").arg("--installer-base", web.at(""));
    let ended = init.run();
    ended.assert_succeeded();
    let installing = ended.events.iter().find(|event| event["status"] == "installing").unwrap().clone();
    assert_eq!(ended.events[1], installing, "before all tools");
    (init, fs::read_to_string(calls).unwrap(), installing)
}

#[rstest]
#[case("apt-get", "bin", "apt-get update\napt-get install --no-install-recommends -y bash curl coreutils\n")]
#[case("dnf", "bin", "dnf install -y bash curl coreutils\n")]
#[case("apk", "sbin", "apk add --no-cache bash curl coreutils\n")]
fn what_an_installer_needs_is_installed_by_the_image_s_package_manager(
    #[case] manager: &str,
    #[case] folder: &str,
    #[case] calls: &str,
) {
    let (init, called, installing) = install_with(manager, folder);
    assert_eq!(called, calls);
    assert_eq!(installing["tool"], manager);
    assert!(init.home().join(".local/bin/claude").exists());
}

#[test]
fn only_what_is_missing_is_installed() {
    let (init, bin) = with_path(&["bash", "curl"]);
    let calls = init.beside("calls");
    program(&bin.join("apk"), &format!("#!/bin/sh\necho \"$*\" >>'{}'\nexit 3\n", calls.display()));
    let mut init = init.env("AGENT_MODEL", "claude");
    init.run().assert_failed(3, &json!({"reason": "install"}));
    assert_eq!(fs::read_to_string(calls).unwrap(), "add --no-cache coreutils\n");
}

#[test]
fn apt_is_preferred_and_its_first_step_that_fails_ends_the_run() {
    let (init, bin) = with_path(&[]);
    let calls = init.beside("calls");
    for name in ["apt-get", "dnf", "apk"] {
        program(&bin.join(name), &format!("#!/bin/sh\necho \"{name} $*\" >>'{}'\nexit 100\n", calls.display()));
    }
    let mut init = init.env("AGENT_MODEL", "claude");
    init.run().assert_failed(100, &json!({"reason": "install"}));
    assert_eq!(fs::read_to_string(calls).unwrap(), "apt-get update\n");
}

#[test]
fn a_package_manager_that_brings_nothing_ends_the_run() {
    let (init, bin) = with_path(&["bash"]);
    program(&bin.join("dnf"), "#!/bin/sh\n");
    let mut init = init.env("AGENT_MODEL", "claude");
    let ended = init.run();
    ended.assert_failed(2, &json!({"reason": "prerequisites"}));
    assert!(ended.log.contains("curl, sha256sum"), "{}", ended.log);
}

#[test]
fn nothing_is_installed_for_a_cli_that_is_there() {
    let (init, bin) = with_path(&[]);
    program(&bin.join("apt-get"), "#!/bin/sh\nexit 9\n");
    program(&bin.join("claude"), "#!/bin/sh\n");
    let mut init = init.env("AGENT_MODEL", "claude");
    init.run().assert_succeeded();
}
