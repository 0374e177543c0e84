//! Carries plans out: the only room that writes. Every answer goes into the Store.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use signalbox_runtime::write::{WriteError, Writer};
use signalbox_types::{Agent, ObjectId, names};

use crate::{
    metrics::RunMetrics,
    world::{World, namespace_of},
};

/// Why a reconcile stopped. It is tried again; nothing is lost by it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A GET or LIST failed.
    #[error("read {0}")]
    Read(&'static str, #[source] kube::Error),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Our Job's name is taken by an object that is not the Agent's: an older Agent of that name is being collected.
    #[error("Job {0} belongs to another owner; waiting for it to go")]
    JobNameTaken(String),
}

/// Writes, for one term.
pub(crate) struct Apply {
    pub(crate) metrics: RunMetrics,
    world: Arc<World>,
    writer: Writer,
}

impl Apply {
    pub(crate) const fn new(writer: Writer, world: Arc<World>, metrics: RunMetrics) -> Self {
        Self { metrics, world, writer }
    }

    /// Creates the Job: true if this call did. A name that is taken counts as created if its holder is the Agent's own
    /// (case 24).
    pub(crate) async fn create_job(&self, agent: &Agent, job: &Job) -> Result<bool, Error> {
        let question = self.world.jobs.ask();
        let (api, params) = (self.writer.api(&namespace_of(job)), PostParams::default());
        match self.writer.send("Job create", api.create(&params, job)).await {
            Ok(created) => {
                question.answer(created);
                self.metrics.jobs_created.inc();
                Ok(true)
            }
            Err(error) if error.code() == Some(409) => self.adopt_job(agent, &job.name_any()).await.map(|()| false),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks live whether the Job of that name is the Agent's.
    pub(crate) async fn adopt_job(&self, agent: &Agent, name: &str) -> Result<(), Error> {
        let owned = self.world.owns_job(agent, name).await.map_err(|error| Error::Read("Job", error))?;
        if owned { Ok(()) } else { Err(Error::JobNameTaken(name.to_owned())) }
    }

    /// Asks the API server whether it would take the Job, without creating it.
    pub(crate) async fn try_job(&self, job: &Job) -> Result<(), Error> {
        let params = PostParams { dry_run: true, ..PostParams::default() };
        let api = self.writer.api(&namespace_of(job));
        match self.writer.send("Job dry run", api.create(&params, job)).await {
            // The name is taken: that says nothing against the Job, and the real create looks whose it is.
            Err(error) if error.code() == Some(409) => Ok(()),
            other => Ok(other.map(|_| ())?),
        }
    }

    /// Patches the status that was computed from `agent`, and only that: a newer version is refused (409).
    pub(crate) async fn patch_status(&self, agent: &Agent, status: Value) -> Result<(), Error> {
        let body = json!({ "metadata": { "resourceVersion": agent.resource_version() }, "status": status });
        let (name, params, patch) = (agent.name_any(), PatchParams::default(), Patch::Merge(body));
        let api = self.writer.api(&namespace_of(agent));
        self.patched("status patch", agent, api.patch_status(&name, &params, &patch)).await?;
        self.metrics.status_patches.inc();
        Ok(())
    }

    /// Deletes the Job as it was seen, and in the background its pod. One that is gone already is no error; one that has
    /// changed since is: it may have ended.
    pub(crate) async fn delete_job(&self, job: &Job) -> Result<(), Error> {
        let preconditions = Preconditions { uid: job.uid(), resource_version: job.resource_version() };
        // Said outright: what the API server would do for a Job by default is to leave its pods running.
        let params = DeleteParams::background().preconditions(preconditions);
        let (namespace, name) = (namespace_of(job), job.name_any());
        let api = self.writer.api::<Job>(&namespace);
        let question = self.world.jobs.ask();
        match self.writer.send("Job delete", api.delete(&name, &params)).await {
            Ok(_) => question.absent(&namespace, &name),
            Err(error) if error.code() == Some(404) => question.absent(&namespace, &name),
            Err(error) => {
                self.writer.look_again(&self.world.jobs, &namespace, &name).await;
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Deletes the Agent of that id, if it is still in that version. True if this call did it: a victim that was gone
    /// already frees nothing.
    pub(crate) async fn delete_agent(&self, id: &ObjectId) -> Result<bool, Error> {
        Ok(self.writer.delete(&self.world.agents, id).await?)
    }

    /// Takes the claim from an Agent that is being deleted, in the version that was looked at.
    pub(crate) async fn release_claim(&self, agent: &Agent) -> Result<(), Error> {
        let others: Vec<_> = agent.finalizers().iter().filter(|held| *held != names::FINALIZER_BATCH).collect();
        let body = json!({ "metadata": { "resourceVersion": agent.resource_version(), "finalizers": others } });
        let (name, params, patch) = (agent.name_any(), PatchParams::default(), Patch::Merge(body));
        let api = self.writer.api(&namespace_of(agent));
        self.patched("claim release", agent, api.patch(&name, &params, &patch)).await?;
        let status = agent.status.as_ref();
        let batch = status.and_then(|status| status.batch_id.as_deref()).unwrap_or_default();
        tracing::warn!(agent = name, batch, "claim released: what is left at the provider has to be removed by hand");
        Ok(())
    }

    /// Sends a patch of an Agent and puts what comes of it into the Store.
    async fn patched(
        &self,
        what: &'static str,
        agent: &Agent,
        patch: impl Future<Output = Result<Agent, kube::Error>>,
    ) -> Result<(), Error> {
        let (namespace, name) = (namespace_of(agent), agent.name_any());
        let question = self.world.agents.ask();
        match self.writer.send(what, patch).await {
            // Kubernetes removes an object with its last finalizer: what is answered then is how it was last.
            Ok(patched) if patched.is_terminating() && patched.finalizers().is_empty() => {
                question.absent(&namespace, &name)
            }
            Ok(patched) => question.answer(patched),
            Err(error) => {
                self.writer.look_again(&self.world.agents, &namespace, &name).await;
                return Err(error.into());
            }
        }
        Ok(())
    }
}
