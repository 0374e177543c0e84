//! The rules of `agents.re-cinq.com` that services share: what a run may be, when it may start, the Job it starts as,
//! what its end means, and which finished runs are kept. Contract: `docs/contract/agents.md` sections 2 to 6, 13 and 14.
//!
//! No I/O, no clock, no log: everything here is a pure function of Kubernetes objects.

pub mod admission;
pub mod conditions;
pub mod history;
pub mod job;
pub mod outcome;
pub mod prompt;
mod run;
pub mod start;
pub mod validate;

pub use run::{Run, owned_by};
