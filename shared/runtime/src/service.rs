//! The frame of a service: what is set up once a process, and what its leader runs.

use std::{future::Future, net::Ipv4Addr};

use clap::Parser;
use futures::StreamExt;
use signalbox_types::bus::released_subject;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{CommonArgs, parse_or_exit},
    bus::{Bus, BusConfig},
    client::Clients,
    health::{self, Health},
    lease::{Elector, LeaseConfig, Term, identity},
    metrics::Metrics,
    scope::Scope,
    shutdown, telemetry,
};

/// Why a service did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Arguments that only a look at the machine can refuse.
    #[error(transparent)]
    Args(#[from] crate::args::ArgsError),
    /// The log filter or the collector's address.
    #[error("telemetry: {0}")]
    Telemetry(#[from] telemetry::TelemetryError),
    /// Two metrics of one name.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// No client of the API server.
    #[error("API server: {0}")]
    Client(#[from] crate::client::ClientError),
    /// No client of the bus.
    #[error("bus: {0}")]
    Bus(#[from] crate::bus::BusError),
    /// The health port or the signals.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// The work of a term ended though nobody asked it to.
    #[error("lease: {0}")]
    Lease(#[from] crate::lease::LeaseError),
}

/// What every part of a service may use; cheap to clone.
#[derive(Clone)]
pub struct Service {
    /// The service's name: `job-launcher`. Its Lease is `signalbox-<name>`.
    pub name: &'static str,
    /// Its own namespace, which has its Lease.
    pub namespace: String,
    /// The namespaces it serves.
    pub scope: Scope,
    /// Clients of the API server.
    pub clients: Clients,
    /// The bus.
    pub bus: Bus,
    /// Its metrics.
    pub metrics: Metrics,
    /// Its health.
    pub health: Health,
    /// Cancelled when the process is asked to end.
    pub shutdown: CancellationToken,
    /// What its Lease calls this process.
    pub identity: String,
}

impl Service {
    /// Sets the service up. An API server or a bus that is away is no error: it is waited for.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub async fn new(name: &'static str, args: &CommonArgs, shutdown: CancellationToken) -> Result<Self, ServiceError> {
        let metrics = Metrics::new()?;
        let clients = Clients::new(args, &metrics).await?;
        let credentials = args.nats_credentials()?.map(|(user, password)| (user, password.expose().to_owned()));
        let identity = identity(args.identity_base());
        let config =
            BusConfig { url: args.nats_url.clone(), credentials, name: format!("signalbox-{name} {identity}") };
        let bus = Bus::connect(config).await?;
        let (namespace, scope) = (args.namespace(), args.scope());
        Ok(Self { name, namespace, scope, clients, bus, metrics, health: Health::new(), shutdown, identity })
    }

    /// The name of the service's Lease.
    pub fn lease(&self) -> String {
        format!("signalbox-{}", self.name)
    }

    /// Stands for election until shutdown and runs `work` in each term. `work` must end soon after its term does.
    ///
    /// # Errors
    /// Work that ended by itself: the process should end too and be started anew.
    pub async fn lead<W, F>(self, work: W) -> anyhow::Result<()>
    where
        W: FnMut(Term) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let lease = self.lease();
        let config =
            LeaseConfig { name: lease.clone(), namespace: self.namespace.clone(), identity: self.identity.clone() };
        let elector = Elector::new(self.clients.writer.clone(), config).with_metrics(self.metrics.clone());
        let nudges = self.bus.subscribe(released_subject(&lease)).await?.map(|_| ());
        let bus = self.bus.clone();
        let announce = async move || {
            bus.publish(released_subject(&lease), None, Vec::new()).await;
            bus.flush().await;
        };
        let shutdown = self.shutdown.clone();
        elector.run(shutdown, nudges, self.health.clone(), announce, work).await?;
        Ok(())
    }
}

/// The whole of a service's `main`: arguments, telemetry, the health port, and `serve` until SIGTERM.
///
/// # Errors
/// What stopped the start, or ended the service before it was asked to.
pub fn parse_and_run<A, S, F>(name: &'static str, common: fn(&A) -> &CommonArgs, serve: S) -> anyhow::Result<()>
where
    A: Parser,
    S: FnOnce(Service, A) -> F,
    F: Future<Output = anyhow::Result<()>>,
{
    let args: A = parse_or_exit();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let settings = common(&args).clone();
        let telemetry = telemetry::init(name, &settings.log, settings.otlp_endpoint()).map_err(ServiceError::from)?;
        let io = |what: String| move |source| ServiceError::Io { what, source };
        let shutdown = shutdown::on_signals().map_err(io("signals".into()))?;
        let service = Service::new(name, &settings, shutdown.clone()).await?;
        let port = settings.health_port;
        let listener = health::bind(port).await.map_err(io(format!("HEALTH_PORT {} {port}", Ipv4Addr::UNSPECIFIED)))?;
        let filter = Some(telemetry.log_filter());
        let health = service.health.clone();
        tokio::spawn(health::serve(listener, health, service.metrics.clone(), filter, shutdown));
        let (namespace, serves, identity) = (&service.namespace, &service.scope, &service.identity);
        tracing::info!(namespace, %serves, identity, "{name} serves");
        let result = serve(service, args).await;
        match &result {
            Ok(()) => tracing::info!("{name} ended"),
            Err(error) => tracing::error!(error = format!("{error:#}"), "{name} ended by itself"),
        }
        result
    })
}
