use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// The variable with the directory of the programs; `make test` sets it.
const VARIABLE: &str = "SIGNALBOX_PROGRAMS";
/// Finds programs, or builds them once; beside the workspace's root.
const FINDER: &str = "e2e/cluster/programs";
/// What it is asked for.
const NAMES: [&str; 5] = ["etcd", "kube-apiserver", "kube-controller-manager", "nats-server", "kubectl"];

/// The path of a control-plane program: from the directory in `SIGNALBOX_PROGRAMS`, else wherever `e2e/cluster/programs`
/// finds or builds it, which takes minutes on a machine that has never done it.
///
/// # Panics
/// It is not there.
pub fn program(name: &str) -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| match std::env::var_os(VARIABLE) {
        Some(directory) => PathBuf::from(directory),
        None => find(),
    });
    let path = directory.join(name);
    assert!(path.exists(), "{name} is not in {}; is {VARIABLE} right?", directory.display());
    path
}

fn find() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = Command::new(root.join(FINDER)).args(NAMES).stderr(Stdio::inherit()).output();
    let found = found.unwrap_or_else(|error| panic!("{FINDER} cannot be run ({error}); set {VARIABLE} instead"));
    assert!(found.status.success(), "{FINDER} failed; see its messages above, or set {VARIABLE}");
    PathBuf::from(String::from_utf8(found.stdout).expect("a path in UTF-8").trim())
}
