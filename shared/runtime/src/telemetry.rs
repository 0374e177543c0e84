//! Logs as JSON lines on standard output, with a filter that can be changed while the service runs, and traces over OTLP
//! where an endpoint is set. One run is one trace: [`traceparent`] and [`continue_trace`] carry it over the bus and into
//! a Job.

use std::{collections::HashMap, time::Duration};

use opentelemetry::{propagation::TextMapPropagator, trace::TracerProvider as _};
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tracing::{Span, Subscriber, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::Targets, fmt::MakeWriter, layer::SubscriberExt, registry::LookupSpan, reload,
    util::SubscriberInitExt,
};

/// How long the last spans may take to be sent at shutdown.
pub const FLUSH_LIMIT: Duration = Duration::from_millis(100);
/// The W3C header, and the name of the field wherever a trace context travels.
const TRACEPARENT: &str = "traceparent";

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter does not parse.
    #[error("log filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The exporter cannot be built from the endpoint.
    #[error("OTLP exporter: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// The process has a subscriber already.
    #[error("telemetry is set up twice: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
    /// The process is ending.
    #[error("log filter: {0}")]
    Gone(#[from] reload::Error),
}

/// Changes what is logged; cheap to clone.
#[derive(Clone)]
pub struct LogFilter(reload::Handle<EnvFilter, Registry>);

impl LogFilter {
    /// Logs by `filter` from now on.
    ///
    /// # Errors
    /// It does not parse; the old one stays.
    pub fn set(&self, filter: &str) -> Result<(), TelemetryError> {
        Ok(self.0.reload(env_filter(filter)?)?)
    }
}

/// Telemetry of a process. Dropping it sends the last spans, within [`FLUSH_LIMIT`]: keep it until the end of main.
#[must_use = "dropping it ends the traces"]
pub struct Telemetry {
    filter: LogFilter,
    traces: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// The handle that changes the log filter.
    pub fn log_filter(&self) -> LogFilter {
        self.filter.clone()
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        if let Some(traces) = self.traces.take()
            && let Err(error) = traces.shutdown_with_timeout(FLUSH_LIMIT)
        {
            tracing::warn!(%error, "the last spans may be lost");
        }
    }
}

/// Sets up the telemetry of this process: logs by `filter`, traces to `otlp_endpoint` under the name `service`.
///
/// # Errors
/// See [`TelemetryError`]. A collector that is away is none: spans are dropped until it is there.
pub fn init(service: &'static str, filter: &str, otlp_endpoint: Option<&str>) -> Result<Telemetry, TelemetryError> {
    let (subscriber, telemetry) = subscriber(service, filter, otlp_endpoint, std::io::stdout)?;
    subscriber.try_init()?;
    Ok(telemetry)
}

/// The filter, without what kube's client says at warn: the whole body of an answer that does not decode, a recipe's
/// variables with it.
fn env_filter(filter: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    Ok(EnvFilter::try_new(filter)?.add_directive("kube_client::client=error".parse()?))
}

/// What [`init`] sets up, with a writer of the caller's.
fn subscriber<W>(
    service: &'static str,
    filter: &str,
    otlp_endpoint: Option<&str>,
    writer: W,
) -> Result<(impl Subscriber + Send + Sync + use<W>, Telemetry), TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(env_filter(filter)?);
    let logs = tracing_subscriber::fmt::layer().json().with_writer(writer).with_filter(filter);
    let traces = otlp_endpoint.map(|endpoint| provider(service, endpoint)).transpose()?;
    let spans = traces.as_ref().map(|traces| span_layer(traces, service));
    let subscriber = Registry::default().with(logs).with(spans);
    Ok((subscriber, Telemetry { filter: LogFilter(handle), traces }))
}

/// Our own spans from level info up, whatever is logged: a quiet log must not cut a trace.
fn span_layer<S>(traces: &SdkTracerProvider, service: &'static str) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    let ours = Targets::new().with_default(LevelFilter::OFF).with_target("signalbox", LevelFilter::INFO);
    tracing_opentelemetry::layer().with_tracer(traces.tracer(service)).with_filter(ours)
}

fn provider(service: &'static str, endpoint: &str) -> Result<SdkTracerProvider, ExporterBuildError> {
    crate::client::install_crypto();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_headers(HashMap::new())
        .build()?;
    let resource = Resource::builder().with_service_name(service).build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

/// The current span as a W3C `traceparent`; `None` where no traces are made.
pub fn traceparent() -> Option<String> {
    let mut fields = HashMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut fields);
    fields.remove(TRACEPARENT)
}

/// Makes `span` part of the trace that `traceparent` names. One that does not parse is ignored: it came over the bus,
/// and a trace is never worth a failed run.
pub fn continue_trace(span: &Span, traceparent: &str) {
    let fields = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
    // A span that was entered has a trace already; that is the caller's choice to keep.
    let _ = span.set_parent(TraceContextPropagator::new().extract(&fields));
}
