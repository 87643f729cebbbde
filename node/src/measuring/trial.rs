//! Runs of a plan in one process, over a simulated network or an ideal one, with the machines, the
//! lattice and the gate of a node.

use std::cell::RefCell;
use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use undertone_accountant::gate::decision;
use undertone_accountant::gate::verdict::Verdict;
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::messages::stage::Phase;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Event, GateVerdict};
use undertone_protocol::simulator::cluster::Simulation;
use undertone_protocol::simulator::direct::{Leaving, direct};
use undertone_protocol::simulator::scenario::{Conditions, Fault, Report as Simulated};
use undertone_protocol::time::Time;
use undertone_protocol::topology::party::Party;

use crate::measuring::synthetic;

/// The real gate, which every node of a run asks the same: its verdict follows from the plan and
/// the agreed logs alone.
#[derive(Default)]
pub struct CachedGate {
    latest: RefCell<Option<(GateQuestion, Verdict)>>,
}

/// Digest, schedule drawn at START, logs.
type GateQuestion = ([u8; 32], Option<u64>, AgreedLogs);

impl CachedGate {
    /// The verdict as the machines take it.
    pub fn verdict(&self, plan: &Plan, logs: &AgreedLogs) -> GateVerdict {
        self.answer(plan, logs, |verdict| GateVerdict {
            publish: verdict.publish.clone(),
            reason: verdict.reason.clone(),
        })
    }

    /// What `of` takes of the whole verdict, computed once for each set of logs.
    pub fn answer<R>(&self, plan: &Plan, logs: &AgreedLogs, of: impl FnOnce(&Verdict) -> R) -> R {
        let mut latest = self.latest.borrow_mut();
        let same = |asked: &GateQuestion| {
            asked.0 == *plan.digest() && asked.1 == plan.seed_at_start() && asked.2 == *logs
        };
        match &*latest {
            Some((question, verdict)) if same(question) => of(verdict),
            _ => {
                let question = (*plan.digest(), plan.seed_at_start(), logs.clone());
                of(&latest.insert((question, decision::gate(plan, logs))).1)
            }
        }
    }
}

/// The phase of a run in which parties are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KillPhase {
    /// Shares are exchanged.
    Mixing,
    /// Logs are agreed on; sealed finals leave with them.
    Settling,
    /// Finals are agreed on; sealed ones are corrected and opened.
    Publishing,
}

/// A plan with the values of its parties: what all of its simulated runs share.
pub struct Trial {
    /// The plan that is run.
    pub plan: Arc<Plan>,
    /// One vector for each party, of all of its rows.
    pub inputs: Vec<Vec<f64>>,
    /// The gate of every node.
    pub gate: CachedGate,
}

impl Trial {
    /// A trial with synthetic values inside of the clipping range, drawn from `seed`.
    pub fn new(plan: Arc<Plan>, seed: u64) -> Self {
        let inputs = inputs(&plan, seed);
        Trial {
            plan,
            inputs,
            gate: CachedGate::default(),
        }
    }

    /// One run over a simulated network.
    pub fn simulate(&self, conditions: Conditions) -> Simulated {
        let gate = |plan: &Plan, logs: &AgreedLogs| self.gate.verdict(plan, logs);
        Simulation::new(self.plan.clone(), self.on_lattice(), &gate, conditions).run()
    }

    /// One run on an ideal network and without signatures, that `leaving` parties leave for good in
    /// random rounds.
    pub fn direct(&self, leaving: usize, seed: u64) -> Simulated {
        let gate = |plan: &Plan, logs: &AgreedLogs| self.gate.verdict(plan, logs);
        direct(
            &self.plan,
            self.on_lattice(),
            &gate,
            seed,
            &self.leaving(leaving, seed),
        )
    }

    fn on_lattice(&self) -> Vec<LatticeVector> {
        self.inputs
            .iter()
            .enumerate()
            .map(|(party, values)| Clipped::of(&self.plan, party, values.clone()).0.into_vector())
            .collect()
    }

    fn leaving(&self, count: usize, seed: u64) -> Vec<Leaving> {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut parties: Vec<Party> = (0..self.plan.parties()).collect();
        let mut leave = |_| {
            let party = parties.swap_remove(rng.random_range(0..parties.len()));
            Leaving {
                party,
                round: rng.random_range(1..=self.plan.rounds()),
                sends: rng.random_bool(0.5),
            }
        };
        (0..count).map(&mut leave).collect()
    }

    /// `count` kills at moments of a phase: from when the first party gets to it to when the first
    /// gets to the next one, in a run of the same seed without kills. Killed parties fall silent,
    /// or are seen to be gone.
    pub fn kills(&self, count: usize, phase: KillPhase, seed: u64, silent: bool) -> Vec<Fault> {
        if count == 0 {
            return vec![];
        }
        let calm = self.simulate(Conditions::new(seed));
        let first = |phase: Phase| {
            let times = calm
                .events
                .iter()
                .filter(|(_, _, event)| *event == Event::Phase(phase));
            times.map(|(at, _, _)| *at).min().unwrap_or(Time::ZERO).as_nanos()
        };
        let (begins, ends) = match phase {
            KillPhase::Mixing => (Phase::Mixing, Phase::Settling),
            KillPhase::Settling => (Phase::Settling, Phase::Publishing),
            KillPhase::Publishing => (Phase::Publishing, Phase::Done),
        };
        let from = first(begins);
        let to = first(ends).max(from + 1);
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut parties: Vec<Party> = (0..self.plan.parties()).collect();
        let mut kill = |_| {
            let party = parties.swap_remove(rng.random_range(0..parties.len()));
            let at = Time::from_nanos(rng.random_range(from..to));
            if silent {
                Fault::Silence { party, at }
            } else {
                Fault::Crash { party, at }
            }
        };
        (0..count).map(&mut kill).collect()
    }
}

/// One vector for each party, of all of its rows, within the clipping range.
fn inputs(plan: &Plan, seed: u64) -> Vec<Vec<f64>> {
    let data = &plan.draft().data;
    let rows = |party: Party| plan.draft().members[party].records.unwrap_or(1) as usize;
    let row = |party: Party, row: usize| {
        synthetic::vector(&data.clip, data.dimension(), seed, party + row * plan.parties())
    };
    (0..plan.parties())
        .map(|party| (0..rows(party)).flat_map(|index| row(party, index)).collect())
        .collect()
}
