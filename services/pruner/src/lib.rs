//! Deletes finished Agents beyond the history limits of their Station: `docs/contract/agents.md` section 6.
//!
//! It reconciles Stations: when an Agent of one ends, when its limits change, and at each listing.

mod apply;
mod args;
mod reconcile;
mod triggers;
mod world;

use std::sync::Arc;

use signalbox_runtime::{
    control,
    lease::Term,
    service::{Service, parse_and_run},
    store::{FeedMetrics, Feeds},
    write::Writer,
};
use signalbox_types::{Agent, Station};
use tokio::sync::mpsc;

pub use self::args::Args;
use self::{apply::Apply, reconcile::Pruner, triggers::Triggers, world::World};

/// Parses the arguments and serves until SIGTERM.
pub fn main() -> anyhow::Result<()> {
    parse_and_run("pruner", |args: &Args| &args.common, serve)
}

/// Serves until the service's shutdown. Separate from [`main`] so that tests can run several in one process.
pub async fn serve(service: Service, _args: Args) -> anyhow::Result<()> {
    let feeds = FeedMetrics::register(&service.metrics)?;
    let frame = service.clone();
    frame.lead(move |term| work(service.clone(), feeds.clone(), term)).await
}

/// One term of leadership, on a Store of its own.
async fn work(service: Service, feed_metrics: FeedMetrics, term: Term) {
    let mut feeds = Feeds::new(&service, feed_metrics);
    let (agents, told_agents) = feeds.hold::<Agent>();
    let (stations, told_stations) = feeds.hold::<Station>();
    let reader = stations.reader();
    let world = Arc::new(World { agents, stations });
    let (queue, queued) = mpsc::unbounded_channel();
    let triggers = Triggers::new(world.clone(), queue);
    let writer = Writer::new(service.clients.writer.clone(), term.clone());
    let pruner = Arc::new(Pruner { world: world.clone(), apply: Apply::new(writer, world) });
    let loops = control::run(pruner, reader, queued, service.metrics.clone(), term.token());
    tokio::select! {
        fed = feeds.run(term.token(), loops) => {
            if let Err(error) = fed {
                tracing::error!(%error, "store");
            }
        }
        () = triggers.run(told_agents, told_stations) => {}
    }
}
