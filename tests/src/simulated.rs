//! Whole runs in the simulator, with real plans, real noise and the real gate.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_accountant::gate::decision::gate;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::messages::stage::Phase;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Ending, Event, GateVerdict};
use undertone_protocol::simulator::cluster::Simulation;
use undertone_protocol::simulator::scenario::{Conditions, Fault, Report};
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;

use crate::plans::calibrated;

/// A calibrated plan of simulated parties; `lines` follow `shape` in the run file's `[data]` table.
#[track_caller]
pub fn plan(parties: usize, dimension: usize, lines: &str) -> Arc<Plan> {
    let task = match lines.contains("sums = ") {
        true => "stream",
        false => "mean",
    };
    let text = format!("name = \"simulated\"\ntask = \"{task}\"\n[data]\nshape = [{dimension}]\n{lines}");
    calibrated(&text, parties, None)
}

/// Each party's vector: different ones, with norm below 1.
pub fn inputs(plan: &Plan) -> Vec<Vec<f64>> {
    let dimension = plan.draft().dimension();
    let scale = 0.9 / (dimension as f64).sqrt();
    (0..plan.parties())
        .map(|party| {
            (0..dimension)
                .map(|i| scale * ((7 * i + 3 * party) as f64).sin())
                .collect()
        })
        .collect()
}

/// Each party's contribution.
pub fn contributions(plan: &Plan) -> Vec<Clipped> {
    let inputs = inputs(plan).into_iter().enumerate();
    inputs
        .map(|(party, values)| Clipped::of(plan, party, values).0)
        .collect()
}

/// Each party's vector on the plan's lattice.
pub fn on_lattice(plan: &Plan) -> Vec<LatticeVector> {
    inputs(plan)
        .into_iter()
        .map(|values| plan.lattice().encode(values.into_iter()))
        .collect()
}

/// Returns the verdict that nodes ask for before they publish.
pub fn real_gate(plan: &Plan, logs: &AgreedLogs) -> GateVerdict {
    let verdict = gate(plan, logs);
    GateVerdict {
        publish: verdict.publish,
        reason: verdict.reason,
    }
}

/// A run in which every invariant must hold.
#[track_caller]
pub fn simulate(plan: &Arc<Plan>, conditions: Conditions) -> Report {
    let reported = format!("seed {}: {:?}", conditions.seed, conditions.faults);
    let report = Simulation::new(plan.clone(), on_lattice(plan), &real_gate, conditions).run();
    assert_eq!(report.violations, [], "{reported}");
    report
}

/// All parties but these.
pub fn others(plan: &Plan, without: &[Party]) -> BTreeSet<Party> {
    (0..plan.parties())
        .filter(|party| !without.contains(party))
        .collect()
}

/// Every one of `included` ended so, agreed, over that set, with the exact sum of its x̃.
#[track_caller]
pub fn assert_exact(report: &Report, included: &BTreeSet<Party>, ending: &Ending, what: &str) {
    let exact = report.sum_over(included);
    for &party in included {
        let outcome = report.outcomes[party]
            .as_ref()
            .unwrap_or_else(|| panic!("{what}: party {party} never finished"));
        assert_eq!(
            (&outcome.ending, outcome.agreed, &outcome.included),
            (ending, true, included),
            "{what}: party {party}"
        );
        assert!(
            outcome.sum.as_ref().map(|sum| &sum.value) == exact.as_ref(),
            "{what}: party {party} holds another sum"
        );
    }
}

/// When the first node enters a phase in a run without faults.
pub fn first(report: &Report, phase: Phase) -> Time {
    let begins = report
        .events
        .iter()
        .filter(|(_, _, event)| *event == Event::Phase(phase));
    begins.map(|(at, _, _)| *at).min().expect("every node gets there")
}

/// Nanoseconds from the first node that mixes to the first that settles in a run without faults.
pub fn mixing_time(plan: &Arc<Plan>, seed: u64) -> Range<u64> {
    let calm = simulate(plan, Conditions::new(seed));
    first(&calm, Phase::Mixing).as_nanos()..first(&calm, Phase::Settling).as_nanos()
}

/// As many different parties as `loud` is long, each killed at a moment of mixing: its sockets
/// close, or it falls silent.
pub fn kills(plan: &Arc<Plan>, seed: u64, loud: &[bool]) -> (Vec<Fault>, Vec<Party>) {
    let moments = mixing_time(plan, seed);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut alive: Vec<Party> = (0..plan.parties()).collect();
    let mut dead = vec![];
    let mut kill = |&loud: &bool| {
        let party = alive.swap_remove(rng.random_range(0..alive.len()));
        dead.push(party);
        let at = Time::from_nanos(rng.random_range(moments.clone()));
        if loud {
            Fault::Crash { party, at }
        } else {
            Fault::Silence { party, at }
        }
    };
    let faults = loud.iter().map(&mut kill).collect();
    (faults, dead)
}
