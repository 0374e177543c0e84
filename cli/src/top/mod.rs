//! `top`: the Stations with their runs, queues, tokens and cost; live on a terminal.

mod screen;
mod view;

use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, reflector, reflector::Store, watcher},
};
use signalbox_types::{Agent, Station, Watched};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use crate::{
    args::{Connection, TopArgs},
    fault::Ask,
    fetch, out,
    session::Session,
    text::Palette,
};
use screen::Screen;
use view::{Top, view};

/// Between two looks at what has changed, on a terminal: ages move on too.
const REDRAW: Duration = Duration::from_secs(1);
/// The same where nobody looks at a terminal: only changes are printed.
const REPRINT: Duration = Duration::from_secs(2);

pub(crate) async fn run(at: &Connection, args: TopArgs) -> anyhow::Result<u8> {
    let session = Session::open(at).await?;
    if args.watch {
        return live(&session, args.all_namespaces).await;
    }
    let (stations, agents) = tokio::try_join!(
        fetch::list_all::<Station>(chosen(&session, args.all_namespaces), "stations"),
        fetch::list_all::<Agent>(chosen(&session, args.all_namespaces), "agents"),
    )?;
    let top = view(&stations, &agents, Timestamp::now());
    match args.output {
        Some(format) => out::object(format, &top)?,
        None if top.stations.is_empty() => out::note(&nothing(&session, args.all_namespaces))?,
        None => out::Stream::Stdout.write(&top.text(Palette::of(&stdout()), args.all_namespaces))?,
    }
    Ok(0)
}

fn nothing(session: &Session, all: bool) -> String {
    match all {
        true => "No stations found".to_owned(),
        false => format!("No stations found in {} namespace.", session.namespace),
    }
}

fn chosen<K>(session: &Session, all: bool) -> Api<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    if all { Api::all(session.client.clone()) } else { session.api() }
}

/// A store that a watch keeps up to date, and the watch: it ends only by an error that will not pass.
fn watched<K: Watched + Send + Sync>(api: Api<K>) -> (Store<K>, impl Future<Output = anyhow::Error>) {
    let (store, writer) = reflector::store();
    let config = watcher::Config::default().page_size(fetch::PAGE);
    let slim = watcher(api, config).map_ok(|event| event.modify(Watched::slim));
    let events = reflector(writer, slim.default_backoff());
    let failed = async move {
        let mut events = std::pin::pin!(events);
        loop {
            match events.next().await {
                Some(Err(error)) if matches!(crate::fault::watch_status(&error), Some(401 | 403 | 404)) => {
                    return Ask { verb: "watch", object: K::KIND, if_missing: "" }.watch_failed(error);
                }
                // Anything else is tried again, by the watcher itself.
                Some(_) => {}
                None => return anyhow::anyhow!("the watch of {} has ended", K::KIND),
            }
        }
    };
    (store, failed)
}

async fn live(session: &Session, all: bool) -> anyhow::Result<u8> {
    let (stations, stations_failed) = watched::<Station>(chosen(session, all));
    let (agents, agents_failed) = watched::<Agent>(chosen(session, all));
    let mut failures = stream::select(
        stream::once(Box::pin(stations_failed)).left_stream::<stream::Empty<_>>(),
        stream::once(Box::pin(agents_failed)),
    );
    let mut interrupts = signal(SignalKind::interrupt())?;
    let on_terminal = stdout().is_terminal();
    let mut ticks = interval(if on_terminal { REDRAW } else { REPRINT });
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut screen = Screen::open(on_terminal)?;
    let ready = async {
        // An error means that its watch is gone: `failures` has the reason.
        let _ = tokio::join!(stations.wait_until_ready(), agents.wait_until_ready());
    };
    tokio::select! {
        Some(failed) = failures.next() => return Err(failed),
        _ = interrupts.recv() => return Ok(0),
        () = ready => {}
    }
    loop {
        tokio::select! {
            Some(failed) = failures.next() => return Err(failed),
            _ = interrupts.recv() => return screen.close().map(|()| 0).map_err(Into::into),
            _ = ticks.tick() => screen.draw(&now(&stations, &agents).text(Palette::of(&stdout()), all))?,
        }
    }
}

fn now(stations: &Store<Station>, agents: &Store<Agent>) -> Top {
    let owned = |agent: &std::sync::Arc<Agent>| Agent::clone(agent);
    let agents: Vec<Agent> = agents.state().iter().map(owned).collect();
    let stations: Vec<Station> = stations.state().iter().map(|station| Station::clone(station)).collect();
    view(&stations, &agents, Timestamp::now())
}
