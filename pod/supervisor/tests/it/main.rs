//! The supervisor as a process, over real children: small shell scripts.

// Clippy knows a test by its attribute; the helpers of tests may fail as loudly.
#![allow(clippy::unwrap_used)]

mod conversation;
mod deadline;
mod ending;
mod group;
mod lines;
mod replay;
mod run;
mod server;
mod sinks;
mod stall;
mod start;
mod watched;
