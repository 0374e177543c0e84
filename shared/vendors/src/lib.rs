//! What is known of the vendors' CLIs: which one runs a model, with which argv and variables, how its end is told from
//! its output, and what each of its lines is. Every rule stands once, in the module of its vendor, with the version of
//! the CLI it was seen in: CLIs change. Contract: `docs/contract/agents.md` sections 11 and 12.3, and
//! `docs/contract/vendor-clis.md`, which wins where the two differ.
//!
//! No I/O: everything here is a pure function of a recipe or of a line of output.

mod argv;
mod class;
pub mod claude;
mod ending;
pub mod exec;
mod vendor;

pub use argv::{ArgvError, Invocation, argv};
pub use class::{Class, classify};
pub use ending::{Ending, Seen};
pub use vendor::{DEFAULT_MODEL, Vendor, env_extras, mcp_env_name, model_or_default};
