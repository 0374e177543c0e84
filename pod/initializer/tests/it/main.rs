//! The initializer as a process, with real repositories behind a real git server. Needs `git` on `PATH`.

// Clippy knows a test by its attribute; the helpers of tests may fail as loudly.
#![allow(clippy::unwrap_used)]

mod clone;
mod init;
mod lifecycle;
mod push;
mod server;
mod tls;
