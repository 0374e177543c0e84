//! A stand-in for an agent in images that hold nothing else. It does what its words say, in their order, and takes the
//! last word as its prompt: `probe lines=3 sleep=1 exit=3 <prompt>`.

use std::{
    io::{self, Write},
    process::{Command, ExitCode, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let prompt = words.last().cloned().unwrap_or_default();
    let mut code = 0;
    for word in words.iter().take(words.len().saturating_sub(1)) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let done = match key {
            // Lines of the agent.
            "lines" => (1..=number(value)).try_for_each(|n| say(&message(&format!("{n} {prompt}")))),
            // One line with the value of a variable.
            "env" => say(&message(&std::env::var(value).unwrap_or_default())),
            // The last line of the agent, `result=ok` or `result=error`.
            "result" => say(&json!({"type": "result", "is_error": value != "ok", "result": prompt})),
            "stderr" => (1..=number(value)).try_for_each(|n| writeln!(io::stderr(), "{n} {prompt}")),
            "sleep" => {
                thread::sleep(Duration::from_secs(number(value)));
                Ok(())
            }
            // A child that holds standard output for so many seconds, in the agent's process group.
            "hold" => hold(value),
            "exit" => {
                code = u8::try_from(number(value)).unwrap_or(u8::MAX);
                Ok(())
            }
            _ => writeln!(io::stderr(), "unknown word: {word}").map(|()| code = 2),
        };
        if done.is_err() {
            return ExitCode::from(74);
        }
    }
    ExitCode::from(code)
}

fn number(value: &str) -> u64 {
    value.parse().unwrap_or_default()
}

fn message(text: &str) -> Value {
    json!({"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}})
}

fn say(line: &Value) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

fn hold(seconds: &str) -> io::Result<()> {
    // By its own name: an empty image may have no /proc to ask for more.
    let own = std::env::args_os().next().unwrap_or_else(|| "probe".into());
    Command::new(own).arg(format!("sleep={seconds}")).arg("-").stdin(Stdio::null()).spawn().map(drop)
}
