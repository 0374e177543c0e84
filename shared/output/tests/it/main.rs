//! The output of a run against real HTTP servers.

// Clippy knows a test by its attribute; the helpers of tests may fail as loudly.
#![allow(clippy::unwrap_used)]

mod delivery;
mod log;
mod tls;
