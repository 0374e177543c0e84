use crate::{Vendor, claude, codex, exec, gemini, opencode};

/// Why a run failed that was to go on with a session and whose CLI began another one.
pub const REASON_ANOTHER_SESSION: &str = "resume started another session";

/// What one line says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The CLI has its result.
    Result { ok: bool },
    /// The CLI has failed; its exit is its end.
    Failure,
    /// The CLI is at work.
    Work,
    /// Nothing about the end.
    Other,
}

/// What a line says of the end of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Nothing,
    /// The CLI has its result and should exit: the grace begins.
    Terminal {
        /// The CLI's own verdict.
        ok: bool,
    },
    /// The CLI went on after a result: the grace begins again.
    Resumed,
}

/// Follows the output of a CLI to its end. The last result decides. Contract: `docs/contract/vendor-clis.md` section 3.
#[derive(Clone, Debug)]
pub struct Ending {
    vendor: Vendor,
    /// The session that was asked for, until the CLI has named its own.
    asked_for: Option<String>,
    has_result: bool,
    verdict: Option<bool>,
    went_astray: bool,
}

impl Ending {
    /// Nothing seen yet, of a run that begins a session.
    pub const fn new(vendor: Vendor) -> Self {
        Self { vendor, asked_for: None, has_result: false, verdict: None, went_astray: false }
    }

    /// The same of a run that goes on with the session `id` (`AGENT_CONVERSATION_ID`); empty means that it does not.
    #[must_use]
    pub fn resuming(mut self, id: &str) -> Self {
        self.asked_for = Some(id.to_owned()).filter(|id| !id.is_empty() && self.vendor == Vendor::Codex);
        self
    }

    /// Takes in one line of standard output.
    pub fn observe(&mut self, line: &str) -> Seen {
        if let Some(asked_for) = &self.asked_for
            && let Some(started) = codex::thread(line)
        {
            self.went_astray = !started.eq_ignore_ascii_case(asked_for);
            self.asked_for = None;
        }
        match self.sign(line) {
            Sign::Result { ok } => {
                let ok = ok && !self.went_astray;
                self.has_result = true;
                self.verdict = Some(ok);
                Seen::Terminal { ok }
            }
            Sign::Failure => {
                self.verdict = Some(false);
                Seen::Nothing
            }
            Sign::Work if self.has_result => Seen::Resumed,
            Sign::Work | Sign::Other => Seen::Nothing,
        }
    }

    fn sign(&self, line: &str) -> Sign {
        match self.vendor {
            Vendor::Claude => claude::sign(line),
            Vendor::Codex => codex::sign(line),
            Vendor::Gemini => gemini::sign(line),
            Vendor::Opencode => opencode::sign(line),
            Vendor::Exec => exec::sign(line),
        }
    }

    /// The verdict: that of the last result, or not ok after a line that says so by itself. `None` before any.
    pub const fn verdict(&self) -> Option<bool> {
        if self.went_astray { Some(false) } else { self.verdict }
    }

    /// True once the CLI has said that it is done: from then on it is only expected to exit. A verdict without a result
    /// is of a CLI that may be at work still.
    pub const fn has_result(&self) -> bool {
        self.has_result
    }

    /// Why the run has failed, where its exit code and its verdict do not say.
    pub const fn reason(&self) -> Option<&'static str> {
        if self.went_astray { Some(REASON_ANOTHER_SESSION) } else { None }
    }

    /// True where exit code 0 without a result is a failure.
    pub const fn needs_terminal_line(&self) -> bool {
        matches!(self.vendor, Vendor::Claude | Vendor::Codex | Vendor::Gemini)
    }
}
