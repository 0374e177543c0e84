//! The job-launcher against a real API server with kube-controller-manager and a real bus. No kubelet is there: a test
//! that needs what one does plays it, and says so in its name. Real pods are in `e2e/`.

// Helpers beside the tests may fail like a test does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod budget;
mod bus;
mod cancel;
mod concurrency;
mod ending;
mod explained;
#[path = "../../../watcher/tests/it/gate.rs"]
mod gate;
mod leaders;
mod listing;
mod namespaces;
mod program;
mod running;
mod runs;
mod start;
#[path = "../../../watcher/tests/it/world.rs"]
mod world;
