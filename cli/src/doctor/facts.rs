use std::collections::BTreeMap;

use futures::future::try_join_all;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
        coordination::v1::Lease,
        core::v1::{Namespace, Secret},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PostParams},
};
use signalbox_types::{AgentDefinition, Station, crd, names};

use crate::{
    fault::Ask,
    fetch::{self, Seen},
    session::Session,
};

/// The services: each has a Deployment and a Lease `signalbox-<service>`.
pub(super) const SERVICES: [&str; 3] = ["watcher", "job-launcher", "pruner"];
/// The Deployment of the bus.
pub(super) const BUS: &str = "nats";

/// What the commands need of the caller's rights: verb, group, resource, subresource, and the commands.
const RIGHTS: [(&str, &str, &str, &str, &str); 14] = [
    ("create", names::GROUP, "agents", "", "run"),
    ("get", names::GROUP, "agents", "", "every command"),
    ("list", names::GROUP, "agents", "", "top, prune, explain, --follow"),
    ("watch", names::GROUP, "agents", "", "--follow, --wait, top -w"),
    ("patch", names::GROUP, "agents", "", "cancel"),
    ("delete", names::GROUP, "agents", "", "prune"),
    ("get", names::GROUP, "stations", "", "explain, and the parameters of run"),
    ("list", names::GROUP, "stations", "", "top, prune"),
    ("get", names::GROUP, "agentdefinitions", "", "explain, and the parameters of run"),
    ("get", "batch", "jobs", "", "explain"),
    ("list", "", "pods", "", "logs, explain"),
    ("watch", "", "pods", "", "--follow"),
    ("get", "", "pods", "log", "logs, --follow"),
    ("list", "", "events", "", "explain"),
];

/// A right of the caller.
#[derive(Clone, Debug)]
pub(super) struct Right {
    /// As in `get pods/log`.
    pub(super) what: String,
    /// The commands that need it.
    pub(super) needed_by: &'static str,
    pub(super) allowed: bool,
}

/// All that the checks look at.
pub(super) struct Facts {
    pub(super) namespace: String,
    pub(super) services_namespace: String,
    /// The definitions of the cluster, beside ours.
    pub(super) definitions: Vec<(CustomResourceDefinition, Seen<CustomResourceDefinition>)>,
    /// Those of the services and of the bus, by name.
    pub(super) deployments: Vec<(String, Seen<Deployment>)>,
    pub(super) leases: Vec<(String, Seen<Lease>)>,
    /// Whether the Secret is there. Its content is never asked for.
    pub(super) secret: Seen<()>,
    pub(super) stations: Seen<Vec<Station>>,
    pub(super) recipes: Seen<Vec<AgentDefinition>>,
    pub(super) rights: Vec<Right>,
    /// The labels of the namespace of the runs.
    pub(super) labels: Seen<BTreeMap<String, String>>,
}

pub(super) async fn gather(session: &Session, services_namespace: &str) -> anyhow::Result<Facts> {
    let (deployments, leases) =
        (session.api_in::<Deployment>(services_namespace), session.api_in::<Lease>(services_namespace));
    let mut facts = Facts {
        namespace: session.namespace.clone(),
        services_namespace: services_namespace.to_owned(),
        definitions: definitions(session).await?,
        deployments: Vec::new(),
        leases: Vec::new(),
        secret: secret(session).await?,
        stations: all(&session.api(), "stations").await?,
        recipes: all(&session.api(), "agentdefinitions").await?,
        rights: rights(session).await?,
        labels: labels(session).await?,
    };
    for name in SERVICES.map(|service| format!("signalbox-{service}")) {
        facts.leases.push((name.clone(), fetch::get(&leases, &name, &format!("lease \"{name}\"")).await?));
        facts
            .deployments
            .push((name.clone(), fetch::get(&deployments, &name, &format!("deployment \"{name}\"")).await?));
    }
    let bus = fetch::get(&deployments, BUS, &format!("deployment \"{BUS}\"")).await?;
    facts.deployments.push((BUS.to_owned(), bus));
    Ok(facts)
}

async fn definitions(
    session: &Session,
) -> anyhow::Result<Vec<(CustomResourceDefinition, Seen<CustomResourceDefinition>)>> {
    let api: Api<CustomResourceDefinition> = Api::all(session.client.clone());
    let pairs = crd::all().map(|(_, expected)| {
        let api = &api;
        async move {
            let name = expected.name_any();
            let ask = Ask { verb: "get", object: &format!("customresourcedefinition \"{name}\""), if_missing: "" };
            anyhow::Ok((expected, fetch::seen(api.get(&name).await, &ask)?))
        }
    });
    try_join_all(pairs).await
}

async fn secret(session: &Session) -> anyhow::Result<Seen<()>> {
    let ask = Ask { verb: "get", object: &session.named("secret", names::AGENT_SECRETS), if_missing: "" };
    let secret = session.api::<Secret>().get_metadata(names::AGENT_SECRETS).await;
    Ok(fetch::seen(secret, &ask)?.map(|_| ()))
}

async fn all<K>(api: &Api<K>, objects: &str) -> anyhow::Result<Seen<Vec<K>>>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let ask = Ask { verb: "list", object: objects, if_missing: "" };
    Ok(fetch::seen(api.list(&ListParams::default()).await, &ask)?.map(|list| list.items))
}

async fn rights(session: &Session) -> anyhow::Result<Vec<Right>> {
    let api: &Api<SelfSubjectAccessReview> = &Api::all(session.client.clone());
    let asked = RIGHTS.map(|(verb, group, resource, subresource, needed_by)| async move {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let attributes = ResourceAttributes {
            verb: text(verb),
            group: text(group),
            resource: text(resource),
            subresource: text(subresource),
            namespace: Some(session.namespace.clone()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let ask = Ask { verb: "create", object: "selfsubjectaccessreviews", if_missing: "" };
        let answer = api.create(&PostParams::default(), &review).await.map_err(|error| ask.failed(error))?;
        let slash = if subresource.is_empty() { "" } else { "/" };
        let what = format!("{verb} {resource}{slash}{subresource}");
        anyhow::Ok(Right { what, needed_by, allowed: answer.status.is_some_and(|status| status.allowed) })
    });
    try_join_all(asked).await
}

async fn labels(session: &Session) -> anyhow::Result<Seen<BTreeMap<String, String>>> {
    let api: Api<Namespace> = Api::all(session.client.clone());
    let ask = Ask { verb: "get", object: &format!("namespace \"{}\"", session.namespace), if_missing: "" };
    let namespace = fetch::seen(api.get(&session.namespace).await, &ask)?;
    Ok(namespace.map(|namespace| namespace.metadata.labels.unwrap_or_default()))
}
