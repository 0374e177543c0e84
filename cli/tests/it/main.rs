//! `kubectl-signalbox` as its user has it: the program, against a real API server, and on a pseudo-terminal. No service
//! and no kubelet run: a test that needs what they do plays them, and says so in its name.

// Helpers beside the tests may fail like a test does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod commands;
mod doctor;
mod follow;
mod krew;
mod program;
mod scene;
mod terminal;
