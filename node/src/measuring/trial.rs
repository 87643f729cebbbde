//! Runs of a plan in one process, over a simulated network or an ideal one, with the machines, the
//! lattice and the gate of a node. They stand here, and not with the tests, because
//! `undertone simulate` runs them too.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use undertone_accountant::gate::decision;
use undertone_accountant::gate::verdict::Verdict;
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

    /// Applies `of` to the whole verdict, which is computed once for each set of logs.
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

/// The part of a run in which parties are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum KillPhase {
    /// Shares are exchanged.
    Mixing,
    /// Logs are agreed on; sealed finals leave with them.
    Settling,
    /// Finals are agreed on; sealed ones are corrected and opened.
    Publishing,
}

/// The values that a plan's parties contribute.
pub trait Contributions {
    /// A party's clipped contribution to release or iteration `number`, from 1, where `model` is
    /// what all have so far.
    fn contribution(&self, plan: &Plan, party: Party, number: u32, model: &[f64]) -> LatticeVector;

    /// The model that all begin with; nothing where no model is fitted.
    fn start(&self, _plan: &Plan) -> Vec<f64> {
        vec![]
    }
}

/// A plan with what its parties contribute: what all of its simulated runs share.
pub struct Trial<C> {
    /// The plan that is run.
    pub plan: Arc<Plan>,
    /// The contributions.
    pub of: C,
    /// The gate of every node.
    pub gate: CachedGate,
    /// When a run without kills begins its first round or iteration, and when the first node ends.
    whole: OnceCell<(Time, Time)>,
}

impl<C: Contributions> Trial<C> {
    /// A trial of these contributions.
    pub fn new(plan: Arc<Plan>, of: C) -> Self {
        Trial {
            plan,
            of,
            gate: CachedGate::default(),
            whole: OnceCell::new(),
        }
    }

    /// One run over a simulated network.
    pub fn simulate(&self, conditions: Conditions) -> Simulated {
        let gate = |plan: &Plan, logs: &AgreedLogs| self.gate.verdict(plan, logs);
        Simulation::new(self.plan.clone(), self.first(), &gate, conditions)
            .contributing(|party, number, model| self.of.contribution(&self.plan, party, number, model))
            .run()
    }

    /// One run on an ideal network and without signatures, that `leaving` parties leave for good in
    /// random rounds.
    pub fn direct(&self, leaving: usize, seed: u64) -> Simulated {
        let gate = |plan: &Plan, logs: &AgreedLogs| self.gate.verdict(plan, logs);
        let leaving = self.drawn(leaving, seed, |party, rng| Leaving {
            party,
            round: rng.random_range(1..=self.plan.rounds()),
            sends: rng.random_bool(0.5),
        });
        direct(&self.plan, self.first(), &gate, seed, &leaving)
    }

    fn first(&self) -> Vec<LatticeVector> {
        let model = self.of.start(&self.plan);
        let first = |party| self.of.contribution(&self.plan, party, 1, &model);
        (0..self.plan.parties()).map(first).collect()
    }

    /// Something for each of `count` parties, each drawn once.
    fn drawn<T>(&self, count: usize, seed: u64, of: impl Fn(Party, &mut ChaCha12Rng) -> T) -> Vec<T> {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut parties: Vec<Party> = (0..self.plan.parties()).collect();
        let mut one = |_| {
            let party = parties.swap_remove(rng.random_range(0..parties.len()));
            of(party, &mut rng)
        };
        (0..count).map(&mut one).collect()
    }

    /// `count` kills at moments of a phase: from when the first party gets to it to when the first
    /// gets to the next one, in a run of the same seed without kills. Killed parties fall silent,
    /// or are seen to be gone.
    pub fn kills(&self, count: usize, phase: KillPhase, seed: u64, silent: bool) -> Vec<Fault> {
        self.killed(count, seed, silent, || {
            let calm = self.simulate(Conditions::new(seed));
            let (begins, ends) = match phase {
                KillPhase::Mixing => (Phase::Mixing, Phase::Settling),
                KillPhase::Settling => (Phase::Settling, Phase::Publishing),
                KillPhase::Publishing => (Phase::Publishing, Phase::Done),
            };
            let first = |phase: Phase| first_of(&calm, |event| *event == Event::Phase(phase));
            (first(begins), first(ends))
        })
    }

    /// `count` kills at moments of all rounds or iterations.
    pub fn kills_anywhere(&self, count: usize, seed: u64, silent: bool) -> Vec<Fault> {
        self.killed(count, seed, silent, || {
            *self.whole.get_or_init(|| {
                let calm = self.simulate(Conditions::new(seed));
                let ended = calm.finished_at.iter().flatten().min();
                let begins = |event: &Event| matches!(event, Event::Round(1) | Event::Iteration(1));
                (first_of(&calm, begins), ended.copied().unwrap_or(Time::ZERO))
            })
        })
    }

    fn killed(
        &self,
        count: usize,
        seed: u64,
        silent: bool,
        span: impl FnOnce() -> (Time, Time),
    ) -> Vec<Fault> {
        if count == 0 {
            return vec![];
        }
        let (from, to) = span();
        let until = to.as_nanos().max(from.as_nanos() + 1);
        self.drawn(count, seed, |party, rng| {
            let at = Time::from_nanos(rng.random_range(from.as_nanos()..until));
            match silent {
                true => Fault::Silence { party, at },
                false => Fault::Crash { party, at },
            }
        })
    }
}

/// When the first of such events happened.
fn first_of(simulated: &Simulated, is: impl Fn(&Event) -> bool) -> Time {
    let times = simulated.events.iter().filter(|(_, _, event)| is(event));
    times.map(|(at, _, _)| *at).min().unwrap_or(Time::ZERO)
}
