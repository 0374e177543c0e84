//! What every Signalbox program agrees on: the resources of `agents.re-cinq.com`, the messages on the bus, the events
//! on a run's standard output, and the names and constants of the contract (`docs/contract/agents.md`).
//!
//! No tokio, no client, no I/O: everything here is data and pure functions of it.

mod agent;
pub mod bus;
pub mod crd;
mod definition;
pub mod event;
pub mod kinds;
pub mod lenient;
pub mod names;
mod station;
mod time;
mod usage;

pub use agent::{Agent, AgentSpec, AgentStatus, BatchProvider, InputFile, Phase};
pub use definition::{
    AgentDefinition, AgentDefinitionSpec, Batch, Conversation, EnvVar, Execution, McpServer, McpTransport, OnTimeout,
    Output, OutputFormat, PermissionMode, Realtime, Repo, Resources, SELECT_EVENTS, SecretVar, Select, Sink, SinkType,
    Upload, Watch,
};
pub use kinds::{ObjectId, Watched, resource_version};
pub use station::{ConcurrencyPolicy, MAX_DEADLINE_MINUTES, Station, StationSpec};
pub use time::Timestamp;
pub use usage::Usage;
