use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use signalbox_types::{Agent, AgentDefinition, Station};
use signalbox_vendors::{Vendor, model_or_default};

use crate::prompt;

/// A run with all that it refers to.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The run.
    pub agent: &'a Agent,
    /// The Station it names.
    pub station: &'a Station,
    /// The recipe the Station names.
    pub definition: &'a AgentDefinition,
}

impl<'a> Run<'a> {
    /// The model: the Agent's, else the recipe's, else the default one.
    pub fn model(&self) -> &'a str {
        let own = self.agent.spec.model.as_str();
        model_or_default(if own.is_empty() { &self.definition.spec.model } else { own })
    }

    /// Whose CLI runs it.
    pub fn vendor(&self) -> Vendor {
        Vendor::route(self.model())
    }

    /// The rendered prompt.
    pub fn prompt(&self) -> String {
        prompt::render(&self.definition.spec.prompt, &self.agent.spec.parameters)
    }
}

/// True for an object whose controller is the object of that uid. A Job that only has a run's name, or a Pod that only
/// has its label, may be an older namesake's or anyone's.
pub fn owned_by(meta: &ObjectMeta, uid: &str) -> bool {
    let owners = meta.owner_references.iter().flatten();
    !uid.is_empty() && owners.into_iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}
