//! The testkit itself: what others build on has to be what it says.

// Helpers beside the tests may fail like a test does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod control_plane;
mod nats;
mod process;
mod proxy;
