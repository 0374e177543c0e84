//! The supervisor as a process, over real children: small shell scripts.

// Clippy knows a test by its attribute; the helpers of tests may fail as loudly.
#![allow(clippy::unwrap_used)]

mod deadline;
mod ending;
mod group;
mod lines;
mod run;
mod sinks;
mod start;
