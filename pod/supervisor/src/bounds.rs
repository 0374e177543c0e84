//! How long each step of a run's end may take. The Job's own deadline comes ten seconds after `AGENT_DEADLINE_MS`, but its
//! clock begins with the Job and ours with the initializer, so the steps after the deadline leave room for the start of
//! the pod: case 72 of `docs/contract/agents.md` section 17.

use std::time::Duration;

use tokio::time::Instant;

/// The latest moment after the deadline at which the supervisor has exited.
const AFTER_DEADLINE: Duration = Duration::from_secs(6);
/// How soon after a signal that ends the pod its deadline is: the kubelet kills after 30 seconds, or what the Station's
/// template says.
const AFTER_SIGNAL: Duration = Duration::from_secs(4);
/// How long files and the conversation may take where there is no deadline: all tries of an upload, and more.
const LONGEST_SAVE: Duration = Duration::from_secs(300);

/// The steps of an end, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// From SIGTERM to SIGKILL.
    Term,
    /// From SIGKILL until no exit is waited for any more.
    Kill,
    /// What the CLI has printed last; a grandchild may hold its pipes for ever.
    Drain,
    /// A line that is being printed.
    Stop,
    /// Watched files and the conversation.
    Save,
    /// The last event.
    Event,
    /// What is queued for the sinks.
    Flush,
}

impl Step {
    const ALL: [Self; 7] = [Self::Term, Self::Kill, Self::Drain, Self::Stop, Self::Save, Self::Event, Self::Flush];

    /// What the step gets however late it is.
    const fn least(self) -> Duration {
        Duration::from_millis(match self {
            Self::Term => 2000,
            Self::Kill => 500,
            Self::Drain => 1000,
            Self::Stop => 250,
            Self::Save => 750,
            Self::Event => 500,
            Self::Flush => 1000,
        })
    }
}

/// The time that is left for the end of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The time a CLI has to exit after each signal that forces it.
    grace: Duration,
    /// The deadline.
    limit: Option<Instant>,
}

impl Clock {
    /// For a run that has until `limit`.
    pub(crate) const fn new(limit: Option<Instant>, grace: Duration) -> Self {
        Self { grace, limit }
    }

    /// The pod is being ended.
    pub(crate) fn signaled(&mut self, now: Instant) {
        let limit = now + AFTER_SIGNAL;
        self.limit = Some(self.limit.map_or(limit, |earlier| earlier.min(limit)));
    }

    /// How long a step that begins at `now` may take: what is usual for it, but never so long that the steps after it
    /// would come too late; after the deadline the least.
    pub(crate) fn bound(&self, step: Step, now: Instant) -> Duration {
        let most = self.most(step);
        let least = step.least().min(most);
        let Some(left) = self.limit.map(|limit| limit.saturating_duration_since(now)) else { return most };
        let later: Duration = Step::ALL.into_iter().filter(|later| *later > step).map(Step::least).sum();
        if left.is_zero() { least } else { (left + AFTER_DEADLINE).saturating_sub(later).clamp(least, most) }
    }

    const fn most(&self, step: Step) -> Duration {
        match step {
            Step::Term | Step::Kill => self.grace,
            Step::Drain | Step::Event => Duration::from_secs(2),
            Step::Stop => Duration::from_millis(500),
            Step::Save => LONGEST_SAVE,
            Step::Flush => Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// When an end is over that begins with `first` at `start`, and each of whose steps takes all the time it may.
    fn slowest(clock: &Clock, first: Step, start: Instant) -> Instant {
        let steps = Step::ALL.into_iter().filter(|step| *step >= first);
        steps.fold(start, |now, step| now + clock.bound(step, now))
    }

    #[rstest]
    #[case::the_usual_grace(5000)]
    #[case::a_recipe_that_asks_for_more(600_000)]
    #[case::or_for_none(0)]
    fn case_72_the_slowest_end_is_over_six_seconds_after_the_deadline(#[case] grace: u64) {
        let start = Instant::now();
        let limit = start + Duration::from_secs(3600);
        let clock = Clock::new(Some(limit), Duration::from_millis(grace));
        for first in Step::ALL {
            for early in (0..700_000).step_by(250) {
                let end = slowest(&clock, first, limit - Duration::from_millis(early));
                assert!(end <= limit + AFTER_DEADLINE, "{first:?} {early} ms before the deadline: {:?}", end - limit);
            }
        }
    }

    #[test]
    fn case_72_all_steps_at_the_deadline_take_six_seconds_together() {
        let limit = Instant::now();
        let clock = Clock::new(Some(limit), Duration::from_secs(600));
        assert_eq!(slowest(&clock, Step::Term, limit), limit + AFTER_DEADLINE);
        assert_eq!(Step::ALL.map(Step::least).iter().sum::<Duration>(), AFTER_DEADLINE);
    }

    #[rstest]
    #[case::the_usual_grace(5000, 2000)]
    #[case::a_recipe_that_asks_for_less(300, 300)]
    fn the_grace_at_the_deadline_is_two_seconds_at_most(#[case] grace: u64, #[case] expected: u64) {
        let limit = Instant::now();
        let clock = Clock::new(Some(limit), Duration::from_millis(grace));
        assert_eq!(clock.bound(Step::Term, limit), Duration::from_millis(expected));
    }

    #[test]
    fn long_before_the_deadline_each_step_has_its_usual_time() {
        let now = Instant::now();
        for limit in [None, now.checked_add(Duration::from_secs(3600))] {
            let clock = Clock::new(limit, Duration::from_secs(5));
            let times = Step::ALL.map(|step| clock.bound(step, now).as_millis());
            assert_eq!(times, [5000, 5000, 2000, 500, 300_000, 2000, 30_000]);
        }
    }

    #[test]
    fn a_signal_leaves_ten_seconds_and_never_more_than_the_deadline_does() {
        let now = Instant::now();
        let mut clock = Clock::new(None, Duration::from_secs(5));
        clock.signaled(now);
        assert!(slowest(&clock, Step::Term, now) <= now + Duration::from_secs(10));
        let mut clock = Clock::new(Some(now), Duration::from_secs(5));
        clock.signaled(now);
        assert!(slowest(&clock, Step::Term, now) <= now + AFTER_DEADLINE);
    }
}
