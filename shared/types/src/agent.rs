use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Timestamp, Usage,
    lenient::{self, is_default, lenient_enum},
    names,
};

/// The pattern of a reference to another object in the namespace (an RFC 1123 subdomain).
pub(crate) const NAME_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// One run of a Station. `spec` is the caller's, `status` is the controllers' alone.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "agents.re-cinq.com",
    version = "v1alpha1",
    kind = "Agent",
    plural = "agents",
    shortname = "agt",
    namespaced,
    status = "AgentStatus",
    derive = "PartialEq",
    selectable = ".spec.stationRef",
    selectable = ".status.phase",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Station","type":"string","jsonPath":".spec.stationRef"}"#,
    printcolumn = r#"{"name":"Job","type":"string","jsonPath":".status.jobName"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Exit","type":"integer","jsonPath":".status.exitCode","priority":1}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[-1:].reason","priority":1}"#,
    printcolumn = r#"{"name":"Input","type":"integer","jsonPath":".status.usage.inputTokens","priority":1}"#,
    printcolumn = r#"{"name":"Output","type":"integer","jsonPath":".status.usage.outputTokens","priority":1}"#,
    printcolumn = r#"{"name":"Cost","type":"number","jsonPath":".status.usage.costUSD","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["stationRef"]))]
pub struct AgentSpec {
    /// The Station to run on.
    #[serde(default, deserialize_with = "lenient::or_default")]
    #[schemars(length(max = 253), regex(pattern = NAME_PATTERN))]
    pub station_ref: String,
    /// Values for the `{name}` tokens of the recipe's prompt.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub parameters: BTreeMap<String, String>,
    /// The caller's own id of the task, passed to the run as `TASK_ID`.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub task_id: String,
    /// The repository to work on, as `owner/name`, passed to the run as `TARGET_REPO`.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub target_repo: String,
    /// The branch to work on, passed to the run as `BRANCH_NAME`.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub branch: String,
    /// Files that are fetched into the workspace before the run starts.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub files: Vec<InputFile>,
    /// The model, in place of the recipe's.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub model: String,
    /// The session to resume; realtime runs only.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub resume_session: String,
}

/// A file that is fetched into the workspace before the run starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["path", "url"]))]
pub struct InputFile {
    /// Where it goes, relative to the workspace.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub path: String,
    /// Where it comes from.
    #[serde(default, deserialize_with = "lenient::or_default")]
    #[schemars(regex(pattern = r"^https?://"))]
    pub url: String,
    /// The key of `agent-secrets` that holds the request's headers.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub headers_secret: String,
}

lenient_enum! {
    /// Where a run is. Absent means Pending; Succeeded and Failed are final.
    Phase {
        /// Not started.
        Pending = "Pending",
        /// Started: its Job exists, or did.
        Running = "Running",
        /// Ended with exit code 0.
        Succeeded = "Succeeded",
        /// Ended otherwise; `failureReason` says why.
        Failed = "Failed",
    }
}

impl Phase {
    /// True once nothing more will happen to the run.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

lenient_enum! {
    /// The vendor whose batch API runs a batch.
    BatchProvider {
        /// Anthropic Message Batches.
        Anthropic = "anthropic",
        /// Gemini batchGenerateContent.
        Gemini = "gemini",
        /// OpenAI Batch.
        Openai = "openai",
    }
}

/// What the controllers know of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// Where the run is; absent means Pending.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The Job of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// When the run was started.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the run was seen to have ended.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The exit code of the agent; never 0 on a Failed run.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The end of what the run printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Why the run failed, or why a Succeeded run has no output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// Reserved for callers; no controller writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
    /// The batch at the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_id: Option<String>,
    /// The provider of the batch.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub batch_provider: Option<BatchProvider>,
    /// True once a batch timed out and its run goes on in a Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_fallback: Option<bool>,
    /// Failed attempts to clean up at the provider.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub batch_cleanup_attempts: Option<i32>,
    /// The session of a realtime run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Tokens and cost of the run, as its CLI told them.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why the run is where it is: `Admitted`, `Started` and `Finished`.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl AgentStatus {
    /// The condition of that type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }
}

impl Agent {
    /// The phase; an Agent without a status is Pending (case 1).
    pub fn phase(&self) -> Phase {
        self.status.as_ref().and_then(|status| status.phase).unwrap_or_default()
    }

    /// True once a delete was accepted and a finalizer still holds the object.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// True once somebody has asked for the run's end: [`names::ANNOTATION_CANCEL`] is `true`.
    pub fn is_cancel_requested(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(names::ANNOTATION_CANCEL)).is_some_and(|value| value == "true")
    }

    /// The Job of a status that names one; an empty name counts as none.
    pub fn recorded_job(&self) -> Option<&str> {
        self.status.as_ref().and_then(|status| status.job_name.as_deref()).filter(|name| !name.is_empty())
    }
}
