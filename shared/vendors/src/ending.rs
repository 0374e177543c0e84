use crate::{Vendor, claude, exec};

/// What one line says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The CLI has its result.
    Result { ok: bool },
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
    verdict: Option<bool>,
}

impl Ending {
    /// Nothing seen yet.
    pub const fn new(vendor: Vendor) -> Self {
        Self { vendor, verdict: None }
    }

    /// Takes in one line of standard output.
    pub fn observe(&mut self, line: &str) -> Seen {
        let sign = match self.vendor {
            Vendor::Claude => claude::sign(line),
            Vendor::Exec => exec::sign(line),
            // `argv` refuses these, so no line of theirs ever comes.
            Vendor::Codex | Vendor::Gemini | Vendor::Opencode => Sign::Other,
        };
        match sign {
            Sign::Result { ok } => {
                self.verdict = Some(ok);
                Seen::Terminal { ok }
            }
            Sign::Work if self.verdict.is_some() => Seen::Resumed,
            Sign::Work | Sign::Other => Seen::Nothing,
        }
    }

    /// The verdict of the last result, `None` before any.
    pub const fn verdict(&self) -> Option<bool> {
        self.verdict
    }

    /// True where exit code 0 without a result is a failure.
    pub const fn needs_terminal_line(&self) -> bool {
        matches!(self.vendor, Vendor::Claude | Vendor::Codex | Vendor::Gemini)
    }
}
