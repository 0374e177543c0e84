//! The pruner against a real API server and a real bus. The ends of runs are written by the tests.

// Helpers beside the tests may fail like a test does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../../../watcher/tests/it/gate.rs"]
mod gate;
mod history;
mod support;
mod trouble;
#[path = "../../../watcher/tests/it/world.rs"]
mod world;
