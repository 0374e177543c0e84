//! The runtime against the real API server and real NATS.

// Helpers beside the tests may fail like a test does.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod args;
mod client;
mod health;
mod lease;
mod lease_simulation;
mod shutdown;
mod telemetry;
