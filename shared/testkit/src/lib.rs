//! Development only: what the tests of all crates need of the outer world, and never a fake of it but where it cannot be had.
//! A real API server with etcd (and kube-controller-manager where Jobs or garbage collection matter), real nats-servers, a
//! proxy that breaks connections, hands to play the kubelet with where a test says that it does, and [`vendors`] without a
//! model behind them.
//!
//! No node and no root are needed. Nothing outlives the test process, however it ends ([`Process`]).

// A test that cannot set up its world has failed; saying so where it stands is all there is to do.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "test support: failing loudly is the point")]

mod audit;
mod control_plane;
pub mod kubelet;
mod namespace;
mod nats;
mod pki;
mod process;
mod programs;
mod proxy;
pub mod vendors;
mod wait;

pub use audit::AuditEvent;
pub use control_plane::ControlPlane;
pub use namespace::Namespace;
pub use nats::Nats;
pub use process::{Process, TempDir};
pub use programs::program;
pub use proxy::Proxy;
pub use vendors::FakeVendors;
pub use wait::{eventually, wait_for};
