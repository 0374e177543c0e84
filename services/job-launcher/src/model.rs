//! All interleavings of two leaders over one Agent: every step is one request, views may be stale, leaders die between any
//! two requests, the user cancels, the Job ends. The decisions are the real ones of [`crate::plan`]; the order of the
//! requests is that of `launch.rs`, `complete.rs` and `cancel.rs`.

use std::{collections::HashSet, sync::LazyLock};

use serde_json::{Value, json};
use signalbox_types::{Agent, Phase, names};

use crate::plan::{self, JobView, Plan, View};

/// The Agent as the API server has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Stored {
    version: u8,
    phase: Phase,
    cancel: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Job {
    Absent,
    Running,
    Ended,
}

/// What a leader is about to do; each was decided on what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Next {
    Idle,
    /// GET the Agent before a launch, an adoption or a cancel.
    Look(Plan),
    /// POST the Job.
    Create(Stored),
    /// GET the Job whose create was refused or seen.
    Own(Stored),
    /// GET the Job of a Running Agent, which the Store lacks.
    Find(Stored),
    /// GET the Job of an Agent that is to be canceled.
    FindToCancel(Stored),
    /// DELETE the Job.
    Delete(Stored),
    /// PATCH the status, from that version.
    Patch(Stored, Phase),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Leader {
    agent: Stored,
    job: Job,
    next: Next,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    agent: Stored,
    job: Job,
    created: u8,
    /// Creates that were on their way while the Job of their Agent was deleted: the second known window of
    /// `docs/security.md`. Each may make one Job more, whose result is ignored.
    windows: u8,
    leaders: [Leader; 2],
    /// What may still go wrong, so that the world stays finite.
    crashes: u8,
    edits: u8,
}

/// The object of a stored Agent, made once: only the phase and the annotation count.
fn object(stored: Stored) -> &'static Agent {
    static OBJECTS: LazyLock<Vec<Agent>> = LazyLock::new(|| {
        let of = |phase: &Phase| [true, false].map(|cancel| made(Stored { version: 0, phase: *phase, cancel }));
        Phase::ALL.iter().flat_map(of).collect()
    });
    let phase = Phase::ALL.iter().position(|phase| *phase == stored.phase).unwrap();
    &OBJECTS[phase * 2 + usize::from(!stored.cancel)]
}

fn made(stored: Stored) -> Agent {
    let mut annotations = json!({});
    if stored.cancel {
        annotations = json!({ names::ANNOTATION_CANCEL: "true" });
    }
    let status = if stored.phase == Phase::Pending { Value::Null } else { json!({"phase": stored.phase}) };
    serde_json::from_value(json!({
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "annotations": annotations},
        "spec": {"stationRef": "s"}, "status": status,
    }))
    .unwrap()
}

impl World {
    fn new() -> Self {
        let agent = Stored { version: 0, phase: Phase::Pending, cancel: false };
        let leader = Leader { agent, job: Job::Absent, next: Next::Idle };
        Self { agent, job: Job::Absent, created: 0, windows: 0, leaders: [leader; 2], crashes: 2, edits: 2 }
    }

    /// Every world that one step leads to.
    fn steps(self) -> Vec<Self> {
        let mut worlds = Vec::new();
        for at in 0..2 {
            worlds.push(self.step(at));
            let told = |agent, job| {
                let mut world = self;
                world.leaders[at] = Leader { agent, job, next: self.leaders[at].next };
                world
            };
            // The news of the Agent and of its Job come apart.
            worlds.push(told(self.agent, self.leaders[at].job));
            worlds.push(told(self.leaders[at].agent, self.job));
            if self.crashes > 0 {
                let mut world = told(self.agent, self.job);
                world.leaders[at].next = Next::Idle;
                world.crashes -= 1;
                worlds.push(world);
            }
        }
        if self.job == Job::Running {
            worlds.push(Self { job: Job::Ended, ..self });
        }
        if self.edits > 0 && !self.agent.phase.is_terminal() {
            for cancel in [true, false] {
                let agent = Stored { version: self.agent.version + 1, cancel, ..self.agent };
                worlds.push(Self { agent, edits: self.edits - 1, ..self });
            }
        }
        worlds
    }

    /// The next request of a leader, and what it makes of the answer.
    fn step(mut self, at: usize) -> Self {
        let Leader { agent, job, next } = self.leaders[at];
        self.leaders[at].next = match next {
            Next::Idle => match decide(agent, job) {
                Plan::Nothing | Plan::ReleaseClaim | Plan::WatchStart => Next::Idle,
                Plan::FindJob => Next::Find(agent),
                Plan::Complete => Next::Patch(agent, Phase::Succeeded),
                plan => Next::Look(plan),
            },
            Next::Look(plan) => {
                let live = self.see_agent(at);
                let startable = plan::is_startable(object(agent), Some(object(live)));
                match plan {
                    Plan::Launch if startable => Next::Create(live),
                    Plan::Adopt if startable => Next::Own(live),
                    Plan::Cancel if plan::is_cancelable(object(agent), object(live)) => Next::FindToCancel(live),
                    _ => Next::Idle,
                }
            }
            Next::Create(live) if self.job == Job::Absent => {
                (self.job, self.created) = (Job::Running, self.created + 1);
                self.leaders[at].job = Job::Running;
                Next::Patch(live, Phase::Running)
            }
            Next::Create(live) => Next::Own(live),
            Next::Own(live) => match self.see_job(at) {
                Job::Absent => Next::Idle,
                _ => Next::Patch(live, Phase::Running),
            },
            Next::Find(live) => match self.see_job(at) {
                Job::Absent => Next::Patch(live, Phase::Failed),
                _ => Next::Idle,
            },
            Next::FindToCancel(live) => match (self.see_job(at), live.phase) {
                (Job::Absent, _) => Next::Patch(live, Phase::Failed),
                (_, Phase::Pending) => Next::Own(live),
                (Job::Ended, _) => Next::Patch(live, Phase::Succeeded),
                (Job::Running, _) => Next::Delete(live),
            },
            Next::Delete(live) => {
                self.windows += u8::from(matches!(self.leaders[1 - at].next, Next::Create(_)));
                self.job = Job::Absent;
                self.leaders[at].job = Job::Absent;
                Next::Patch(live, Phase::Failed)
            }
            Next::Patch(from, phase) => {
                if from.version == self.agent.version {
                    assert!(!self.agent.phase.is_terminal(), "a phase left its end: {self:?}");
                    self.agent = Stored { version: from.version + 1, phase, ..self.agent };
                }
                // Accepted or refused, the answer is in the Store.
                self.see_agent(at);
                Next::Idle
            }
        };
        self
    }

    fn see_agent(&mut self, at: usize) -> Stored {
        self.leaders[at].agent = self.agent;
        self.agent
    }

    fn see_job(&mut self, at: usize) -> Job {
        self.leaders[at].job = self.job;
        self.job
    }

    /// Goes on without faults, all news told at once, until nothing happens any more.
    fn settled(mut self) -> Self {
        for _ in 0..40 {
            for at in 0..2 {
                (self.leaders[at].agent, self.leaders[at].job) = (self.agent, self.job);
                self = self.step(at);
            }
            if self.job == Job::Running {
                self.job = Job::Ended;
            }
        }
        self
    }
}

fn decide(agent: Stored, job: Job) -> Plan {
    let job = match job {
        Job::Absent => JobView::Absent,
        Job::Running => JobView::Running,
        Job::Ended => JobView::Ended,
    };
    plan::plan(object(agent), View { job, must_wait: false, start_open: false })
}

#[test]
fn two_leaders_never_make_a_second_job_nor_leave_a_run_behind() {
    let mut seen = HashSet::from([World::new()]);
    let mut open = vec![World::new()];
    while let Some(world) = open.pop() {
        assert!(world.created <= 1 + world.windows, "a second Job: {world:?}");
        let end = world.settled();
        assert!(end.agent.phase.is_terminal(), "a run that is stuck: {world:?} -> {end:?}");
        assert!(end.created <= 1 + end.windows, "a second Job: {world:?} -> {end:?}");
        for next in world.steps() {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    assert!(seen.len() > 10_000, "{} worlds are no search", seen.len());
}
