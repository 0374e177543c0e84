use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::apps::v1::Deployment, api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::ResourceExt;
use signalbox_agents::{
    Run,
    job::{self, JobOptions},
};
use signalbox_types::{Agent, AgentDefinition, AgentSpec, Station, names};

use super::{
    Check,
    facts::{BUS, Facts},
    schema,
};
use crate::{
    fetch::Seen,
    text::{age, duration},
    version::VERSION,
};

/// How much older than its term a Lease may be before nobody leads: two ticks of a standby.
const STANDBY_LIMIT: SignedDuration = SignedDuration::from_secs(10);
/// The label that says which pods the namespace takes.
const POD_SECURITY: &str = "pod-security.kubernetes.io/enforce";

/// All checks, in the order of what rests on what.
pub(super) fn view(facts: &Facts, now: Timestamp) -> Vec<Check> {
    let mut checks = definitions(facts);
    checks.extend(facts.deployments.iter().map(|(name, seen)| deployment(facts, name, seen)));
    checks.extend(facts.leases.iter().map(|(name, seen)| lease(facts, name, seen, now)));
    checks.push(secret(facts));
    checks.push(pod_security(facts));
    checks.extend(stations(facts));
    checks.extend(rights(facts));
    checks
}

fn denied(what: String, right: &str) -> Check {
    Check::warn(
        what,
        "you may not read it",
        format!("ask for the right to {right}, or let somebody who has it run this"),
    )
}

fn definitions(facts: &Facts) -> Vec<Check> {
    let one = |(expected, seen): &(_, Seen<_>)| {
        let what = format!("crd/{}", ResourceExt::name_any(expected));
        let apply = format!("apply k8s/crds of v{VERSION}, or use the kubectl-signalbox of the installed version");
        match seen {
            Seen::Missing => Check::fail(what, "is not there", "kubectl apply -k k8s/crds"),
            Seen::Denied => denied(what, "get customresourcedefinitions"),
            Seen::Found(live) => match schema::difference(expected, live) {
                None => Check::ok(what, format!("is that of v{VERSION}")),
                Some(difference) => Check::fail(what, format!("is of another version: {difference}"), apply),
            },
        }
    };
    facts.definitions.iter().map(one).collect()
}

fn deployment(facts: &Facts, name: &str, seen: &Seen<Deployment>) -> Check {
    let (what, namespace) = (format!("deployment/{name}"), &facts.services_namespace);
    // Without the bus runs only end later; without a service they do not end.
    let bad = |found: String, way_out: String| match name {
        BUS => Check::warn(what.clone(), format!("{found}: runs start and end up to 45 s later"), way_out),
        _ => Check::fail(what.clone(), found, way_out),
    };
    let deployment = match seen {
        Seen::Found(deployment) => deployment,
        Seen::Denied => return denied(what.clone(), &format!("get deployments in namespace {namespace}")),
        Seen::Missing => {
            let way_out = "kubectl apply -k k8s/base (k8s/README.md), or name the place with --services-namespace";
            return bad(format!("is not in namespace {namespace}"), way_out.to_owned());
        }
    };
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let available = deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
    let found = format!("{available} of {wanted} available");
    let look =
        format!("kubectl -n {namespace} describe deployment/{name}; kubectl -n {namespace} logs deployment/{name}");
    match (wanted, available) {
        (0, _) => {
            bad("is scaled to 0".to_owned(), format!("kubectl -n {namespace} scale deployment/{name} --replicas=1"))
        }
        (_, 0) => bad(found, look),
        _ if available < wanted => Check::warn(what.clone(), found, look),
        _ => Check::ok(what.clone(), found),
    }
}

fn lease(facts: &Facts, name: &str, seen: &Seen<Lease>, now: Timestamp) -> Check {
    let (what, namespace) = (format!("lease/{name}"), &facts.services_namespace);
    let way_out = || format!("kubectl -n {namespace} logs deployment/{name} says why no replica takes it");
    let spec = match seen {
        Seen::Found(lease) => lease.spec.clone().unwrap_or_default(),
        Seen::Denied => return denied(what, &format!("get leases in namespace {namespace}")),
        Seen::Missing => return Check::fail(what, "is not there: no replica has ever led", way_out()),
    };
    let Some(holder) = spec.holder_identity.filter(|holder| !holder.is_empty()) else {
        return Check::fail(what, "is nobody's", way_out());
    };
    let Some(renewed) = spec.renew_time.map(|time| time.0) else {
        return Check::fail(what, format!("{holder} has never renewed it"), way_out());
    };
    let term = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(15)));
    let since = now.duration_since(renewed);
    if since < -(term + STANDBY_LIMIT) {
        let found = format!("{holder}, renewed {} in the future", duration(-since.as_secs()));
        return Check::warn(what, found, "set the clock of this machine, or that of the cluster's nodes");
    }
    let found = format!("{holder}, renewed {} ago", age(renewed, now));
    if since > term + STANDBY_LIMIT { Check::fail(what, found, way_out()) } else { Check::ok(what, found) }
}

fn secret(facts: &Facts) -> Check {
    let (what, namespace) = (format!("secret/{}", names::AGENT_SECRETS), &facts.namespace);
    let way_out =
        format!("kubectl -n {namespace} create secret generic {} --from-literal=KEY=VALUE", names::AGENT_SECRETS);
    let users = facts.recipes.found().into_iter().flatten().filter(|recipe| names_a_secret(recipe));
    let users: Vec<String> = users.map(ResourceExt::name_any).collect();
    match (&facts.secret, users.as_slice()) {
        (Seen::Found(()), _) => Check::ok(what, "is there"),
        (Seen::Denied, _) => denied(what, "get secrets (only its metadata is asked for)"),
        (Seen::Missing, []) => Check::ok(what, "is not there, and no recipe names a key of it"),
        (Seen::Missing, users) => {
            Check::fail(what, format!("is not there, and recipes need it: {}", users.join(", ")), way_out)
        }
    }
}

/// True for a recipe that names a key of `agent-secrets`.
fn names_a_secret(recipe: &AgentDefinition) -> bool {
    let (resources, output) = (&recipe.spec.resources, &recipe.spec.output);
    let uploads = output.watch.iter().filter_map(|watch| watch.upload.as_ref()).map(|upload| &upload.headers_secret);
    let keys = resources.secrets.iter().map(|secret| &secret.key);
    let keys = keys.chain(resources.mcp_servers.iter().map(|server| &server.headers_secret));
    let keys = keys.chain(resources.repos.iter().map(|repo| &repo.token_secret));
    let keys = keys.chain(output.sinks.iter().map(|sink| &sink.headers_secret)).chain(uploads);
    keys.chain([&resources.conversation.headers_secret]).any(|key| !key.is_empty())
}

fn pod_security(facts: &Facts) -> Check {
    let what = format!("namespace/{}", facts.namespace);
    let label = |value: &str| format!("kubectl label namespace {} --overwrite {POD_SECURITY}={value}", facts.namespace);
    let labels = match &facts.labels {
        Seen::Found(labels) => labels,
        Seen::Denied => return denied(what, "get namespaces"),
        Seen::Missing => {
            let way_out = format!("kubectl create namespace {}, or name another with -n", facts.namespace);
            return Check::fail(what, "is not there", way_out);
        }
    };
    match labels.get(POD_SECURITY).map(String::as_str) {
        Some("restricted") => Check::fail(
            what,
            "enforces Pod Security restricted, which refuses every run: its init container is root",
            label("baseline"),
        ),
        Some(level @ "baseline") => Check::ok(what, format!("enforces Pod Security {level}")),
        Some(level) => Check::warn(what, format!("enforces Pod Security {level}"), label("baseline")),
        None => Check::warn(what, "enforces no Pod Security level by a label of its own", label("baseline")),
    }
}

fn stations(facts: &Facts) -> Vec<Check> {
    let (stations, recipes) = match (&facts.stations, &facts.recipes) {
        (Seen::Found(stations), Seen::Found(recipes)) => (stations, recipes),
        // The definitions are missing then, and said to be.
        (Seen::Missing, _) | (_, Seen::Missing) => return Vec::new(),
        (Seen::Denied, _) => return vec![denied("stations".to_owned(), "list stations")],
        (_, Seen::Denied) => return vec![denied("agentdefinitions".to_owned(), "list agentdefinitions")],
    };
    if stations.is_empty() {
        return vec![Check::warn(
            "stations",
            "there are none: nothing can run",
            "create one: README.md has an example",
        )];
    }
    stations.iter().map(|station| one_station(station, recipes)).collect()
}

fn one_station(station: &Station, recipes: &[AgentDefinition]) -> Check {
    let what = format!("station/{}", station.name_any());
    let name = &station.spec.agent_def_ref;
    let Some(recipe) = recipes.iter().find(|recipe| recipe.name_any() == *name) else {
        let found = format!("names agentdefinition {name}, which is not there: each run fails");
        return Check::fail(what, found, format!("create agentdefinition {name}, or correct spec.agentDefRef"));
    };
    let options = JobOptions { agent_image: "doctor".to_owned(), traceparent: None };
    match job::build(&Run { agent: &any_agent(station), station, definition: recipe }, &options) {
        Ok(_) => Check::ok(what, format!("recipe {name}")),
        Err(error) => {
            let found = format!("each run fails: {}", error.failure_reason());
            Check::fail(what, found, format!("correct what it names, in the Station or in agentdefinition {name}"))
        }
    }
}

/// A run of the Station that nobody will start.
fn any_agent(station: &Station) -> Agent {
    let spec = AgentSpec { station_ref: station.name_any(), ..AgentSpec::default() };
    let mut agent = Agent::new("doctor", spec);
    let namespace = station.namespace().or_else(|| Some("doctor".to_owned()));
    agent.metadata = ObjectMeta { namespace, uid: Some("doctor".to_owned()), ..agent.metadata };
    agent
}

fn rights(facts: &Facts) -> Vec<Check> {
    let missing: Vec<Check> = facts
        .rights
        .iter()
        .filter(|right| !right.allowed)
        .map(|right| {
            let way_out = format!("ask for a Role in namespace {} that lets you {}", facts.namespace, right.what);
            Check::warn("you", format!("may not {}; needed by: {}", right.what, right.needed_by), way_out)
        })
        .collect();
    if missing.is_empty() { vec![Check::ok("you", "may do all that the commands need")] } else { missing }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;
    use signalbox_types::crd;

    use super::*;
    use crate::{
        doctor::{
            facts::{Right, SERVICES},
            text,
        },
        fixture::{objects, time},
        text::Palette,
    };

    fn facts(yaml: &str) -> Facts {
        let objects = objects(yaml);
        fn named<K: kube::Resource<DynamicType = ()>>(all: Vec<K>, name: String) -> (String, Seen<K>) {
            let found = all.into_iter().find(|object| object.meta().name.as_ref() == Some(&name));
            (name, found.map_or(Seen::Missing, Seen::Found))
        }
        let services = || SERVICES.map(|service| format!("signalbox-{service}"));
        let deployments = services().into_iter().chain([BUS.to_owned()]);
        let right = |what: &str, needed_by, allowed| Right { what: what.to_owned(), needed_by, allowed };
        Facts {
            namespace: "ai-agents".to_owned(),
            services_namespace: "ai-agents".to_owned(),
            definitions: crd::all().map(|(_, expected)| (expected.clone(), Seen::Found(expected))).into(),
            deployments: deployments.map(|name| named(objects.all(), name)).collect(),
            leases: services().into_iter().map(|name| named(objects.all(), name)).collect(),
            secret: objects.first::<k8s_openapi::api::core::v1::Secret>().map_or(Seen::Missing, |_| Seen::Found(())),
            stations: Seen::Found(objects.all()),
            recipes: Seen::Found(objects.all()),
            rights: vec![right("create agents", "run", true), right("patch agents", "cancel", false)],
            labels: Seen::Found(objects.first::<Namespace>().unwrap().metadata.labels.unwrap_or_default()),
        }
    }

    fn report(facts: &Facts) -> String {
        // The version of a release is not what these tests are about.
        text(Palette::PLAIN, &view(facts, time("2026-06-22T12:10:00Z"))).replace(VERSION, "VERSION")
    }

    #[test]
    fn a_sound_installation_has_no_fault() {
        let mut facts = facts(include_str!("../../tests/fixtures/doctor/sound.yaml"));
        facts.rights.pop();
        insta::assert_snapshot!(report(&facts));
    }

    #[test]
    fn each_fault_is_told_with_its_way_out() {
        let mut facts = facts(include_str!("../../tests/fixtures/doctor/broken.yaml"));
        let older = |definition: &mut k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition| {
            definition.spec.versions[0].additional_printer_columns = None;
        };
        if let Seen::Found(live) = &mut facts.definitions[0].1 {
            older(live);
        }
        facts.definitions[1].1 = Seen::Missing;
        insta::assert_snapshot!(report(&facts));
    }

    #[test]
    fn what_may_not_be_read_is_no_fault_and_said() {
        let mut facts = facts(include_str!("../../tests/fixtures/doctor/sound.yaml"));
        facts.definitions.iter_mut().for_each(|(_, seen)| *seen = Seen::Denied);
        facts.deployments.iter_mut().for_each(|(_, seen)| *seen = Seen::Denied);
        facts.leases.iter_mut().for_each(|(_, seen)| *seen = Seen::Denied);
        (facts.secret, facts.stations, facts.recipes, facts.labels) =
            (Seen::Denied, Seen::Denied, Seen::Denied, Seen::Denied);
        insta::assert_snapshot!(report(&facts));
    }
}
