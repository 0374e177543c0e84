//! Signalbox on a real node: real pods, and nobody plays the kubelet. `make e2e` starts the cluster, loads the images and
//! runs this.

// Helpers beside the tests may fail like a test does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod concurrency;
mod deadlines;
mod faults;
mod git;
mod harness;
mod images;
mod output;
mod runs;
mod vendors;
mod waiting;
