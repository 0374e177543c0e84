//! What every scenario stands on: a Signalbox that is deployed once, and a [`Scene`] of its own on it.

mod audit;
mod events;
mod kubectl;
mod leader;
mod manifests;
mod scene;
mod site;

pub use self::{
    audit::{Request, requests},
    events::lifecycle,
    leader::How,
    scene::{STEP, Scene, agent_state, ending, output, paused},
    site::secret_token,
};
