//! The Job of a run: `docs/contract/agents.md` section 3.

mod env;
mod security;
mod template;

use k8s_openapi::api::batch::v1::Job;
use serde_json::{Map, Value, json};
use signalbox_types::names;
use signalbox_vendors::{ArgvError, Invocation, argv};

use crate::Run;

/// The longest argument that Linux passes to a program, without its final NUL.
const MAX_ARGUMENT: usize = 131_071;
/// A finished Job stays this long for whoever has not seen its end.
const TTL_SECONDS: i64 = 3600;

/// What a Job needs beside its run.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// The image of the init container.
    pub agent_image: String,
    /// The W3C trace context of the run.
    pub traceparent: Option<String>,
}

/// Why a run gives no Job. The texts are those of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// There is no template.
    #[error("Station template must be an object")]
    TemplateNotAnObject,
    /// The template has no pod spec.
    #[error("Station template needs a spec")]
    SpecMissing,
    /// The pod spec has no list of containers.
    #[error("Station template.spec.containers is required")]
    ContainersMissing,
    /// No container is there to run the agent.
    #[error("Station template has no container named 'agent'")]
    AgentContainerMissing,
    /// Which of them should run the agent is open.
    #[error("Station template has more than one container named 'agent'")]
    AgentContainerRepeated,
    /// The pod would share a namespace of the node.
    #[error("Station template must not enable {0} on an agent run pod")]
    HostNamespace(&'static str),
    /// The pod would share files of the node.
    #[error("Station template must not mount a hostPath volume into an agent run pod")]
    HostPath,
    /// A container would have all rights on the node.
    #[error("Station template container must not be privileged")]
    Privileged,
    /// The pod would have rights on the Kubernetes API.
    #[error("Station template must not project a service account token into an agent run pod")]
    ServiceAccountToken,
    /// The recipe gives no command.
    #[error(transparent)]
    Argv(#[from] ArgvError),
    /// Linux would not start a program with it.
    #[error("rendered prompt exceeds {MAX_ARGUMENT} bytes")]
    PromptTooLong,
    /// A field is not of the type that Kubernetes gives it. Its value is left out: it may be a secret.
    #[error("Station {field}: {expected}")]
    TemplateField {
        /// The path of the field.
        field: String,
        /// What should have been there.
        expected: String,
    },
    /// No API server has named the Agent yet.
    #[error("Agent has no name, namespace or uid")]
    AgentUnnamed,
}

impl BuildError {
    /// The `failureReason` of the run, as T2 has it.
    pub fn failure_reason(&self) -> String {
        format!("{}{self}", names::INVALID_RUN_PREFIX)
    }
}

/// The Job of an interactive run: always the same for the same run, so that a second attempt finds the first.
pub fn build(run: &Run<'_>, options: &JobOptions) -> Result<Job, BuildError> {
    let (name, namespace, uid) = identity(run)?;
    let template = template::checked(&run.station.spec.template)?;
    let recipe = env::without_reserved(&run.definition.spec);
    let prompt = run.prompt();
    let argv = argv(&Invocation { vendor: run.vendor(), model: run.model(), prompt: &prompt, definition: &recipe })?;
    // Some CLIs take the prompt in one word with its option.
    if argv.iter().any(|word| word.len() > MAX_ARGUMENT && word.ends_with(&prompt)) {
        return Err(BuildError::PromptTooLong);
    }

    let env = env::environment(run, &recipe, options.traceparent.as_deref());
    let labels = labels(run);
    let template = template::pod(template, &argv, env, &labels, &options.agent_image);
    let mut metadata = json!({
        "name": names::job_name(name),
        "namespace": namespace,
        "labels": labels,
        "ownerReferences": [{
            "apiVersion": names::API_VERSION, "kind": "Agent", "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    metadata["annotations"] = annotations(run, options).into();
    decode(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "activeDeadlineSeconds": run.station.spec.deadline_minutes().saturating_mul(60),
            "backoffLimit": 0,
            "template": template,
        },
    }))
}

fn identity<'a>(run: &Run<'a>) -> Result<(&'a str, &'a str, &'a str), BuildError> {
    let meta = &run.agent.metadata;
    match (meta.name.as_deref(), meta.namespace.as_deref(), meta.uid.as_deref()) {
        (Some(name), Some(namespace), Some(uid)) => Ok((name, namespace, uid)),
        _ => Err(BuildError::AgentUnnamed),
    }
}

fn labels(run: &Run<'_>) -> Map<String, Value> {
    let agent = run.agent.metadata.name.as_deref().unwrap_or_default();
    let labels = [
        (names::LABEL_COMPONENT, names::COMPONENT_JOB.to_owned()),
        (names::LABEL_AGENT, names::shortened(agent)),
        (names::LABEL_STATION, names::shortened(&run.agent.spec.station_ref)),
    ];
    labels.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn annotations(run: &Run<'_>, options: &JobOptions) -> Map<String, Value> {
    let resumed = !run.definition.spec.resources.conversation.id.is_empty();
    let annotations = [
        (names::ANNOTATION_MODEL, Some(run.model().to_owned())),
        (names::ANNOTATION_RESUMED, resumed.then(|| "true".to_owned())),
        (names::ANNOTATION_TRACEPARENT, options.traceparent.clone()),
    ];
    annotations.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect()
}

fn decode(job: Value) -> Result<Job, BuildError> {
    serde_path_to_error::deserialize(job).map_err(|error| {
        let path = error.path().to_string();
        let message = error.inner().to_string();
        let expected = message.find("expected ").map_or("not understood", |at| &message[at..]);
        BuildError::TemplateField {
            field: path.strip_prefix("spec.").unwrap_or(&path).to_owned(),
            expected: expected.to_owned(),
        }
    })
}
