//! Soak runs in the simulator: which run a seed is, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use undertone_protocol::run::outcome::Event;
use undertone_protocol::simulator::scenario::{Conditions, Report};
use undertone_protocol::topology::party::Party;

use crate::soak::fault::{FAULTS, FaultKind, FaultScenario};
use crate::soak::mechanism::{MECHANISMS, Mechanism, PARTIES, Trial};
use crate::soak::summary::Row;

/// Networks that runs take place in: from..=to microseconds for a message's way.
const LATENCIES_US: [(u64, u64); 2] = [(100, 1000), (10_000, 60_000)];

/// A mechanism with a kind of fault; none for a pair that makes no run within `dropouts`.
pub fn cell(seed: u64) -> Option<(&'static Mechanism, FaultKind)> {
    let count = MECHANISMS.len() as u64;
    let mechanism = &MECHANISMS[(seed % count) as usize];
    let kind = FAULTS[(seed / count % FAULTS.len() as u64) as usize].0;
    kind.applies_to(mechanism).then_some((mechanism, kind))
}

/// Plans, each made once.
#[derive(Default)]
pub struct Trials {
    trials: BTreeMap<&'static str, Trial>,
}

impl Trials {
    /// The one of a mechanism.
    pub fn of(&mut self, mechanism: &'static Mechanism) -> &Trial {
        let trial = self.trials.entry(mechanism.name);
        trial.or_insert_with(|| Trial::new(mechanism))
    }
}

/// A run, and what it was.
pub struct SoakRun {
    /// The faults.
    pub scenario: FaultScenario,
    /// The outcome.
    pub report: Report,
}

/// The run of a seed.
pub fn run(trial: &Trial, kind: FaultKind, seed: u64) -> SoakRun {
    let mut conditions = Conditions::new(seed);
    conditions.latency_us = LATENCIES_US[(seed / 7 % 2) as usize];
    let calm = trial.run(conditions.clone());
    let scenario = FaultScenario::draw(kind, trial.mechanism, &calm, conditions);
    let report = trial.run(scenario.conditions.clone());
    SoakRun { scenario, report }
}

/// The outcome of a seed's run, for the table. A panic is an invariant that did not hold.
pub fn row(trial: &Trial, kind: FaultKind, seed: u64) -> Row {
    let done = catch_unwind(AssertUnwindSafe(|| row_of(trial, &run(trial, kind, seed), seed)));
    done.unwrap_or_else(|_| Row {
        mechanism: trial.mechanism.name,
        fault: kind.name(),
        seed,
        survivors: 0,
        without: vec![],
        impaired: 0,
        impaired_with: 0,
        violations: vec!["it panicked".to_owned()],
        named: None,
    })
}

fn row_of(trial: &Trial, run: &SoakRun, seed: u64) -> Row {
    let (report, impaired) = (&run.report, &run.scenario.impaired);
    let survivors: BTreeSet<Party> = (0..PARTIES).filter(|party| !impaired.contains(party)).collect();
    let lacks = |party: Party| match &report.outcomes[party] {
        Some(outcome) => trial.lacks(outcome),
        None => Some("it never ended".to_owned()),
    };
    let without = survivors.iter().filter_map(|&party| Some((party, lacks(party)?)));
    Row {
        mechanism: trial.mechanism.name,
        fault: run.scenario.kind.name(),
        seed,
        survivors: survivors.len(),
        without: without.collect(),
        named: run.scenario.named,
        impaired: impaired.len(),
        impaired_with: impaired.iter().filter(|party| lacks(**party).is_none()).count(),
        violations: report
            .violations
            .iter()
            .take(3)
            .map(|it| format!("{it:?}"))
            .collect(),
    }
}

/// Everything that a person wants to know of one run.
pub fn reported(trial: &Trial, run: &SoakRun) -> String {
    let scenario = &run.scenario;
    let mut text = format!("{:?}, impaired {:?}\n", scenario.kind, scenario.impaired);
    text += &format!("{:?}\n", scenario.conditions);
    let reported = run.report.events.iter();
    for (at, party, event) in reported.filter(|(_, _, event)| !matches!(event, Event::Round(_))) {
        text += &format!("{:>10} ms  party-{party}  {event:?}\n", at.as_millis());
    }
    for (party, outcome) in run.report.outcomes.iter().enumerate() {
        let at = run.report.finished_at[party].map(|at| at.as_millis());
        let lacks = outcome.as_ref().map(|outcome| trial.lacks(outcome));
        let ending = outcome
            .as_ref()
            .map(|outcome| (&outcome.ending, &outcome.included));
        text += &format!("party-{party} at {at:?} ms: {ending:?}, lacks {lacks:?}\n");
    }
    text + &format!("violations {:?}\n", run.report.violations)
}
