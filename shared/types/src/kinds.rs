//! The kinds that travel over the bus: which objects belong, and what of them is kept.
//!
//! Everything is made slim as soon as it is decoded. A Store holds thousands of objects, a message holds one, and
//! neither has use for a run's output, its parameters (which may carry a credential) or a pod template.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, PodSpec},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Agent, AgentDefinition, AgentSpec, Station, names};

/// The longest string of a slim object, in bytes.
pub const MAX_SLIM_STRING: usize = 4096;
/// The annotations that a slim object keeps: services act on them.
const KEPT_ANNOTATIONS: &[&str] =
    &[names::ANNOTATION_CANCEL, names::ANNOTATION_MODEL, names::ANNOTATION_RESUMED, names::ANNOTATION_TRACEPARENT];

/// Which object, and which version of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectId {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid: an object of the same name made later has another.
    pub uid: String,
    /// Its version, as the API server wrote it.
    pub resource_version: String,
}

impl ObjectId {
    /// The id of `object`, or `None` for one that no API server has named yet.
    pub fn of<K: Resource>(object: &K) -> Option<Self> {
        let meta = object.meta();
        Some(Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone()?,
        })
    }

    /// The version as a number, 0 where it is none. Kubernetes lets clients compare versions of one kind as integers:
    /// <https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions>.
    pub fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }
}

/// The version of `object` as a number, 0 where it has none.
pub fn resource_version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// A kind that the watcher publishes and a Store holds.
pub trait Watched:
    Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// The kind's word in subjects, metrics and logs: its plural, `agents`.
    const KIND: &'static str;
    /// The label selector of the objects that belong; `None` for all.
    const SELECTOR: Option<&'static str> = None;

    /// Takes out all that neither a message nor a Store needs.
    fn slim(&mut self);

    /// False for an object that has lost the label of its kind's selector.
    fn belongs(&self) -> bool {
        match Self::SELECTOR.and_then(|selector| selector.split_once('=')) {
            None => true,
            Some((key, value)) => {
                self.meta().labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|held| held == value)
            }
        }
    }

    /// True for an object that nothing more will happen to: it is not reconciled at a listing.
    fn is_settled(&self) -> bool {
        false
    }
}

impl Watched for Agent {
    const KIND: &'static str = "agents";

    fn slim(&mut self) {
        slim_meta(&mut self.metadata);
        self.metadata.owner_references = None;
        let station_ref = std::mem::take(&mut self.spec.station_ref);
        self.spec = AgentSpec { station_ref, ..AgentSpec::default() };
        if let Some(status) = &mut self.status {
            status.output = None;
            for text in [&mut status.failure_reason, &mut status.pr_url, &mut status.session_id].into_iter().flatten() {
                cut(text);
            }
            status.conditions.iter_mut().for_each(|condition| cut(&mut condition.message));
        }
    }

    fn is_settled(&self) -> bool {
        self.phase().is_terminal()
    }
}

impl Watched for Station {
    const KIND: &'static str = "stations";

    fn slim(&mut self) {
        slim_meta(&mut self.metadata);
        self.metadata.owner_references = None;
        self.spec.template = serde_json::Value::Null;
    }
}

impl Watched for AgentDefinition {
    const KIND: &'static str = "agentdefinitions";

    fn slim(&mut self) {
        slim_meta(&mut self.metadata);
        self.metadata.owner_references = None;
        let full = std::mem::take(&mut self.spec);
        self.spec.execution = full.execution;
        self.spec.batch = full.batch;
        self.spec.realtime = full.realtime;
        self.spec.model = full.model;
        cut(&mut self.spec.model);
    }
}

impl Watched for Job {
    const KIND: &'static str = "jobs";
    const SELECTOR: Option<&'static str> = Some(names::RUN_SELECTOR);

    fn slim(&mut self) {
        slim_meta(&mut self.metadata);
        self.spec = None;
        for condition in self.status.iter_mut().filter_map(|status| status.conditions.as_mut()).flatten() {
            condition.message.iter_mut().for_each(cut);
        }
    }
}

impl Watched for Pod {
    const KIND: &'static str = "pods";
    const SELECTOR: Option<&'static str> = Some(names::RUN_SELECTOR);

    fn slim(&mut self) {
        slim_meta(&mut self.metadata);
        let node_name = self.spec.take().and_then(|spec| spec.node_name);
        self.spec = Some(PodSpec { node_name, ..PodSpec::default() });
        let Some(status) = &mut self.status else { return };
        for condition in status.conditions.iter_mut().flatten() {
            condition.message.iter_mut().for_each(cut);
        }
        let containers = status.container_statuses.iter_mut().chain(&mut status.init_container_statuses);
        for container in containers.flatten() {
            for state in [&mut container.state, &mut container.last_state].into_iter().flatten() {
                state.waiting.iter_mut().filter_map(|waiting| waiting.message.as_mut()).for_each(cut);
                state.terminated.iter_mut().filter_map(|terminated| terminated.message.as_mut()).for_each(cut);
            }
        }
    }
}

fn slim_meta(meta: &mut ObjectMeta) {
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.retain(|name, _| KEPT_ANNOTATIONS.contains(&name.as_str()));
    }
    meta.annotations = meta.annotations.take().filter(|annotations| !annotations.is_empty());
    meta.self_link = None;
    meta.generate_name = None;
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(MAX_SLIM_STRING));
}
