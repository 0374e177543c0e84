//! Lists and watches Agents, Stations, AgentDefinitions and the Jobs and Pods of runs, and publishes what it sees:
//! every change at once, and every 15 s a listing of all there is. Only the leader publishes.
//!
//! `docs/contract/agents.md` section 7 has the rules, `docs/architecture.md` what hangs on them.

mod args;
mod backoff;
mod listing;
mod metrics;
mod pace;
mod plan;
mod stream;

use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use signalbox_runtime::{
    lease::Term,
    service::{Service, parse_and_run},
};
use signalbox_types::{Agent, AgentDefinition, Station, Watched};

pub use self::args::Args;
use self::{metrics::WatchMetrics, stream::Shared};

/// Parses the arguments and serves until SIGTERM.
pub fn main() -> anyhow::Result<()> {
    parse_and_run("watcher", |args: &Args| &args.common, serve)
}

/// Serves until the service's shutdown. Separate from [`main`] so that tests can run several in one process.
pub async fn serve(service: Service, _args: Args) -> anyhow::Result<()> {
    let metrics = WatchMetrics::register(&service.metrics)?;
    service.clone().lead(move |term| work(service.clone(), metrics.clone(), term)).await
}

/// How long a term waits for the bus before it begins without.
const BUS_PATIENCE: Duration = Duration::from_secs(1);

/// One term of leadership: every kind on its own, and every namespace of several, so that trouble with one never holds up
/// another.
async fn work(service: Service, metrics: WatchMetrics, term: Term) {
    let shared = Shared::new(service, metrics.clone());
    let kinds = async {
        // What is said before the bus is there is lost: at the start of the process the two come at the same time.
        shared.service.bus.connected_within(BUS_PATIENCE).await;
        futures::future::join5(
            kind::<Agent>(&shared),
            kind::<Station>(&shared),
            kind::<AgentDefinition>(&shared),
            kind::<Job>(&shared),
            kind::<Pod>(&shared),
        )
        .await
    };
    tokio::select! {
        () = term.ended() => {}
        _ = kinds => {}
    }
    metrics.forget_agents();
    shared.service.health.set_reconcile_healthy(true);
}

async fn kind<K: Watched>(shared: &Shared) {
    let places = shared.service.scope.places();
    let watches = places.iter().map(|place| stream::watch::<K>(shared, place.as_deref()));
    tokio::join!(futures::future::join_all(watches), listing::publish::<K>(shared));
}
