//! What becomes of a run's events beside standard output: the envelope, the selection, the sinks with their retries,
//! and the cap of a run's output. Contract: `docs/contract/agents.md` section 12. Also what the two programs of a run pod
//! share beside that: their own events, their log, their requests, paths below the workspace, and the deadline that both
//! count from the same start.
//!
//! Nothing here can hold a run up for ever: each sink has a bounded queue and a task of its own, a queue that stays
//! full drops with a count in the log, and [`Output::finish`] has an overall bound.

pub mod deadline;
pub mod envelope;
mod events;
pub mod headers;
pub mod http;
mod log;
mod output;
mod queue;
pub mod retry;
pub mod select;
mod sink;
pub mod tail;
pub mod tls;
pub mod workspace;

pub use events::Events;
pub use log::log_to_stderr;
pub use output::{Output, list};
pub use select::Class;
