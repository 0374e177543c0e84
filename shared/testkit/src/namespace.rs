use std::collections::BTreeMap;

use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Namespace as KubeNamespace, ServiceAccount},
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ObjectMeta, Patch, PatchParams, PostParams},
    discovery,
};
use serde::de::DeserializeOwned;

use crate::{AuditEvent, ControlPlane, control_plane::exists};

/// A namespace of a test's own on the shared control plane. It goes with the control plane: deleting it would cost more
/// than it holds.
pub struct Namespace {
    /// Its name.
    pub name: String,
    plane: &'static ControlPlane,
}

impl Namespace {
    /// A new one, with the `default` service account that pods need.
    ///
    /// # Panics
    /// It cannot be made.
    pub async fn fresh() -> Self {
        Self::fresh_on(ControlPlane::shared().await).await
    }

    /// One on a control plane of the test's own: for a test that looks at all namespaces.
    ///
    /// # Panics
    /// It cannot be made.
    pub async fn fresh_on(plane: &'static ControlPlane) -> Self {
        let name = format!("test-{:016x}", rand::random::<u64>());
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespaces: Api<KubeNamespace> = Api::all(plane.client());
        let wanted = KubeNamespace { metadata, ..KubeNamespace::default() };
        namespaces.create(&PostParams::default(), &wanted).await.expect("a namespace");
        // kube-controller-manager makes it too, where it runs.
        let accounts: Api<ServiceAccount> = Api::namespaced(plane.client(), &name);
        let metadata = ObjectMeta { name: Some("default".to_owned()), ..ObjectMeta::default() };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        exists(accounts.create(&PostParams::default(), &account).await);
        Self { name, plane }
    }

    /// The control plane it is on.
    pub fn plane(&self) -> &'static ControlPlane {
        self.plane
    }

    /// Access to the objects of a kind, with all rights.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.plane.client(), &self.name)
    }

    /// A client with exactly the rights of a service account of this namespace, made if it is not there.
    pub async fn client_as(&self, account: &str) -> Client {
        self.plane.client_as(&self.name, account).await
    }

    /// Creates an object from YAML.
    ///
    /// # Panics
    /// The text is not one of `K`, or the API server refuses it.
    pub async fn create<K>(&self, yaml: &str) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + DeserializeOwned,
    {
        let object: K = serde_saphyr::from_str(yaml).expect("YAML of this kind");
        self.api().create(&PostParams::default(), &object).await.expect("the object is accepted")
    }

    /// Applies manifests of any kind from YAML documents; those without a namespace go into this one.
    ///
    /// # Panics
    /// The text is no YAML, or the API server refuses an object.
    pub async fn apply(&self, yaml: &str) {
        let client = self.plane.client();
        let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(yaml).expect("YAML documents");
        for object in objects.into_iter().filter(|object| !object.is_null()) {
            let mut object: DynamicObject = serde_json::from_value(object).expect("an object of Kubernetes");
            let gvk = object.types.as_ref().and_then(|types| types.try_into().ok()).expect("apiVersion and kind");
            let (kind, capabilities) = discovery::pinned_kind(&client, &gvk).await.expect("a kind that is served");
            let api: Api<DynamicObject> = if capabilities.scope == discovery::Scope::Namespaced {
                let namespace = object.metadata.namespace.get_or_insert_with(|| self.name.clone()).clone();
                Api::namespaced_with(client.clone(), &namespace, &kind)
            } else {
                Api::all_with(client.clone(), &kind)
            };
            let name = object.metadata.name.clone().expect("a name");
            let params = PatchParams::apply("signalbox-test").force();
            api.patch(&name, &params, &Patch::Apply(&object)).await.expect("the object is accepted");
        }
    }

    /// The requests in this namespace so far, the test's own left out.
    pub async fn audit(&self) -> Vec<AuditEvent> {
        let events = self.plane.audit().await;
        events.into_iter().filter(|event| event.namespace == self.name && event.user != "admin").collect()
    }

    /// [`Namespace::audit`] counted by `verb resource` or `verb resource/subresource`, ended requests only.
    pub async fn audit_counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for event in self.audit().await.into_iter().filter(|event| event.complete) {
            let slash = if event.subresource.is_empty() { "" } else { "/" };
            *counts.entry(format!("{} {}{slash}{}", event.verb, event.resource, event.subresource)).or_default() += 1;
        }
        counts
    }
}
