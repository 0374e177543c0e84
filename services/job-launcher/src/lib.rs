//! Agents that run in a Job: Pending to Running to their end, by the transitions T1 to T11 and T18 of
//! `docs/contract/agents.md` section 4.
//!
//! A reconcile gathers a view of the `world`, makes a `plan`, and `apply` carries it out. What is irrevocable is
//! decided on live reads (`docs/decisions/`): the Store only says when to look.

mod apply;
mod args;
mod cancel;
mod clock;
mod complete;
mod launch;
mod log;
mod metrics;
#[cfg(test)]
mod model;
mod plan;
mod reconcile;
mod reservations;
mod told;
mod triggers;
mod waiting;
mod world;

use std::sync::Arc;

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use signalbox_runtime::{
    control,
    lease::Term,
    recorder::Recorder,
    service::{Service, parse_and_run},
    store::{FeedMetrics, Feeds},
    write::Writer,
};
use signalbox_types::{Agent, AgentDefinition, Station};
use tokio::sync::mpsc;

pub use self::args::Args;
use self::{apply::Apply, metrics::RunMetrics, reconcile::Launcher, told::Told, triggers::Triggers, world::World};

/// Parses the arguments and serves until SIGTERM.
pub fn main() -> anyhow::Result<()> {
    parse_and_run("job-launcher", |args: &Args| &args.common, serve)
}

/// Serves until the service's shutdown. Separate from [`main`] so that tests can run several in one process.
pub async fn serve(service: Service, args: Args) -> anyhow::Result<()> {
    let metrics = RunMetrics::register(&service.metrics)?;
    let feeds = FeedMetrics::register(&service.metrics)?;
    let frame = service.clone();
    frame.lead(move |term| work(service.clone(), args.clone(), metrics.clone(), feeds.clone(), term)).await
}

/// One term of leadership, on a Store of its own.
async fn work(service: Service, args: Args, metrics: RunMetrics, feed_metrics: FeedMetrics, term: Term) {
    let mut feeds = Feeds::new(&service, feed_metrics);
    let (agents, told_agents) = feeds.hold::<Agent>();
    let (stations, told_stations) = feeds.hold::<Station>();
    let (definitions, told_definitions) = feeds.hold::<AgentDefinition>();
    let (jobs, told_jobs) = feeds.hold::<Job>();
    let (pods, told_pods) = feeds.hold::<Pod>();
    let reader = agents.reader();
    let world = Arc::new(World::new(agents, stations, definitions, jobs, pods));
    let (queue, queued) = mpsc::unbounded_channel();
    let triggers = Triggers::new(world.clone(), queue);
    let writer = Writer::new(service.clients.writer.clone(), term.clone());
    let apply = Apply::new(writer, world.clone(), metrics);
    let told = Told::new(Recorder::new(service.clients.writer.clone(), service.name, &service.identity));
    let launcher = Arc::new(Launcher { world, apply, reader: service.clients.reader.clone(), told, args });
    let loops = control::run(launcher, reader, queued, service.metrics.clone(), term.token());
    tokio::select! {
        fed = feeds.run(term.token(), loops) => {
            if let Err(error) = fed {
                tracing::error!(%error, "store");
            }
        }
        () = triggers.run(told_agents, told_stations, told_definitions, told_jobs, told_pods) => {}
    }
}
