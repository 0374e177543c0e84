//! What is known of the vendors' CLIs: which one runs a model, with which argv, variables and settings, how its end is
//! told from its output, what each of its lines is, and what it says of its cost. Every rule stands once, in the module
//! of its vendor, with the version of the CLI it was seen in: CLIs change. Contract: `docs/contract/agents.md` sections
//! 11 and 12.3, and `docs/contract/vendor-clis.md`, which wins where the two differ.
//!
//! No I/O: everything here is a pure function of a recipe, of a settings file or of lines of output.

mod argv;
mod class;
pub mod claude;
mod cli;
pub mod codex;
mod ending;
mod exec;
pub mod gemini;
mod line;
mod opencode;
mod usage;
mod vendor;

pub use argv::{ArgvError, Invocation, argv, without_resume};
pub use class::{Class, classify};
pub use cli::{Cli, Install, cli};
pub use ending::{Ending, REASON_ANOTHER_SESSION, Seen};
pub use usage::usage;
pub(crate) use vendor::mcp_headers;
pub use vendor::{DEFAULT_MODEL, Vendor, env_copies, env_extras, mcp_env_name, model_or_default, state_paths};
