//! Follows a run to its end: its phases, what it waits for, what it prints. The watch of the Agent decides; the pod and
//! its log are shown as far as they can be read.

mod log;
mod teller;

use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::ListParams,
    runtime::{WatchStreamExt, watcher},
};
use signalbox_agents::outcome;
use signalbox_types::{Agent, AgentDefinition, Station, names};
use signalbox_vendors::{Vendor, model_or_default};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub(crate) use teller::usage_words;
use teller::{Teller, exit_code};

use crate::{
    cancel,
    fault::{Ask, watch_status},
    fetch::{self, Seen},
    out::{self, Stream},
    pods,
    session::Session,
};

/// Exit code of a follower that was told to go, as a shell has it: 128 + SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;
/// How long the end of the log is waited for once the run has ended.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// What of the log is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Nothing: only the end is waited for.
    None,
    /// The agent's lines as they are, and nothing else.
    Raw,
    /// For people, with all that happens to the run.
    Pretty,
}

/// How to follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) lines: Lines,
    /// Ctrl-C cancels the run.
    pub(crate) cancel_on_interrupt: bool,
    /// Where it is shown.
    pub(crate) stream: Stream,
    /// Whose lines they are.
    pub(crate) vendor: Vendor,
}

/// What the tasks have to say.
enum News {
    Agent(Box<Result<Option<Agent>, watcher::Error>>),
    Pod(Box<Pod>),
    /// The log, or the pod, cannot be had, and why.
    Unseen(String),
    Line(log::Line),
    LogEnded,
}

/// Where the log is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Log {
    NotBegun,
    Flowing,
    Ended,
}

/// Ctrl-C from here on: it no longer ends the program by itself.
pub(crate) fn interrupts() -> std::io::Result<Signal> {
    signal(SignalKind::interrupt())
}

/// Follows the run to its end. Returns the Agent as it ended, and the exit code: the run's, or 130 and no Agent where
/// Ctrl-C came first.
pub(crate) async fn follow(
    session: &Session,
    agent: Agent,
    options: Options,
    interrupts: &mut Signal,
) -> anyhow::Result<(u8, Option<Agent>)> {
    let (sender, news) = mpsc::channel(64);
    let mut follower = Follower {
        session,
        teller: Teller::new(&agent, options.lines, options.stream, options.vendor),
        options,
        agent,
        log: Log::NotBegun,
        tasks: JoinSet::new(),
        sender,
        drained_by: None,
        asked_for_end: false,
    };
    follower.watch();
    follower.run(news, interrupts).await
}

struct Follower<'a> {
    session: &'a Session,
    options: Options,
    teller: Teller,
    agent: Agent,
    log: Log,
    // Dropped with us, and its tasks with it.
    tasks: JoinSet<()>,
    sender: mpsc::Sender<News>,
    /// Set once the run has ended: from then on only the rest of its log is waited for.
    drained_by: Option<Instant>,
    asked_for_end: bool,
}

impl Follower<'_> {
    fn watch(&mut self) {
        let name = self.agent.name_any();
        let (agents, to) = (self.session.api::<Agent>(), self.sender.clone());
        let agent = name.clone();
        self.tasks.spawn(async move {
            let mut events = std::pin::pin!(watcher::watch_object(agents, &agent).default_backoff());
            while let Some(event) = events.next().await {
                if to.send(News::Agent(Box::new(event))).await.is_err() {
                    return;
                }
            }
        });
        if self.options.lines != Lines::None {
            let (pods, to) = (self.session.api::<Pod>(), self.sender.clone());
            self.tasks.spawn(watch_pods(pods, pods_of(&name), to));
        }
    }

    async fn run(
        mut self,
        mut news: mpsc::Receiver<News>,
        interrupts: &mut Signal,
    ) -> anyhow::Result<(u8, Option<Agent>)> {
        // A run that has ended already needs no watch to say so.
        let agent = self.agent.clone();
        self.on_agent(agent).await?;
        while !self.is_done() {
            let limit = self.drained_by;
            tokio::select! {
                // We hold a sender, so the channel never closes.
                Some(news) = news.recv() => self.on(news).await?,
                _ = interrupts.recv() => if let Some(code) = self.on_interrupt().await? { return Ok((code, None)) },
                () = async { if let Some(limit) = limit { sleep_until(limit).await } }, if limit.is_some() => break,
            }
        }
        self.teller.end(&self.agent)?;
        Ok((exit_code(&self.agent), Some(self.agent)))
    }

    fn is_done(&self) -> bool {
        self.drained_by.is_some() && self.log == Log::Ended
    }

    async fn on(&mut self, news: News) -> anyhow::Result<()> {
        match news {
            News::Agent(seen) => self.on_watch(*seen).await?,
            News::Pod(pod) => self.on_pod(&pod)?,
            News::Unseen(why) => {
                self.log = Log::Ended;
                self.teller.unseen(&why)?;
            }
            News::Line(line) => self.teller.line(&line)?,
            News::LogEnded => self.log = Log::Ended,
        }
        Ok(())
    }

    async fn on_watch(&mut self, seen: Result<Option<Agent>, watcher::Error>) -> anyhow::Result<()> {
        let object = self.session.named("agent", &self.agent.name_any());
        match seen {
            Ok(Some(agent)) if agent.uid() == self.agent.uid() => self.on_agent(agent).await,
            // What becomes of it once it has ended is of no interest.
            _ if self.drained_by.is_some() => Ok(()),
            Ok(_) => bail!(
                "{object} was deleted while it was followed; under concurrencyPolicy Replace a newer run takes its place"
            ),
            Err(error) if is_final(&error) => {
                Err(Ask { verb: "watch", object: &object, if_missing: "" }.watch_failed(error))
            }
            // A watch that broke is begun again; the run does not depend on it.
            Err(_) => Ok(()),
        }
    }

    async fn on_agent(&mut self, agent: Agent) -> anyhow::Result<()> {
        self.teller.agent(&agent)?;
        let ended = agent.phase().is_terminal();
        self.agent = agent;
        if !ended || self.drained_by.is_some() {
            return Ok(());
        }
        self.drained_by = Some(Instant::now() + DRAIN_LIMIT);
        if self.options.lines == Lines::None {
            self.log = Log::Ended;
        } else if self.log == Log::NotBegun {
            match self.last_pod().await {
                Some(pod) => self.begin_log(&pod.name_any()),
                None => self.log = Log::Ended,
            }
        }
        Ok(())
    }

    fn on_pod(&mut self, pod: &Pod) -> std::io::Result<()> {
        if !is_of(pod, &self.agent) {
            return Ok(());
        }
        self.teller.pod(pod)?;
        if self.log == Log::NotBegun && pods::has_started(pod) {
            self.begin_log(&pod.name_any());
        }
        Ok(())
    }

    /// The pod of a run that ended before its pod was seen to start.
    async fn last_pod(&self) -> Option<Pod> {
        match find_pod(self.session, &self.agent).await {
            Ok(Seen::Found(pod)) => Some(pod),
            Ok(Seen::Missing | Seen::Denied) | Err(_) => None,
        }
    }

    fn begin_log(&mut self, pod: &str) {
        self.log = Log::Flowing;
        let with_init = self.options.lines == Lines::Pretty;
        let (pods, to) = (self.session.api::<Pod>(), self.sender.clone());
        self.tasks.spawn(log::pump(pods, pod.to_owned(), with_init, to));
    }

    async fn on_interrupt(&mut self) -> anyhow::Result<Option<u8>> {
        let (name, namespace) = (self.agent.name_any(), &self.session.namespace);
        if self.options.cancel_on_interrupt && !self.asked_for_end {
            self.asked_for_end = true;
            cancel::request(self.session, &name).await?;
            out::note(&format!("\ncancel of agent \"{name}\" is requested; Ctrl-C again leaves it alone"))?;
            return Ok(None);
        }
        out::note(&format!(
            "\nDetached: agent \"{name}\" goes on.\n  \
             follow it again  kubectl signalbox logs -f {name} -n {namespace}\n  \
             end it           kubectl signalbox cancel {name} -n {namespace}"
        ))?;
        Ok(Some(INTERRUPTED))
    }
}

/// The label selector of the pods of an Agent.
fn pods_of(agent: &str) -> String {
    format!("{}={}", names::LABEL_JOB_NAME, names::job_name(agent))
}

/// False for the pod of an older run of the same name, which may still be there.
fn is_of(pod: &Pod, agent: &Agent) -> bool {
    pod.metadata.creation_timestamp >= agent.metadata.creation_timestamp
}

/// The pod of a run, if it is still there.
pub(crate) async fn find_pod(session: &Session, agent: &Agent) -> anyhow::Result<Seen<Pod>> {
    let params = ListParams::default().labels(&pods_of(&agent.name_any()));
    let object = format!("pods in namespace \"{}\"", session.namespace);
    let ask = Ask { verb: "list", object: &object, if_missing: "" };
    Ok(match fetch::seen(session.api::<Pod>().list(&params).await, &ask)? {
        Seen::Found(pods) => {
            let newest = outcome::newest(pods.items.iter().filter(|pod| is_of(pod, agent)));
            newest.cloned().map_or(Seen::Missing, Seen::Found)
        }
        Seen::Missing => Seen::Missing,
        Seen::Denied => Seen::Denied,
    })
}

async fn watch_pods(pods: Api<Pod>, labels: String, to: mpsc::Sender<News>) {
    let config = watcher::Config::default().labels(&labels);
    let mut events = std::pin::pin!(watcher(pods, config).default_backoff().applied_objects());
    while let Some(event) = events.next().await {
        let news = match event {
            Ok(pod) => News::Pod(Box::new(pod)),
            Err(error) if watch_status(&error) == Some(403) => {
                let why = "you may not watch pods here: only the phases are shown".to_owned();
                let _ = to.send(News::Unseen(why)).await;
                return;
            }
            Err(_) => continue,
        };
        if to.send(news).await.is_err() {
            return;
        }
    }
}

/// True for what trying again does not mend.
fn is_final(error: &watcher::Error) -> bool {
    matches!(watch_status(error), Some(401 | 403 | 404))
}

/// The run that is to be followed.
pub(crate) async fn get_agent(session: &Session, name: &str) -> anyhow::Result<Agent> {
    let ask = Ask {
        verb: "get",
        object: &session.named("agent", name),
        if_missing: &format!("`kubectl get agents -n {}` lists those that are", session.namespace),
    };
    session.api::<Agent>().get(name).await.map_err(|error| ask.failed(error))
}

/// The vendor of a run: of its own model, else of the recipe's, as far as that can be read.
pub(crate) async fn vendor_of(session: &Session, agent: &Agent) -> Vendor {
    if !agent.spec.model.is_empty() {
        return Vendor::route(&agent.spec.model);
    }
    let recipe = async {
        let station = session.api::<Station>().get(&agent.spec.station_ref).await?;
        session.api::<AgentDefinition>().get(&station.spec.agent_def_ref).await
    };
    let recipe: kube::Result<AgentDefinition> = recipe.await;
    Vendor::route(model_or_default(recipe.as_ref().map_or("", |recipe| &recipe.spec.model)))
}
