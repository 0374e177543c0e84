//! The initializer as a process, with real repositories behind a real git server. Needs `git` on `PATH`.

// Clippy knows a test by its attribute; the helpers of tests may fail as loudly.
#![allow(clippy::unwrap_used)]

mod broker;
mod cli;
mod clone;
mod conversation;
mod init;
mod inputs;
mod lifecycle;
mod order;
mod packages;
mod push;
mod server;
mod skills;
mod tls;
mod web;
