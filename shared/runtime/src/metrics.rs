//! Metrics in the Prometheus text format, under the names of `docs/contract/agents.md` section 15.
//!
//! Labels are bounded by what this code writes: no text of an error and no name of an object becomes one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus::{
    IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
    core::{Collector, Desc},
    proto::{LabelPair, Metric, MetricFamily, MetricType, Summary as SummaryValue},
};

/// The content type of the text format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The registry of a process with the metrics that every service has; cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    api_requests: Summary,
    is_leader: IntGauge,
    reconciles: IntCounterVec,
    reconcile_duration: Summary,
}

impl Metrics {
    /// A registry with the common metrics in it.
    ///
    /// # Errors
    /// A name is not one that Prometheus takes: a mistake in this file.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let metrics = Self {
            api_requests: Summary::new(
                "controller_apiserver_request_duration_seconds",
                "Duration of requests to the API server by HTTP verb, watches excluded.",
                Some("verb"),
            )?,
            is_leader: IntGauge::new("controller_is_leader", "Whether this replica holds the Lease.")?,
            reconciles: IntCounterVec::new(
                Opts::new("controller_reconciles_total", "Reconciles by result."),
                &["result"],
            )?,
            reconcile_duration: Summary::new(
                "controller_reconcile_duration_seconds",
                "Duration of reconciles, failed ones included.",
                None,
            )?,
            registry,
        };
        metrics.register(metrics.api_requests.clone())?;
        metrics.register(metrics.is_leader.clone())?;
        metrics.register(metrics.reconciles.clone())?;
        metrics.register(metrics.reconcile_duration.clone())?;
        Ok(metrics)
    }

    /// Adds a metric of the service's own and hands it back.
    ///
    /// # Errors
    /// Its name is taken.
    pub fn register<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, prometheus::Error> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    /// Everything, as `/metrics` answers it.
    ///
    /// # Errors
    /// A metric does not encode.
    pub fn encode(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }

    /// Counts one request to the API server; `verb` is that of HTTP, `GET`.
    pub fn observe_api_request(&self, verb: &str, took: Duration) {
        self.api_requests.observe(verb, took);
    }

    /// Says whether this replica leads.
    pub fn set_leader(&self, leads: bool) {
        self.is_leader.set(i64::from(leads));
    }

    /// Counts one reconcile.
    pub fn observe_reconcile(&self, succeeded: bool, took: Duration) {
        self.reconciles.with_label_values(&[if succeeded { "success" } else { "error" }]).inc();
        self.reconcile_duration.observe("", took);
    }
}

/// A summary without quantiles: the sum and the count of durations, by one label or none. The prometheus crate has the
/// type but no collector of it, and a histogram would come under another type than the contract's.
#[derive(Clone)]
pub struct Summary {
    desc: Arc<Desc>,
    label: Option<&'static str>,
    values: Arc<Mutex<BTreeMap<String, (f64, u64)>>>,
}

impl Summary {
    /// A summary in seconds, with `label` where there is one.
    ///
    /// # Errors
    /// A name is not one that Prometheus takes.
    pub fn new(name: &str, help: &str, label: Option<&'static str>) -> Result<Self, prometheus::Error> {
        let labels = label.iter().map(|label| (*label).to_owned()).collect();
        let desc = Desc::new(name.to_owned(), help.to_owned(), labels, Default::default())?;
        Ok(Self { desc: Arc::new(desc), label, values: Arc::default() })
    }

    /// Adds a duration under the label's `value`; a summary without a label ignores it.
    pub fn observe(&self, value: &str, took: Duration) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if !values.contains_key(value) {
            values.insert(value.to_owned(), (0.0, 0));
        }
        if let Some((sum, count)) = values.get_mut(value) {
            *sum += took.as_secs_f64();
            *count += 1;
        }
    }

    fn metric(&self, value: &str, sum: f64, count: u64) -> Metric {
        let mut summary = SummaryValue::default();
        summary.set_sample_sum(sum);
        summary.set_sample_count(count);
        let mut metric = Metric::default();
        metric.set_summary(summary);
        if let Some(name) = self.label {
            let mut label = LabelPair::default();
            label.set_name(name.to_owned());
            label.set_value(value.to_owned());
            metric.set_label(vec![label]);
        }
        metric
    }
}

impl Collector for Summary {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut family = MetricFamily::default();
        family.set_name(self.desc.fq_name.clone());
        family.set_help(self.desc.help.clone());
        family.set_field_type(MetricType::SUMMARY);
        family.set_metric(values.iter().map(|(value, (sum, count))| self.metric(value, *sum, *count)).collect());
        vec![family]
    }
}
