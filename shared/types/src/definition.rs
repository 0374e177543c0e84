use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient::{self, is_default, lenient_enum};

lenient_enum! {
    /// How freely the agent may use its tools.
    PermissionMode {
        /// The CLI's own rules, opened by `allowed_tools`.
        Auto = "auto",
        /// Every tool without asking.
        Bypass = "bypass",
    }
}

lenient_enum! {
    /// How a run is carried out.
    Execution {
        /// One prompt in a Job.
        Interactive = "interactive",
        /// One prompt through the vendor's batch API.
        Batch = "batch",
        /// A Job that takes prompts over time.
        Realtime = "realtime",
    }
}

lenient_enum! {
    /// What happens when a batch is not done in time.
    OnTimeout {
        /// The run fails.
        Fail = "fail",
        /// The run goes on in a Job.
        Fallback = "fallback",
    }
}

lenient_enum! {
    /// Informational: adapters always stream JSON.
    OutputFormat {
        /// Plain text.
        Text = "text",
        /// One JSON document.
        Json = "json",
        /// A JSON document a line.
        StreamJson = "stream-json",
    }
}

lenient_enum! {
    /// Where events go.
    SinkType {
        /// Nowhere but to standard output, which has them anyway.
        Stdout = "stdout",
        /// A POST an event.
        Http = "http",
        /// A line an event.
        File = "file",
    }
}

lenient_enum! {
    /// How an MCP server is reached.
    McpTransport {
        /// A child process.
        Stdio = "stdio",
        /// Streamable HTTP.
        Http = "http",
        /// Server-sent events.
        Sse = "sse",
    }
}

/// The recipe of a run: pure configuration, without status and without detail of the environment.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "agents.re-cinq.com",
    version = "v1alpha1",
    kind = "AgentDefinition",
    plural = "agentdefinitions",
    shortname = "agentdef",
    shortname = "ad",
    namespaced,
    derive = "PartialEq",
    printcolumn = r#"{"name":"Model","type":"string","jsonPath":".spec.model"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[schemars(extend("required" = ["prompt"]))]
pub struct AgentDefinitionSpec {
    /// The prompt; `{name}` tokens are replaced by the run's parameters.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub prompt: String,
    /// What the recipe is for.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub description: String,
    /// The model; it chooses the vendor. Empty means the default model.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub model: String,
    /// Tools the agent may use without asking.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub allowed_tools: Vec<String>,
    /// Tools the agent may not use, in any permission mode.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub disallowed_tools: Vec<String>,
    /// How freely the agent may use its tools.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub permission_mode: PermissionMode,
    /// The most turns the agent may take.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_turns: Option<i64>,
    /// How a run is carried out.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub execution: Execution,
    /// Settings of batch runs.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub batch: Batch,
    /// Settings of realtime runs.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub realtime: Realtime,
    /// Settings of the tool itself; `exec` reads `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "lenient::preserved_object")]
    pub tool_config: Option<Value>,
    /// What the run may use.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub resources: Resources,
    /// What becomes of the run's events.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub output: Output,
}

/// Settings of batch runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Minutes until the batch counts as timed out (1440 where absent).
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2880))]
    pub timeout_minutes: Option<i64>,
    /// What happens then.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub on_timeout: OnTimeout,
    /// The most tokens of the reply (8192 where absent).
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 128_000))]
    pub max_tokens: Option<i64>,
}

/// Settings of realtime runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Realtime {
    /// Minutes without a prompt after which the session ends (15 where absent).
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1440))]
    pub idle_timeout_minutes: Option<i64>,
    /// The most prompts of a session; 0 means no cap.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_prompts: Option<i64>,
}

/// What a run may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// Literal environment variables.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub env: Vec<EnvVar>,
    /// Environment variables from keys of the Secret `agent-secrets`.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub secrets: Vec<SecretVar>,
    /// MCP servers the agent may call.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub mcp_servers: Vec<McpServer>,
    /// Repositories that are cloned into the workspace.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub repos: Vec<Repo>,
    /// Skills that are fetched from `skills_source`.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub skills: Vec<String>,
    /// The registry of skills.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub skills_source: String,
    /// Where the conversation is restored from and saved to.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub conversation: Conversation,
}

/// A literal environment variable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "value"]))]
pub struct EnvVar {
    /// Its name.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Its value, passed on as written.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub value: String,
}

/// An environment variable from a key of the Secret `agent-secrets`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "ref"]))]
pub struct SecretVar {
    /// Its name.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub name: String,
    /// The key of `agent-secrets`.
    #[serde(rename = "ref", default, deserialize_with = "lenient::or_default")]
    pub key: String,
}

/// An MCP server the agent may call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "transport"]))]
pub struct McpServer {
    /// Its name.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub name: String,
    /// How it is reached.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub transport: McpTransport,
    /// The program of a `stdio` server.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub command: String,
    /// The program's arguments.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub args: Vec<String>,
    /// The address of an `http` or `sse` server.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub url: String,
    /// The key of `agent-secrets` that holds the Authorization header.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub headers_secret: String,
}

/// A repository that is cloned into the workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "url"]))]
pub struct Repo {
    /// Its name, and its folder where `path` is empty.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Its address, or `owner/name` at GitHub.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub url: String,
    /// The branch, tag or commit to check out.
    #[serde(rename = "ref", default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub reference: String,
    /// The folder it goes to, strictly below the workspace.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub path: String,
    /// The key of `agent-secrets`, and the variable, that holds the token.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub token_secret: String,
}

/// Where the conversation is restored from and saved to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conversation {
    /// The store of conversations.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub source: String,
    /// The conversation to restore.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub id: String,
    /// The id to save under.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub pin: String,
    /// The key of `agent-secrets` that holds the request's headers.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub headers_secret: String,
}

/// What becomes of a run's events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Informational.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub format: OutputFormat,
    /// The schema of a batch's reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "lenient::preserved_object")]
    pub schema: Option<Value>,
    /// Which lines of the CLI reach the sinks; none means all.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub select: Vec<Select>,
    /// Where events go beside standard output.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub sinks: Vec<Sink>,
    /// Files whose content is reported at the end.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "is_default")]
    pub watch: Vec<Watch>,
}

/// The classes that `select` knows.
pub const SELECT_EVENTS: &[&str] = &["tool_call", "message", "tool_result", "result", "usage"];

/// A rule that lets lines of the CLI reach the sinks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["event"]))]
pub struct Select {
    /// The class. Kept as written: a misspelt class must drop the rule, not become another class.
    #[serde(default, deserialize_with = "lenient::or_default")]
    #[schemars(extend("enum" = SELECT_EVENTS))]
    pub event: String,
    /// The tool, where the class has one.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub tool: String,
    /// Not evaluated.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["assistant", "user"]))]
    pub role: String,
    /// A part of the text.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub contains: String,
}

/// Where events go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["type"]))]
pub struct Sink {
    /// The kind of sink.
    #[serde(rename = "type", default, deserialize_with = "lenient::or_default")]
    pub kind: SinkType,
    /// The address of an `http` sink.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub url: String,
    /// The key of `agent-secrets`, and the variable, that holds the request's headers.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub headers_secret: String,
    /// The path of a `file` sink.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub path: String,
}

/// A file whose content is reported at the end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["event", "path"]))]
pub struct Watch {
    /// The name of the event.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub event: String,
    /// The file, below the workspace.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub path: String,
    /// Where the file is sent instead of being put into the event.
    #[serde(default, deserialize_with = "lenient::or_none", skip_serializing_if = "Option::is_none")]
    pub upload: Option<Upload>,
}

/// Where a watched file is sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["url"]))]
pub struct Upload {
    /// The address; `{agent}` and `{event}` are expanded.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub url: String,
    /// The key of `agent-secrets` that holds the request's headers.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_default")]
    pub headers_secret: String,
}
