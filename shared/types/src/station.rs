use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::NAME_PATTERN,
    lenient::{self, is_default, lenient_enum},
};

/// Minutes a run may take where the Station does not say.
pub const DEFAULT_DEADLINE_MINUTES: i64 = 30;
/// The longest deadline: 292 years. The Job controller keeps it in nanoseconds of 64 bits, and a longer one overflows
/// there into the past, so that the Job fails at once.
pub const MAX_DEADLINE_MINUTES: i64 = i64::MAX / 1_000_000_000 / 60;
/// Finished runs kept of each terminal phase where the Station does not say.
pub const DEFAULT_HISTORY_LIMIT: i64 = 3;

lenient_enum! {
    /// What happens to a run that finds its Station busy.
    ConcurrencyPolicy {
        /// Up to `maxConcurrentRuns` at a time; more wait.
        Allow = "Allow",
        /// One at a time; more wait.
        Forbid = "Forbid",
        /// One at a time; the newest takes the place of the running one.
        Replace = "Replace",
    }
}

/// The runtime of a recipe: a pod template and the limits of its runs.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "agents.re-cinq.com",
    version = "v1alpha1",
    kind = "Station",
    plural = "stations",
    shortname = "stn",
    namespaced,
    derive = "PartialEq",
    printcolumn = r#"{"name":"Recipe","type":"string","jsonPath":".spec.agentDefRef"}"#,
    printcolumn = r#"{"name":"Deadline","type":"integer","jsonPath":".spec.deadlineMinutes"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["agentDefRef", "template"]))]
pub struct StationSpec {
    /// The recipe that runs here.
    #[serde(default, deserialize_with = "lenient::or_default")]
    #[schemars(length(max = 253), regex(pattern = NAME_PATTERN))]
    pub agent_def_ref: String,
    /// The pod template of its runs, with one container named `agent`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "lenient::preserved_object")]
    pub template: Value,
    /// Minutes a run may take, from the start of its Job.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = DEFAULT_DEADLINE_MINUTES))]
    pub deadline_minutes: Option<i64>,
    /// Minutes a run's pod may take to start; absent means up to the deadline.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub start_timeout_minutes: Option<i64>,
    /// Minutes a run may go without printing a line; absent means up to the deadline.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub stall_timeout_minutes: Option<i64>,
    /// Succeeded runs that are kept.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = DEFAULT_HISTORY_LIMIT))]
    pub successful_runs_history_limit: Option<i64>,
    /// Failed runs that are kept.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("default" = DEFAULT_HISTORY_LIMIT))]
    pub failed_runs_history_limit: Option<i64>,
    /// Runs at a time; 0 means no limit.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_concurrent_runs: Option<i64>,
    /// What happens to a run that finds its Station busy.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub concurrency_policy: ConcurrencyPolicy,
}

impl StationSpec {
    /// Minutes a run may take: at least one, at most [`MAX_DEADLINE_MINUTES`].
    pub fn deadline_minutes(&self) -> i64 {
        self.deadline_minutes.unwrap_or(DEFAULT_DEADLINE_MINUTES).clamp(1, MAX_DEADLINE_MINUTES)
    }

    /// Minutes a run's pod may take to start, at least one; `None` without a limit of its own.
    pub fn start_timeout_minutes(&self) -> Option<i64> {
        self.start_timeout_minutes.map(|minutes| minutes.clamp(1, MAX_DEADLINE_MINUTES))
    }

    /// Minutes a run may go without printing a line, at least one; `None` without such a limit.
    pub fn stall_timeout_minutes(&self) -> Option<i64> {
        self.stall_timeout_minutes.map(|minutes| minutes.clamp(1, MAX_DEADLINE_MINUTES))
    }

    /// Succeeded runs that are kept; a negative limit reads as 0.
    pub fn successful_runs_kept(&self) -> usize {
        kept(self.successful_runs_history_limit)
    }

    /// Failed runs that are kept; a negative limit reads as 0.
    pub fn failed_runs_kept(&self) -> usize {
        kept(self.failed_runs_history_limit)
    }

    /// Runs at a time, `None` without a limit. Forbid and Replace mean one, whatever the number says.
    pub fn concurrency_limit(&self) -> Option<usize> {
        match self.concurrency_policy {
            ConcurrencyPolicy::Forbid | ConcurrencyPolicy::Replace => Some(1),
            ConcurrencyPolicy::Allow => {
                let limit = self.max_concurrent_runs.unwrap_or(0);
                usize::try_from(limit).ok().filter(|limit| *limit > 0)
            }
        }
    }
}

fn kept(limit: Option<i64>) -> usize {
    usize::try_from(limit.unwrap_or(DEFAULT_HISTORY_LIMIT)).unwrap_or(0)
}
