//! Reading one line of a CLI's output. Lines are parsed, never matched by a prefix: their keys come in any order.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

/// What a line that is a JSON object says. Any other line says nothing: serde would read a list as an object's fields
/// in their order, so that `["result"]` would be a result.
pub(crate) fn parse<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
    line.trim_start().starts_with('{').then(|| serde_json::from_str(line).ok())?
}

/// The `type` of a line, without reading the rest into memory: lines may be megabytes long.
pub(crate) fn kind(line: &str) -> Option<Cow<'_, str>> {
    parse::<Kind<'_>>(line).map(|line| line.kind)
}

/// The whole of a line that has that `type`.
pub(crate) fn of_kind(line: &str, kind: &str) -> Option<Value> {
    self::kind(line).filter(|found| found == kind)?;
    parse(line)
}
