//! The watcher against a real API server and a real bus.

// Helpers beside the tests may fail like a test does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod gate;
mod leaders;
mod messages;
mod namespaces;
mod silence;
mod support;
mod trouble;
mod world;
