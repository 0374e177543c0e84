//! What the launcher finds without being told, and what it must not stumble over.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::ApiResource,
};
use serde_json::json;
use signalbox_testkit::{ControlPlane, Nats, wait_for};
use signalbox_types::{Agent, AgentDefinition, Phase, Station};

use crate::{
    gate::{Act, Gate},
    runs::{SERVICE, agent, in_phase, jobs_created, launcher, run_launcher, world},
    world::{LIMIT, Via, run_watcher, service},
};

#[tokio::test]
async fn case_63_a_run_whose_message_was_never_sent_starts_after_the_next_listing() {
    let world = world().await;
    let gate = Gate::before(world.namespace.plane()).await;
    // The watch is there and says nothing.
    gate.rule(|asked| if asked.is_watch_of("agents") { Act::HoldAnswer } else { Act::Pass });
    let launcher = launcher(&world).await;
    launcher.works().await;
    let _watcher = world.watcher_via(Via { gate: Some(&gate), ..Via::default() }).await;
    signalbox_testkit::eventually("the watch", LIMIT, || async {
        gate.asked().iter().any(|asked| asked.is_watch_of("agents"))
    })
    .await;
    agent(&world, "run").await;
    in_phase(&world, "run", Phase::Running).await;
    assert_eq!(jobs_created(&world).await, 1);
}

/// An API server of its own, whose Agents have no schema: what an older or newer one let through.
#[tokio::test]
async fn case_58_an_agent_that_does_not_decode_keeps_no_other_from_running() {
    let plane = ControlPlane::start().await;
    let client = plane.client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut definition = definitions.get("agents.agents.re-cinq.com").await.unwrap();
    definition.spec.versions[0].schema = Some(serde_json::from_value(json!({"openAPIV3Schema": open})).unwrap());
    definition.spec.versions[0].selectable_fields = None;
    definitions.replace("agents.agents.re-cinq.com", &PostParams::default(), &definition).await.unwrap();

    let kind =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("agents.re-cinq.com", "v1alpha1", "Agent"), "agents");
    let raw: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
    let bad = json!({
        "apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent", "metadata": {"name": "bad"},
        "spec": "not an object", "status": ["nor", "this"],
    });
    let force = PatchParams::apply("test").force();
    wait_for("the open schema is served", LIMIT, || async {
        raw.patch("bad", &force, &Patch::Apply(&bad)).await.map(drop)
    })
    .await;
    let recipe: AgentDefinition = serde_saphyr::from_str(include_str!("../fixtures/definition.yaml")).unwrap();
    let station: Station = serde_saphyr::from_str(include_str!("../fixtures/station.yaml")).unwrap();
    let run: Agent = serde_saphyr::from_str(include_str!("../fixtures/agent.yaml")).unwrap();
    let params = PostParams::default();
    Api::namespaced(client.clone(), "default").create(&params, &recipe).await.unwrap();
    Api::namespaced(client.clone(), "default").create(&params, &station).await.unwrap();
    let agents: Api<Agent> = Api::namespaced(client.clone(), "default");
    agents.create(&params, &run).await.unwrap();

    let nats = Nats::start().await;
    let launcher = run_launcher(service(SERVICE, "default", plane.config(), nats.address()).await);
    let watcher = run_watcher(service("watcher", "default", plane.config(), nats.address()).await);
    let running = async |name: &'static str| {
        wait_for("it runs", LIMIT, || async {
            let run = agents.get(name).await.unwrap();
            if run.phase() == Phase::Running { Ok(()) } else { Err(run.status) }
        })
        .await;
    };
    running("run").await;
    // Told of while both stand: a change of the bad one, then a good one.
    raw.patch("bad", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}})))
        .await
        .unwrap();
    let mut next = run.clone();
    next.metadata.name = Some("next".into());
    agents.create(&params, &next).await.unwrap();
    running("next").await;
    let left = raw.list(&ListParams::default()).await.unwrap();
    assert_eq!(left.items.iter().filter(|agent| agent.data["spec"] == "not an object").count(), 1);
    launcher.stop().await;
    watcher.stop().await;
}
