//! The vendors' rules against recordings of the real CLIs and against recipes in YAML.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, but not in their helpers")]

mod argv;
mod classes;
mod cli;
mod endings;
mod recordings;
mod settings;
mod support;
mod usage;
