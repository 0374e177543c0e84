//! What people are told of a run, as Events on its Agent.

use kube::ResourceExt;
use signalbox_agents::outcome::Completion;
use signalbox_runtime::recorder::Recorder;
use signalbox_types::{Agent, Phase};

use crate::plan::Failure;

/// Tells Events of runs.
pub(crate) struct Told(Recorder);

impl Told {
    pub(crate) const fn new(recorder: Recorder) -> Self {
        Self(recorder)
    }

    pub(crate) fn queued(&self, agent: &Agent) {
        self.0.normal(agent, "Queued", &format!("Station {} is full", agent.spec.station_ref));
    }

    pub(crate) fn job_created(&self, agent: &Agent, job: &str) {
        self.0.normal(agent, "JobCreated", &format!("Created Job {job}"));
    }

    /// What has no more to say than that it is not there yet is no warning.
    pub(crate) fn not_started(&self, agent: &Agent, reason: &str, message: &str) {
        if !message.is_empty() {
            self.0.warning(agent, reason, message);
        }
    }

    pub(crate) fn failed_before_start(&self, agent: &Agent, failure: &Failure) {
        self.0.warning(agent, "Failed", failure.told());
    }

    pub(crate) fn preempted(&self, victim: &Agent, by: &Agent) {
        self.0.warning(victim, "Preempted", &format!("Replaced by {}", by.name_any()));
    }

    pub(crate) fn ended(&self, agent: &Agent, completion: &Completion) {
        match completion.phase {
            Phase::Succeeded => {
                self.0.normal(agent, "Succeeded", completion.failure_reason.as_deref().unwrap_or("exit code 0"))
            }
            _ => self.0.warning(agent, "Failed", &completion.told()),
        }
    }
}
