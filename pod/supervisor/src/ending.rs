//! The exit code of a run: one pure decision.

/// The code of a run that met its deadline, or fell silent.
pub(crate) const DEADLINE: i32 = 124;
/// A code above this is a death by a signal.
const SIGNALED: i32 = 128;
/// Why a run failed whose CLI printed nothing for too long.
const STALLED: &str = "stalled";
/// Why a run failed whose CLI exited with 0 and never said that it was done.
const NO_RESULT: &str = "no-result";

/// How the CLI's process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// Why the supervisor forced the CLI down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    /// It had its result and did not exit.
    Grace,
    /// The run's deadline passed without a result.
    Deadline,
    /// It printed nothing for longer than its Station allows.
    Stall,
}

/// All that decides the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// None where even SIGKILL has not ended the process.
    pub(crate) exit: Option<Exit>,
    /// Why it was forced down, if it was.
    pub(crate) forced: Option<Forced>,
    /// The last signal that came from outside and was passed on.
    pub(crate) passed_on: Option<i32>,
    /// The CLI's verdict in its last result.
    pub(crate) verdict: Option<bool>,
    /// Why it failed, where neither code nor verdict say.
    pub(crate) reason: Option<&'static str>,
    /// Whether the CLI always gives a result.
    pub(crate) needs_result: bool,
}

impl End {
    /// The exit code of the run, and the reason where the CLI gives none. The first rule that matches, in the order of
    /// `docs/contract/vendor-clis.md` section 3.2; one that was forced down after its result has its verdict's code.
    pub(crate) fn code(&self) -> (i32, Option<&'static str>) {
        match (self.forced, self.passed_on, self.exit) {
            (Some(Forced::Deadline), ..) => (DEADLINE, None),
            (Some(Forced::Stall), ..) => (DEADLINE, Some(STALLED)),
            (Some(Forced::Grace), None, _) => (i32::from(self.verdict != Some(true)), self.reason),
            (_, Some(signal), Some(Exit::Code(0))) => (SIGNALED + signal, None),
            (_, _, Some(Exit::Signal(signal))) => (SIGNALED + signal, None),
            (_, _, Some(Exit::Code(0))) => match self.verdict {
                Some(true) => (0, None),
                Some(false) => (1, self.reason),
                None if self.needs_result => (1, Some(NO_RESULT)),
                None => (0, None),
            },
            (_, _, Some(Exit::Code(code))) => (code, self.reason),
            (_, Some(signal), None) => (SIGNALED + signal, None),
            (None, None, None) => (1, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const EXITED: Option<Exit> = Some(Exit::Code(0));

    #[rstest]
    // By itself.
    #[case::no_result_needed(EXITED, None, None, None, false, 0)]
    #[case::good_result(EXITED, None, None, Some(true), true, 0)]
    #[case::bad_result(EXITED, None, None, Some(false), true, 1)]
    #[case::bad_result_of_a_command(EXITED, None, None, Some(false), false, 1)]
    #[case::own_code(Some(Exit::Code(3)), None, None, Some(true), true, 3)]
    #[case::gemini_s_http_status(Some(Exit::Code(145)), None, None, None, true, 145)]
    #[case::killed_by_another(Some(Exit::Signal(9)), None, None, Some(true), true, 137)]
    // Case 70: after its result.
    #[case::lingered_after_good(Some(Exit::Signal(15)), Some(Forced::Grace), None, Some(true), true, 0)]
    #[case::lingered_after_bad(Some(Exit::Code(0)), Some(Forced::Grace), None, Some(false), true, 1)]
    #[case::unkillable(None, Some(Forced::Grace), None, Some(true), true, 0)]
    // Case 72: at its deadline.
    #[case::deadline(Some(Exit::Signal(15)), Some(Forced::Deadline), None, None, true, 124)]
    #[case::deadline_and_exit_0(EXITED, Some(Forced::Deadline), None, Some(true), true, 124)]
    #[case::deadline_and_sigterm(Some(Exit::Signal(9)), Some(Forced::Deadline), Some(15), None, true, 124)]
    #[case::deadline_and_unkillable(None, Some(Forced::Deadline), None, None, true, 124)]
    // Case 76: at a signal.
    #[case::sigterm_and_exit_0(EXITED, None, Some(15), None, true, 143)]
    #[case::sigint_and_exit_0_with_a_result(EXITED, None, Some(2), Some(false), true, 130)]
    #[case::sigterm_and_own_code(Some(Exit::Code(7)), None, Some(15), None, true, 7)]
    #[case::death_by_sigterm(Some(Exit::Signal(15)), None, Some(15), None, true, 143)]
    #[case::sigterm_then_forced(Some(Exit::Signal(9)), Some(Forced::Grace), Some(15), Some(true), true, 137)]
    #[case::sigterm_then_unkillable(None, Some(Forced::Grace), Some(15), Some(true), true, 143)]
    fn the_first_rule_that_matches_gives_the_code(
        #[case] exit: Option<Exit>,
        #[case] forced: Option<Forced>,
        #[case] passed_on: Option<i32>,
        #[case] verdict: Option<bool>,
        #[case] needs_result: bool,
        #[case] code: i32,
    ) {
        assert_eq!(End { exit, forced, passed_on, verdict, reason: None, needs_result }.code(), (code, None));
    }

    #[test]
    fn code_0_without_a_result_is_a_failure_with_a_reason() {
        let end = End { exit: EXITED, forced: None, passed_on: None, verdict: None, reason: None, needs_result: true };
        assert_eq!(end.code(), (1, Some("no-result")));
    }

    #[rstest]
    #[case::quiet(Some(Exit::Signal(15)), None, None)]
    #[case::that_exits_with_0(EXITED, None, Some(false))]
    #[case::unkillable(None, None, None)]
    #[case::while_the_pod_is_ended(Some(Exit::Signal(9)), Some(15), None)]
    fn an_agent_that_fell_silent_ends_like_one_at_its_deadline_but_with_a_reason(
        #[case] exit: Option<Exit>,
        #[case] passed_on: Option<i32>,
        #[case] verdict: Option<bool>,
    ) {
        let end = End { exit, forced: Some(Forced::Stall), passed_on, verdict, reason: Some("x"), needs_result: true };
        assert_eq!(end.code(), (124, Some("stalled")));
    }

    #[rstest]
    #[case::exited(EXITED, None, None, 1, true)]
    #[case::lingered(Some(Exit::Signal(15)), Some(Forced::Grace), None, 1, true)]
    #[case::own_code(Some(Exit::Code(3)), None, None, 3, true)]
    #[case::deadline(Some(Exit::Signal(15)), Some(Forced::Deadline), None, 124, false)]
    #[case::signal(Some(Exit::Signal(15)), None, Some(15), 143, false)]
    fn the_cli_s_own_reason_goes_with_its_own_end(
        #[case] exit: Option<Exit>,
        #[case] forced: Option<Forced>,
        #[case] passed_on: Option<i32>,
        #[case] code: i32,
        #[case] told: bool,
    ) {
        let reason = Some("resume started another session");
        let end = End { exit, forced, passed_on, verdict: Some(false), reason, needs_result: true };
        assert_eq!(end.code(), (code, reason.filter(|_| told)));
    }
}
