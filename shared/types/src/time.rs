use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A moment in UTC. Written as RFC 3339 in whole seconds (`2026-06-22T12:00:00Z`), read with any fraction, compared as a
/// value and never as text: text would put `…00.5Z` before `…00Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(jiff::Timestamp);

impl Timestamp {
    /// The moment, as it is.
    pub const fn new(at: jiff::Timestamp) -> Self {
        Self(at)
    }

    /// The moment as jiff knows it.
    pub const fn get(self) -> jiff::Timestamp {
        self.0
    }

    /// This moment without its fraction of a second, as it is written.
    #[must_use]
    pub fn whole_seconds(self) -> Self {
        Self(jiff::Timestamp::from_second(self.0.as_second()).unwrap_or(self.0))
    }

    /// Seconds from `earlier` to this; negative where the clocks disagree.
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.0.duration_since(earlier.0).as_secs_f64()
    }

    /// This moment plus `minutes`; the end of time where that overflows.
    pub fn plus_minutes(self, minutes: i64) -> Self {
        let minutes = jiff::SignedDuration::from_secs(minutes.saturating_mul(60));
        Self(self.0.checked_add(minutes).unwrap_or(jiff::Timestamp::MAX))
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(at: jiff::Timestamp) -> Self {
        Self(at)
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }
}

impl std::str::FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_read_and_whole_seconds_are_written() {
        let at: Timestamp = serde_json::from_str("\"2026-06-22T12:00:00.5Z\"").unwrap();
        assert_eq!(serde_json::to_string(&at).unwrap(), "\"2026-06-22T12:00:00Z\"");
    }

    #[test]
    fn moments_compare_as_values_not_as_text() {
        let whole: Timestamp = "2026-06-22T12:00:00Z".parse().unwrap();
        let half: Timestamp = "2026-06-22T12:00:00.5Z".parse().unwrap();
        let offset: Timestamp = "2026-06-22T14:00:00+02:00".parse().unwrap();
        assert!(whole < half);
        assert_eq!(whole, offset);
    }
}
