use signalbox_types::Timestamp;

/// The time of the statuses that this service writes. Called where plans are carried out, never where they are made.
pub(crate) fn now() -> Timestamp {
    Timestamp::new(jiff::Timestamp::now())
}
