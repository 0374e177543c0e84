//! `cancel`: asks for the end of runs.

use anyhow::bail;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;
use signalbox_types::{Agent, names};
use signalbox_vendors::Vendor;

use crate::{
    args::{CancelArgs, Connection},
    fault::Ask,
    follow::{Lines, Options, follow, get_agent, interrupts},
    out::{self, Stream},
    session::Session,
};

pub(crate) async fn run(at: &Connection, args: CancelArgs) -> anyhow::Result<u8> {
    let session = Session::open(at).await?;
    let mut asked = Vec::new();
    let mut refused = 0;
    for name in &args.agents {
        match one(&session, name).await {
            Ok(agent) => asked.push(agent),
            Err(error) => {
                refused += 1;
                out::note(&format!("error: {error:#}"))?;
            }
        }
    }
    if args.wait {
        let mut interrupts = interrupts()?;
        for agent in asked {
            // The exit code of a run that was to end says nothing about this command.
            let options = Options {
                lines: Lines::None,
                cancel_on_interrupt: false,
                stream: Stream::Stdout,
                vendor: Vendor::Claude,
            };
            if let (code, None) = follow(&session, agent, options, &mut interrupts).await? {
                return Ok(code);
            }
        }
    }
    Ok(u8::from(refused > 0))
}

async fn one(session: &Session, name: &str) -> anyhow::Result<Agent> {
    let agent = get_agent(session, name).await?;
    if let Some(refusal) = refusal(&agent) {
        bail!(refusal);
    }
    let was_requested = agent.is_cancel_requested();
    let agent = if was_requested { agent } else { request(session, name).await? };
    let word = if was_requested { "cancel was requested before" } else { "cancel requested" };
    out::say(&format!("agent.agents.re-cinq.com/{name} {word}"))?;
    Ok(agent)
}

/// Why a run cannot be canceled.
fn refusal(agent: &Agent) -> Option<String> {
    let (name, phase) = (agent.name_any(), agent.phase());
    phase.is_terminal().then(|| {
        format!("agent \"{name}\" has ended already ({phase}): there is nothing to cancel; `kubectl delete agent {name}` removes it")
    })
}

/// Sets the annotation that the job-launcher acts on.
pub(crate) async fn request(session: &Session, name: &str) -> anyhow::Result<Agent> {
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { names::ANNOTATION_CANCEL: "true" } } }));
    let object = session.named("agent", name);
    let ask = Ask { verb: "patch", object: &object, if_missing: "it was deleted just now" };
    session.api::<Agent>().patch(name, &PatchParams::default(), &patch).await.map_err(|error| ask.failed(error))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({}), None)]
    #[case(json!({"phase": "Running"}), None)]
    #[case(json!({"phase": "Succeeded"}), Some("Succeeded"))]
    #[case(json!({"phase": "Failed"}), Some("Failed"))]
    fn only_a_run_that_has_not_ended_can_be_canceled(#[case] status: serde_json::Value, #[case] refused: Option<&str>) {
        let agent = json!({"metadata": {"name": "a"}, "spec": {"stationRef": "s"}, "status": status,
                           "apiVersion": "agents.re-cinq.com/v1alpha1", "kind": "Agent"});
        let refusal = refusal(&serde_json::from_value(agent).unwrap());
        let expected = refused.map(|phase| {
            format!("agent \"a\" has ended already ({phase}): there is nothing to cancel; `kubectl delete agent a` removes it")
        });
        assert_eq!(refusal, expected);
    }
}
