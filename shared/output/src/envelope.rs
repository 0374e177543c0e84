//! The envelope of an event on its way to a sink: `docs/contract/agents.md` sections 12.1 and 12.2.

use std::{borrow::Cow, collections::BTreeMap};

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::value::RawValue;
use signalbox_types::event::Source;

/// Why a line does not go into an envelope.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is an envelope already. Envelopes never nest.
    #[error("the line already has `source` and `event`")]
    Wrapped,
    /// It cannot be written as JSON.
    #[error("the event cannot be written as JSON")]
    Encode,
}

#[derive(Serialize)]
struct Envelope<'a, E> {
    source: &'a Source,
    event: E,
}

/// A top-level key, borrowed where it has no escapes.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// A line of the agent in its envelope: JSON as it is, to the digit; anything else as a string.
///
/// # Errors
/// [`Error::Wrapped`] for a line that is an envelope already.
pub fn line(source: &Source, line: &[u8]) -> Result<Bytes, Error> {
    match serde_json::from_slice::<&RawValue>(line) {
        Ok(event) if is_envelope(event) => Err(Error::Wrapped),
        Ok(event) => event_of(source, event),
        Err(_) => event_of(source, String::from_utf8_lossy(line)),
    }
}

/// An event of our own in its envelope.
///
/// # Errors
/// [`Error::Encode`] for an event that serde cannot write.
pub fn event(source: &Source, event: &impl Serialize) -> Result<Bytes, Error> {
    event_of(source, event)
}

fn event_of(source: &Source, event: impl Serialize) -> Result<Bytes, Error> {
    serde_json::to_vec(&Envelope { source, event }).map(Bytes::from).map_err(|_| Error::Encode)
}

fn is_envelope(event: &RawValue) -> bool {
    serde_json::from_str::<BTreeMap<Key<'_>, IgnoredAny>>(event.get()).is_ok_and(|keys| {
        let has = |name: &'static str| keys.contains_key(&Key(Cow::Borrowed(name)));
        has("source") && has("event")
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn source() -> Source {
        Source { agent: "a".into(), ..Source::default() }
    }

    #[rstest]
    #[case::object(r#"{"type":"x","n":1.50}"#, r#"{"source":{"agent":"a"},"event":{"type":"x","n":1.50}}"#)]
    #[case::number_beyond_64_bits(
        "123456789012345678901234567890",
        r#"{"source":{"agent":"a"},"event":123456789012345678901234567890}"#
    )]
    #[case::text("no \"json\"", r#"{"source":{"agent":"a"},"event":"no \"json\""}"#)]
    #[case::only_a_source(r#"{"source":1}"#, r#"{"source":{"agent":"a"},"event":{"source":1}}"#)]
    #[case::deeper_down(
        r#"{"x":{"source":1,"event":2}}"#,
        r#"{"source":{"agent":"a"},"event":{"x":{"source":1,"event":2}}}"#
    )]
    #[case::two_documents("{} {}", r#"{"source":{"agent":"a"},"event":"{} {}"}"#)]
    fn a_line_becomes_the_event_of_an_envelope(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(line(&source(), text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn a_line_that_is_no_utf_8_becomes_a_string() {
        assert_eq!(line(&source(), b"\xff!").unwrap(), "{\"source\":{\"agent\":\"a\"},\"event\":\"\u{fffd}!\"}");
    }

    #[rstest]
    #[case(r#"{"source":{},"event":{}}"#)]
    #[case(r#" {"event":null,"x":1,"source":null}"#)]
    #[case(r#"{"sourc\u0065":1,"event":2}"#)]
    fn case_74_a_line_with_source_and_event_is_never_wrapped(#[case] text: &str) {
        assert_eq!(line(&source(), text.as_bytes()), Err(Error::Wrapped));
    }

    #[test]
    fn empty_ids_are_left_out_of_the_source() {
        assert_eq!(line(&Source::default(), b"1").unwrap(), r#"{"source":{},"event":1}"#);
    }
}
