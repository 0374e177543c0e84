use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use prometheus::{
    CounterVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, exponential_buckets,
};
use signalbox_runtime::{metrics::Metrics, sync::lock};
use signalbox_types::{Phase, Usage};

/// Why a run failed, as `controller_run_failures_total` counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// T1.
    MissingRef,
    /// T2.
    Invalid,
    /// T9 and T10.
    JobFailed,
    /// T11, also of a Succeeded run.
    OutputUnavailable,
    /// T5: the victim.
    Preempted,
    /// Somebody asked for its end.
    Canceled,
    /// Its pod did not start in its Station's time.
    StartTimeout,
}

impl FailureKind {
    const fn label(self) -> &'static str {
        match self {
            Self::MissingRef => "missing_ref",
            Self::Invalid => "invalid",
            Self::JobFailed => "job_failed",
            Self::OutputUnavailable => "output_unavailable",
            Self::Preempted => "preempted",
            Self::Canceled => "canceled",
            Self::StartTimeout => "start_timeout",
        }
    }
}

/// The metrics of runs. Each is recorded after the direct 200 of the write that it counts: a lost answer loses a count
/// and never doubles one.
#[derive(Clone)]
pub(crate) struct RunMetrics {
    pub(crate) jobs_created: IntCounter,
    pub(crate) status_patches: IntCounter,
    pub(crate) queue: Histogram,
    completed: IntCounterVec,
    duration: HistogramVec,
    failures: IntCounterVec,
    tokens: IntCounterVec,
    cost: CounterVec,
    models: Arc<Mutex<BTreeSet<String>>>,
}

/// Models that are told apart. They come from what a CLI prints, so a run could invent any number of them.
const MAX_MODELS: usize = 64;

impl RunMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let completed = Opts::new("controller_runs_completed_total", "Runs that ended, by phase and exit code.");
        let duration = HistogramOpts::new("controller_run_duration_seconds", "From startedAt to completedAt.")
            .buckets(exponential_buckets(60.0, 2.0, 8)?);
        let queue = HistogramOpts::new("controller_run_queue_seconds", "From the Agent's creation to its Job's.")
            .buckets(exponential_buckets(1.0, 2.0, 10)?);
        let failures = Opts::new("controller_run_failures_total", "Runs that failed or lost their output, by kind.");
        let tokens = Opts::new("controller_run_tokens_total", "Tokens that CLIs reported, by model and type.");
        let cost = Opts::new("controller_run_cost_usd_total", "US dollars that CLIs reported, by model.");
        Ok(Self {
            jobs_created: metrics
                .register(IntCounter::new("controller_jobs_created_total", "Jobs that were created (201).")?)?,
            status_patches: metrics.register(IntCounter::new(
                "controller_status_patches_total",
                "Status patches that were accepted (200).",
            )?)?,
            queue: metrics.register(Histogram::with_opts(queue)?)?,
            completed: metrics.register(IntCounterVec::new(completed, &["phase", "exit_code"])?)?,
            duration: metrics.register(HistogramVec::new(duration, &["phase"])?)?,
            failures: metrics.register(IntCounterVec::new(failures, &["kind"])?)?,
            tokens: metrics.register(IntCounterVec::new(tokens, &["model", "type"])?)?,
            cost: metrics.register(CounterVec::new(cost, &["model"])?)?,
            models: Arc::default(),
        })
    }

    /// Counts an end; `seconds` is how long the run took, absent where it never ran.
    pub(crate) fn ended(&self, phase: Phase, exit_code: i32, seconds: Option<f64>) {
        self.completed.with_label_values(&[phase.as_str(), &exit_code.to_string()]).inc();
        if let Some(seconds) = seconds {
            self.duration.with_label_values(&[phase.as_str()]).observe(seconds);
        }
    }

    /// Counts what a run used.
    pub(crate) fn used(&self, usage: Option<&Usage>) {
        let Some(usage) = usage else { return };
        let model = self.model(usage.model.as_deref().unwrap_or("unknown"));
        let types = [
            ("input", usage.input_tokens),
            ("cached_input", usage.cached_input_tokens),
            ("output", usage.output_tokens),
        ];
        for (kind, tokens) in types {
            self.tokens.with_label_values(&[&model, kind]).inc_by(tokens.unwrap_or(0));
        }
        self.cost.with_label_values(&[&model]).inc_by(usage.cost_usd.filter(|cost| *cost >= 0.0).unwrap_or(0.0));
    }

    fn model(&self, name: &str) -> String {
        let mut models = lock(&self.models);
        if !models.contains(name) && models.len() >= MAX_MODELS {
            return "other".to_owned();
        }
        models.insert(name.to_owned());
        name.to_owned()
    }

    pub(crate) fn failed(&self, kind: FailureKind) {
        self.failures.with_label_values(&[kind.label()]).inc();
    }
}
