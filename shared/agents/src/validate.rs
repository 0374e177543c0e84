//! The rules on how a run may be carried out: `docs/contract/agents.md` sections 13.2 and 14.1.

use signalbox_types::{
    Execution,
    names::{REASON_BATCH_DISABLED, REASON_REALTIME_DISABLED, REASON_RESUME_NEEDS_REALTIME},
};

use crate::Run;

/// Which ways of running are deployed beside the interactive one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// A batch-runner is deployed.
    pub batch: bool,
    /// A realtime-gateway is deployed.
    pub realtime: bool,
}

/// Why a run can never start; the text is its `failureReason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Only a session can be resumed.
    #[error("{REASON_RESUME_NEEDS_REALTIME}")]
    ResumeNeedsRealtime,
    /// No batch-runner is deployed.
    #[error("{REASON_BATCH_DISABLED}")]
    BatchDisabled,
    /// No realtime-gateway is deployed.
    #[error("{REASON_REALTIME_DISABLED}")]
    RealtimeDisabled,
    /// The vendor takes only UUIDs as ids of sessions: given another one, a CLI may begin a session and say nothing.
    #[error("invalid resumeSession")]
    InvalidResumeSession,
    /// The vendor takes only UUIDs as ids of sessions.
    #[error("invalid conversation.pin")]
    InvalidPin,
}

/// Checks the run against the rules of its execution; the first that fails is the reason.
pub fn execution(run: &Run<'_>, switches: &Switches) -> Result<(), Rejection> {
    let execution = run.definition.spec.execution;
    let resumed = &run.agent.spec.resume_session;
    if !resumed.is_empty() && execution != Execution::Realtime {
        return Err(Rejection::ResumeNeedsRealtime);
    }
    match execution {
        Execution::Batch if !switches.batch => return Err(Rejection::BatchDisabled),
        Execution::Realtime if !switches.realtime => return Err(Rejection::RealtimeDisabled),
        Execution::Interactive | Execution::Batch | Execution::Realtime => {}
    }
    let is_invalid = |id: &str| !id.is_empty() && run.vendor().session_ids_are_uuids() && !is_uuid(id);
    if is_invalid(resumed) {
        return Err(Rejection::InvalidResumeSession);
    }
    if is_invalid(&run.definition.spec.resources.conversation.pin) {
        return Err(Rejection::InvalidPin);
    }
    Ok(())
}

/// True for five groups of hexadecimal digits, 8-4-4-4-12.
fn is_uuid(text: &str) -> bool {
    let groups = text.split('-').map(|group| group.bytes().all(|b| b.is_ascii_hexdigit()).then_some(group.len()));
    groups.eq([8, 4, 4, 4, 12].map(Some))
}
