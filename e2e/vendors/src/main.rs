//! Runs the vendors' real CLIs again as the recordings in `shared/vendors/tests/recordings` were made, against the testkit's
//! fake vendors, and compares what they print now with what they printed then: not the words but the shapes, since the rules
//! of `shared/vendors` stand on those. `make e2e-vendors`; `docs/vendors.md`.

mod cases;
mod home;
mod recorder;
mod report;
mod shape;
mod tidy;

use std::{path::PathBuf, process::ExitCode, time::Instant};

use anyhow::Context;
use clap::Parser;
use futures::{StreamExt, stream};
use tokio::signal::{
    ctrl_c,
    unix::{SignalKind, signal},
};

use crate::{
    cases::{Case, Known},
    recorder::Clis,
    report::{Outcome, Row},
};

/// Re-records the output of the vendors' CLIs and compares it with the recordings.
#[derive(Debug, Parser)]
struct Args {
    /// The folder with `bin/claude` and the others.
    #[arg(long)]
    clis: PathBuf,
    /// The recordings, with their `cases.yaml`.
    #[arg(long)]
    recordings: PathBuf,
    /// How each is made.
    #[arg(long)]
    cases: PathBuf,
    /// Where the new recordings go, in the layout of the old ones.
    #[arg(long)]
    out: PathBuf,
    /// Also those that take minutes, since the CLI tries again and again.
    #[arg(long)]
    slow: bool,
    /// How many run at a time. They wait more than they work.
    #[arg(long, default_value_t = 4)]
    at_once: usize,
    /// Only those with one of these texts in `vendor/name`.
    names: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let cases = cases::load(&args.cases, &args.recordings)?;
    let is_wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|part| name.contains(part));
    let wanted: Vec<(String, Case, Known)> = cases.into_iter().filter(|(name, ..)| is_wanted(name)).collect();
    anyhow::ensure!(!wanted.is_empty(), "no recording has one of {:?} in its name", args.names);
    let clis = Clis::new(&args.clis)?;
    let rows = stream::iter(&wanted).map(|(name, case, known)| row(&args, &clis, name, case, known));
    let rows = rows.buffered(args.at_once.max(1)).inspect(report::progress).collect();
    let mut terminated = signal(SignalKind::terminate())?;
    let rows: Vec<Row> = tokio::select! {
        rows = rows => rows,
        // What runs is ended as its futures are dropped.
        _ = terminated.recv() => anyhow::bail!("terminated"),
        interrupted = ctrl_c() => { interrupted?; anyhow::bail!("interrupted") }
    };
    report::print(&rows);
    Ok(if rows.iter().any(Row::is_bad) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn row(args: &Args, clis: &Clis, name: &str, case: &Case, known: &Known) -> Row {
    let began = Instant::now();
    let outcome = match case.why_not(args.slow) {
        Some(why) => Outcome::LeftOut(why),
        None => match compare(args, clis, name, case, known).await {
            Ok(differences) if differences.is_empty() => Outcome::Same,
            Ok(differences) => Outcome::Differs(differences),
            Err(error) => Outcome::Broken(format!("{error:#}")),
        },
    };
    Row { name: name.to_owned(), outcome, seconds: began.elapsed().as_secs_f64() }
}

/// Records a case again; what is different.
async fn compare(args: &Args, clis: &Clis, name: &str, case: &Case, known: &Known) -> anyhow::Result<Vec<String>> {
    let recorded = recorder::record(clis, case).await?;
    let file = args.out.join(format!("{name}.jsonl"));
    let folder = file.parent().context("a file in a folder")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    std::fs::write(&file, recorded.lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    let old = args.recordings.join(format!("{name}.jsonl"));
    let old = std::fs::read_to_string(&old).with_context(|| old.display().to_string())?;
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = recorded.lines.iter().map(String::as_str).collect();
    let mut differences = shape::differences(&shape::of(case.vendor, &old), &shape::of(case.vendor, &new));
    if recorded.exit != known.exit {
        differences.push(format!("exit code {} became {}", known.exit, recorded.exit));
    }
    let verdict = recorder::verdict(case.vendor, known, &new);
    if verdict != known.verdict {
        differences.push(format!("verdict {:?} became {verdict:?}", known.verdict));
    }
    if !differences.is_empty() && !recorded.stderr.is_empty() {
        differences.push(format!("standard error: {}", recorded.stderr));
    }
    Ok(differences)
}
