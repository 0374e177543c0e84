use anyhow::Context;
use k8s_openapi::NamespaceResourceScope;
use kube::{
    Api, Client, Config, Resource,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::args::Connection;

/// A client, and the namespace that is meant.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Session {
    /// Reads the kubeconfig as kubectl does: `--kubeconfig`, else `KUBECONFIG`, else `~/.kube/config`, else the service
    /// account of the pod that this runs in.
    pub(crate) async fn open(connection: &Connection) -> anyhow::Result<Self> {
        let mut config = config(connection).await?;
        // kube's own layer resends what was answered with 503 or 504, a POST too: one call could make two runs.
        config.default_retry = false;
        let namespace = connection.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let server = config.cluster_url.to_string();
        let client = Client::try_from(config).with_context(|| {
            format!("no client for {server}; are the credentials of the kubeconfig's user complete?")
        })?;
        Ok(Self { client, namespace })
    }

    /// The objects of a kind in the namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        self.api_in(&self.namespace)
    }

    /// The objects of a kind in another namespace.
    pub(crate) fn api_in<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// How an object is named in messages.
    pub(crate) fn named(&self, kind: &str, name: &str) -> String {
        format!("{kind} \"{name}\" in namespace \"{}\"", self.namespace)
    }
}

async fn config(connection: &Connection) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: connection.context.clone(), ..KubeConfigOptions::default() };
    if let Some(file) = &connection.kubeconfig {
        let way_out = || format!("kubeconfig {}: give another one with --kubeconfig", file.display());
        let kubeconfig = Kubeconfig::read_from(file).with_context(way_out)?;
        return Config::from_custom_kubeconfig(kubeconfig, &options).await.with_context(way_out);
    }
    match Config::from_kubeconfig(&options).await {
        Ok(config) => Ok(config),
        Err(error) if connection.context.is_none() => Config::incluster()
            .map_err(|_| error)
            .context("no usable kubeconfig: set KUBECONFIG, or name a file with --kubeconfig"),
        Err(error) => Err(error).context("kubeconfig: `kubectl config get-contexts` lists its contexts"),
    }
}
