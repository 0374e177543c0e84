//! The rules of runs, on objects in YAML.
#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, but not in their helpers")]

mod admission;
mod admission_model;
mod build;
mod conditions;
mod environment;
mod history;
mod outcome;
mod start;
mod support;
mod template;
mod validate;
