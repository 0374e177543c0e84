//! A Station's whole life, driven at random: arrivals, decisions in any order, delayed starts, ends, deletes.

use proptest::{prelude::*, sample::Index};
use signalbox_agents::admission::{Admission, Peer, decide};
use signalbox_types::{Agent, Phase, StationSpec};

use crate::support::yaml;

#[derive(Clone, Debug)]
enum Step {
    /// An Agent is created in that second; many share one.
    Arrive(u8),
    /// A Pending Agent is looked at.
    Look(Index),
    /// The launcher learns that an admission has succeeded.
    Started(Index),
    /// A Running Agent ends.
    End(Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..4_u8).prop_map(Step::Arrive),
        any::<Index>().prop_map(Step::Look),
        any::<Index>().prop_map(Step::Look),
        any::<Index>().prop_map(Step::Started),
        any::<Index>().prop_map(Step::End),
    ];
    prop::collection::vec(step, 1..120)
}

struct World {
    station: StationSpec,
    agents: Vec<Agent>,
    /// Names whose admission is under way.
    reserved: Vec<String>,
    clock: u32,
}

impl World {
    fn new(station: &str) -> Self {
        Self {
            station: yaml(&format!("{{agentDefRef: d, {station}}}")),
            agents: Vec::new(),
            reserved: Vec::new(),
            clock: 0,
        }
    }

    fn arrive(&mut self, second: u8) {
        // Names that do not follow the order of arrival.
        let name = format!("a{:03}", (self.agents.len() + self.clock as usize) * 37 % 1000);
        self.clock += 1;
        let agent = format!(
            "{{metadata: {{name: {name}, namespace: n, uid: u{}, resourceVersion: '1',
                creationTimestamp: '2026-06-22T12:00:0{second}Z'}}, spec: {{stationRef: s}}}}",
            self.clock
        );
        self.agents.push(yaml(&agent));
    }

    fn in_phase(&self, phase: Phase) -> Vec<usize> {
        (0..self.agents.len()).filter(|at| self.agents[*at].phase() == phase).collect()
    }

    fn is_reserved(&self, at: usize) -> bool {
        self.reserved.contains(self.agents[at].metadata.name.as_ref().unwrap())
    }

    /// Running, or on the way there.
    fn busy(&self) -> usize {
        self.in_phase(Phase::Running).len() + self.reserved.len()
    }

    fn waiting(&self) -> Vec<usize> {
        self.in_phase(Phase::Pending).into_iter().filter(|at| !self.is_reserved(*at)).collect()
    }

    fn decision(&self, at: usize) -> Admission {
        let peers: Vec<Peer<'_>> = (0..self.agents.len())
            .map(|at| Peer {
                agent: &self.agents[at],
                live_job: false,
                reserved: self.is_reserved(at),
                admissible: true,
            })
            .collect();
        decide(&self.agents[at], &self.station, &peers)
    }

    /// Looks at a waiting Agent and does what is decided, as the launcher would.
    fn look(&mut self, at: usize) -> Result<(), TestCaseError> {
        loop {
            match self.decision(at) {
                Admission::Wait => return Ok(()),
                Admission::Replace { victim } => {
                    let victim =
                        self.agents.iter().position(|agent| agent.metadata.name.as_ref() == Some(&victim.name));
                    let victim = victim.unwrap();
                    prop_assert_eq!(self.agents[victim].phase(), Phase::Running);
                    self.set_phase(victim, Phase::Failed);
                }
                Admission::Admit => {
                    let age = |at: usize| {
                        let meta = &self.agents[at].metadata;
                        (meta.creation_timestamp.clone(), meta.name.clone())
                    };
                    let older = self.waiting().into_iter().filter(|other| age(*other) < age(at)).count();
                    let free = self.station.concurrency_limit().map_or(usize::MAX, |limit| limit - self.busy());
                    prop_assert!(older < free, "{} older ones wait for {} slots", older, free);
                    self.reserved.push(self.agents[at].metadata.name.clone().unwrap());
                    return Ok(());
                }
            }
        }
    }

    fn set_phase(&mut self, at: usize, phase: Phase) {
        self.clock += 1;
        let started = format!("{{startedAt: '2026-06-22T13:{:02}:{:02}Z'}}", self.clock / 60, self.clock % 60);
        let status = self.agents[at].status.get_or_insert_with(|| yaml(&started));
        status.phase = Some(phase);
    }

    fn started(&mut self, reservation: usize) {
        let name = self.reserved.remove(reservation);
        let at = self.agents.iter().position(|agent| agent.metadata.name.as_ref() == Some(&name)).unwrap();
        self.set_phase(at, Phase::Running);
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let pick = |index: &Index, from: Vec<usize>| (!from.is_empty()).then(|| from[index.index(from.len())]);
        match step {
            Step::Arrive(second) => self.arrive(*second),
            Step::Look(index) => {
                if let Some(at) = pick(index, self.waiting()) {
                    self.look(at)?;
                }
            }
            Step::Started(index) => {
                if let Some(at) = pick(index, (0..self.reserved.len()).collect()) {
                    self.started(at);
                }
            }
            Step::End(index) => {
                if let Some(at) = pick(index, self.in_phase(Phase::Running)) {
                    self.set_phase(at, Phase::Succeeded);
                }
            }
        }
        if let Some(limit) = self.station.concurrency_limit() {
            prop_assert!(self.busy() <= limit, "{} of {}", self.busy(), limit);
        }
        Ok(())
    }

    /// Looks at everyone, in an order of the case's, until nothing changes. Returns the rounds it took.
    fn settle(&mut self, order: &[Index]) -> Result<usize, TestCaseError> {
        for round in 0.. {
            let before = (self.waiting(), self.busy());
            let mut left = self.waiting();
            for index in order.iter().cycle().take(left.len()) {
                let at = left.remove(index.index(left.len()));
                self.look(at)?;
            }
            while !self.reserved.is_empty() {
                self.started(0);
            }
            if (self.waiting(), self.busy()) == before {
                return Ok(round);
            }
        }
        unreachable!()
    }
}

const STATIONS: &[&str] = &[
    "maxConcurrentRuns: 1",
    "maxConcurrentRuns: 3",
    "concurrencyPolicy: Forbid, maxConcurrentRuns: 5",
    "concurrencyPolicy: Replace",
    "maxConcurrentRuns: 0",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_admits_beyond_the_limit_or_past_an_older_run(
        station in prop::sample::select(STATIONS),
        steps in steps(),
    ) {
        let mut world = World::new(station);
        for step in &steps {
            world.step(step)?;
        }
    }

    #[test]
    fn every_station_fills_up_and_none_waits_beside_a_free_slot(
        station in prop::sample::select(STATIONS),
        steps in steps(),
        order in prop::collection::vec(any::<Index>(), 1..20),
    ) {
        let mut world = World::new(station);
        for step in &steps {
            world.step(step)?;
        }
        world.settle(&order)?;
        let limit = world.station.concurrency_limit().unwrap_or(usize::MAX);
        prop_assert!(world.waiting().is_empty() || world.busy() == limit);
    }

    #[test]
    fn replace_always_ends_with_the_newest_running_alone(
        arrivals in prop::collection::vec(0..4_u8, 1..12),
        order in prop::collection::vec(any::<Index>(), 1..20),
    ) {
        let mut world = World::new("concurrencyPolicy: Replace");
        for second in &arrivals {
            world.arrive(*second);
        }
        let rounds = world.settle(&order)?;
        prop_assert!(rounds <= arrivals.len(), "each round starts one: {} rounds", rounds);
        let newest = world.agents.iter().max_by_key(|agent| {
            (agent.metadata.creation_timestamp.clone(), agent.metadata.name.clone())
        });
        let running = world.in_phase(Phase::Running);
        prop_assert_eq!(running.len(), 1);
        prop_assert_eq!(Some(&world.agents[running[0]]), newest);
    }
}
