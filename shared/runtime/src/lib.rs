//! What makes a program a Signalbox service: arguments, telemetry, health and metrics, clients, the Lease, the bus, the
//! Store of what Kubernetes holds, and one control loop. A service adds its plan and its apply.

pub mod args;
pub mod bus;
pub mod client;
pub mod control;
pub mod health;
pub mod lease;
pub mod list;
pub mod metrics;
pub mod recorder;
pub mod scope;
pub mod service;
pub mod shutdown;
pub mod store;
pub mod sync;
pub mod telemetry;
pub mod write;
