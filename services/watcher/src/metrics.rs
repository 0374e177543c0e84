use std::collections::HashMap;

use prometheus::{IntCounter, IntGaugeVec, Opts};
use signalbox_runtime::metrics::Metrics;
use signalbox_types::Phase;

/// The metrics that the watcher owns.
#[derive(Clone)]
pub(crate) struct WatchMetrics {
    pub(crate) reconnects: IntCounter,
    pub(crate) resyncs: IntCounter,
    agents: IntGaugeVec,
}

impl WatchMetrics {
    pub(crate) fn register(metrics: &Metrics) -> Result<Self, prometheus::Error> {
        let agents = Opts::new("controller_agents", "Agents in each phase, as the leading watcher sees them.");
        Ok(Self {
            reconnects: metrics.register(IntCounter::new(
                "controller_watch_reconnects_total",
                "Watches that broke and were made again.",
            )?)?,
            resyncs: metrics.register(IntCounter::new(
                "controller_resyncs_total",
                "Listings that were made and published, of any kind.",
            )?)?,
            agents: metrics.register(IntGaugeVec::new(agents, &["phase"])?)?,
        })
    }

    pub(crate) fn set_agents(&self, phases: &HashMap<Phase, i64>) {
        for (phase, count) in phases {
            self.agents.with_label_values(&[phase.as_str()]).set(*count);
        }
    }

    /// A standby knows nothing of Agents: a stale gauge would be added to the leader's.
    pub(crate) fn forget_agents(&self) {
        self.agents.reset();
    }
}
