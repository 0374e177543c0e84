//! `doctor`: checks an installation, and says for each fault the way out.

mod checks;
mod facts;
mod schema;

use std::io::stdout;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    args::{Connection, DoctorArgs},
    out::{self, Stream},
    session::Session,
    text::{Paint, Palette, clean},
};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// A line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    level: Level,
    /// What was looked at, as `kind/name`.
    what: String,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    way_out: Option<String>,
}

impl Check {
    fn ok(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { level: Level::Ok, what: what.into(), found: found.into(), way_out: None }
    }

    fn warn(what: impl Into<String>, found: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { level: Level::Warn, what: what.into(), found: found.into(), way_out: Some(way_out.into()) }
    }

    fn fail(what: impl Into<String>, found: impl Into<String>, way_out: impl Into<String>) -> Self {
        Self { level: Level::Fail, ..Self::warn(what, found, way_out) }
    }
}

pub(crate) async fn run(at: &Connection, args: DoctorArgs) -> anyhow::Result<u8> {
    let session = Session::open(at).await?;
    let services_namespace = args.services_namespace.unwrap_or_else(|| session.namespace.clone());
    let facts = facts::gather(&session, &services_namespace).await?;
    let checks = checks::view(&facts, Timestamp::now());
    match args.output {
        Some(format) => out::object(format, &checks)?,
        None => Stream::Stdout.write(&text(Palette::of(&stdout()), &checks))?,
    }
    Ok(u8::from(count(&checks, Level::Fail) > 0))
}

fn count(checks: &[Check], level: Level) -> usize {
    checks.iter().filter(|check| check.level == level).count()
}

/// The report: a line a check, the way out below it, and a line of sums.
fn text(palette: Palette, checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.what.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let (word, paint) = match check.level {
            Level::Ok => ("ok", Paint::Good),
            Level::Warn => ("warn", Paint::Busy),
            Level::Fail => ("FAIL", Paint::Bad),
        };
        let word = palette.paint(paint, &format!("{word:<4}"));
        text.push_str(&format!("{word}  {:<width$}  {}\n", clean(&check.what), clean(&check.found)));
        if let Some(way_out) = &check.way_out {
            text.push_str(&format!("      {} {}\n", palette.paint(Paint::Strong, "->"), clean(way_out)));
        }
    }
    let [ok, warn, fail] = [Level::Ok, Level::Warn, Level::Fail].map(|level| count(checks, level));
    text.push_str(&format!("\n{ok} ok, {warn} warn, {fail} FAIL\n"));
    text
}
