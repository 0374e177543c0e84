//! More than one namespace.

use serde_json::{Value, json};
use signalbox_testkit::{eventually, wait_for};

use crate::{
    gate::{Act, Gate},
    support::{Ear, agent, patch_status, speaks},
    world::{LIMIT, Via, World, documents},
};

/// Namespace and name of the objects in a part of a listing.
fn objects(listing: &Value) -> Vec<(String, String)> {
    let objects = listing["objects"].as_array().into_iter().flatten();
    let mut found: Vec<_> = objects
        .map(|object| (object[0].as_str().unwrap().to_owned(), object[1].as_str().unwrap().to_owned()))
        .collect();
    found.sort();
    found
}

fn scope(listing: &Value) -> Vec<&str> {
    listing["scope"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[tokio::test]
async fn two_namespaces_by_name_are_told_of_and_counted_with_their_roles_and_a_third_is_not() {
    let [a, b] = World::several().await;
    let c = a.beside().await;
    let mut changes = Ear::on(&a, "signalbox.v1.change.agents").await;
    let mut listings = Ear::on(&a, "signalbox.v1.listing.agents").await;
    let watcher = a.watcher().await;
    speaks(&watcher).await;
    // The third first: it would have been told of before the others.
    for world in [&c, &a, &b] {
        agent(world, "run").await;
    }
    let mut told = vec![changes.change_of("run").await, changes.change_of("run").await];
    told.extend(changes.rest(&a).await);
    let mut told: Vec<_> = told.iter().map(|change| change["object"]["metadata"]["namespace"].clone()).collect();
    told.sort_by_key(ToString::to_string);
    let mut served = [a.namespace.name.clone(), b.namespace.name.clone()];
    let in_order = served.clone();
    served.sort();
    assert_eq!(told, served.clone().map(Value::String));
    let listing = listings.next_that(|listing| objects(listing).len() == 2).await;
    assert_eq!(scope(&listing), in_order);
    assert_eq!(objects(&listing), served.map(|namespace| (namespace, "run".to_owned())));

    patch_status(&b, "run", json!({"phase": "Running"})).await;
    let counts = || {
        let of = |phase: &str| watcher.metric(&format!("controller_agents{{phase=\"{phase}\"}}"));
        (of("Pending"), of("Running"))
    };
    eventually("both are counted", LIMIT, || async { counts() == (Some(1.0), Some(1.0)) }).await;
    watcher.stop().await;
}

#[tokio::test]
async fn a_namespace_that_refuses_a_listing_is_left_out_of_its_scope_and_keeps_no_other_from_being_listed() {
    let [a, b] = World::several().await;
    for world in [&a, &b] {
        agent(world, "run").await;
    }
    let mut listings = Ear::on(&a, "signalbox.v1.listing.agents").await;
    let gate = Gate::before(a.namespace.plane()).await;
    let refused = format!("/namespaces/{}/agents", a.namespace.name);
    gate.rule(move |asked| match asked.path.ends_with(&refused) {
        true => Act::Answer(403, json!({"kind": "Status", "status": "Failure", "code": 403}).to_string()),
        false => Act::Pass,
    });
    let watcher = a.watcher_via(Via { gate: Some(&gate), ..Via::default() }).await;
    speaks(&watcher).await;
    let listing = listings.next().await;
    assert_eq!((scope(&listing), objects(&listing).len()), (vec![b.namespace.name.as_str()], 1));
    gate.release();
    let listing = listings.next_that(|listing| objects(listing).len() == 2).await;
    assert_eq!(scope(&listing), [a.namespace.name.as_str(), &b.namespace.name]);
    watcher.stop().await;
}

#[tokio::test]
async fn all_namespaces_are_told_of_with_the_cluster_roles_one_that_is_made_later_too() {
    let world = World::whole_cluster().await;
    let mut changes = Ear::on(&world, "signalbox.v1.change.agents").await;
    let mut listings = Ear::on(&world, "signalbox.v1.listing.agents").await;
    let watcher = world.watcher().await;
    speaks(&watcher).await;
    let later = world.beside().await;
    agent(&later, "run").await;
    let change = changes.change_of("run").await;
    assert_eq!(change["object"]["metadata"]["namespace"], json!(later.namespace.name));
    let listing = listings.listing_with("run").await;
    assert_eq!((scope(&listing), objects(&listing)), (vec![], vec![(later.namespace.name.clone(), "run".to_owned())]));
    let requests = wait_for("its requests are logged", LIMIT, || async {
        let requests = world.namespace.plane().audit().await;
        let lists = requests.iter().filter(|event| event.verb == "list" && event.resource == "agents");
        let own: Vec<_> = lists.filter(|event| event.user.contains("signalbox-watcher")).cloned().collect();
        if own.is_empty() { Err(requests.len()) } else { Ok(own) }
    })
    .await;
    // The test has looked into its own namespace to see the rights in force.
    let elsewhere = requests.iter().filter(|event| event.namespace != world.namespace.name);
    assert!(
        elsewhere.clone().count() >= 2 && elsewhere.clone().all(|event| event.namespace.is_empty()),
        "{requests:?}"
    );
    watcher.stop().await;
}

/// The rules of a Role or ClusterRole, those about Leases or the others.
fn rules(documents: &[Value], name: &str, leases: bool) -> Vec<Value> {
    let roles: Vec<_> = documents
        .iter()
        .filter(|document| matches!(document["kind"].as_str(), Some("Role" | "ClusterRole")))
        .filter(|document| document["metadata"]["name"] == name)
        .collect();
    assert_eq!(roles.len(), 1, "{name}");
    let rules = roles[0]["rules"].as_array().unwrap().iter();
    rules.filter(|rule| (rule["resources"] == json!(["leases"])) == leases).cloned().collect()
}

#[test]
fn the_overlays_for_more_namespaces_grant_what_base_grants() {
    let (cluster, leases) = (documents("overlays/cluster/rights.yaml"), documents("overlays/cluster/leases.yaml"));
    let team = documents("overlays/namespaces/team-a/rights.yaml");
    for service in ["watcher", "job-launcher", "pruner"] {
        let (base, name) = (documents(&format!("base/{service}.yaml")), World::account(service));
        let wanted = rules(&base, &name, false);
        assert!(!wanted.is_empty());
        assert_eq!(rules(&cluster, &name, false), wanted);
        assert_eq!(rules(&team, &name, false), wanted);
        assert_eq!(rules(&leases, &name, true), rules(&base, &name, true));
        assert_eq!((rules(&cluster, &name, true).len(), rules(&team, &name, true).len()), (0, 0));
        assert_eq!(rules(&leases, &name, false).len(), 0);
    }
    let policy = |path| documents(path).into_iter().find(|policy| policy["metadata"]["name"] == "agent-job-egress");
    assert_eq!(
        policy("overlays/namespaces/team-a/network-policies.yaml").unwrap(),
        policy("base/network-policies.yaml").unwrap()
    );
    for file in ["agent-launcher.yaml", "namespace.yaml"] {
        let mut own = documents(&format!("overlays/namespaces/team-a/{file}"));
        let mut base = documents(&format!("base/{file}"));
        for document in [&mut own[0], &mut base[0]] {
            document["metadata"]["name"] = json!("any");
        }
        assert_eq!(own, base);
    }
}
