use std::{
    io::Write,
    process::{Command, Stdio},
};

use signalbox_testkit::program;

/// Runs kubectl as a person would; what it printed, or what it complained of.
pub fn kubectl(args: &[&str]) -> Result<String, String> {
    kubectl_with(args, "")
}

/// The same with a text on standard input.
pub fn kubectl_with(args: &[&str], stdin: &str) -> Result<String, String> {
    let mut command = Command::new(program("kubectl"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("kubectl starts");
    // Texts are shorter than a pipe, and one that kubectl does not read is none it misses.
    let _ = child.stdin.take().expect("piped").write_all(stdin.as_bytes());
    let done = child.wait_with_output().expect("kubectl ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() {
        Ok(text(&done.stdout))
    } else {
        Err(format!("kubectl {}: {}{}", args.join(" "), text(&done.stdout), text(&done.stderr)))
    }
}
