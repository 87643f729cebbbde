//! Runs of gossip in one process, over a simulated network, with the machines, the lattice and the
//! noise of a node; and what estimates would be without noise.

use std::cell::OnceCell;
use std::sync::Arc;

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::mixing::gossip::weights::{RoundWeights, WHOLE};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Event, Outcome};
use undertone_protocol::simulator::cluster::Simulation;
use undertone_protocol::simulator::scenario::{Conditions, Fault, Report as Simulated};
use undertone_protocol::time::Time;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::measuring::synthetic;
use crate::measuring::trial::CachedGate;

/// A plan of gossip with the releases of its parties.
pub struct GossipTrial {
    /// The plan that is run.
    pub plan: Arc<Plan>,
    /// By party and release, within the clipping range.
    releases: Vec<Vec<Vec<f64>>>,
    /// The gate of every node, where sums are of all.
    pub gate: CachedGate,
    /// When a run without kills begins its first round, and when it ends.
    span: OnceCell<(Time, Time)>,
}

impl GossipTrial {
    /// A trial with synthetic rows inside of the clipping range, drawn from `seed`.
    pub fn new(plan: Arc<Plan>, seed: u64) -> Self {
        let data = &plan.draft().data;
        let row = |party: Party, release: usize| {
            let stream = party + release * plan.parties();
            synthetic::vector(&data.clip, data.dimension(), seed, stream)
        };
        let of_party =
            |party: Party| (0..plan.draft().releases() as usize).map(move |release| row(party, release));
        let releases = (0..plan.parties()).map(|party| of_party(party).collect());
        GossipTrial {
            releases: releases.collect(),
            plan: plan.clone(),
            gate: CachedGate::default(),
            span: OnceCell::new(),
        }
    }

    fn on_lattice(&self, party: Party, release: usize) -> LatticeVector {
        let value = Clipped::of(&self.plan, party, self.releases[party][release].clone())
            .0
            .into_vector();
        if !self.plan.reads_circles() {
            return value;
        }
        // Beside the message stands what is added to each vector: here the simulation's noise.
        let edges = self.plan.active_edges(release as u32 + 1);
        let none = self.plan.lattice().zeros(self.plan.draft().dimension());
        let vectors = std::iter::repeat_n(none, edges.neighbours(party).len());
        self.plan.lattice().joined(std::iter::once(value).chain(vectors))
    }

    /// One run over a simulated network.
    pub fn simulate(&self, conditions: Conditions) -> Simulated {
        let first = (0..self.plan.parties()).map(|party| self.on_lattice(party, 0));
        // Nobody asks it where parties average: it is for sums of all.
        let gate = |plan: &Plan, logs: &AgreedLogs| self.gate.verdict(plan, logs);
        Simulation::new(self.plan.clone(), first.collect(), &gate, conditions)
            .contributing(|party, round, _| self.on_lattice(party, round as usize - 1))
            .run()
    }

    /// `count` kills at moments of a run's rounds. Killed parties fall silent, or are seen to be
    /// gone.
    pub fn kills(&self, count: usize, seed: u64, silent: bool) -> Vec<Fault> {
        if count == 0 {
            return vec![];
        }
        let (begun, ended) = *self.span.get_or_init(|| self.calm_span(seed));
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let mut parties: Vec<Party> = (0..self.plan.parties()).collect();
        let mut kill = |_| {
            let party = parties.swap_remove(rng.random_range(0..parties.len()));
            let until = ended.as_nanos().max(begun.as_nanos() + 1);
            let at = Time::from_nanos(rng.random_range(begun.as_nanos()..until));
            match silent {
                true => Fault::Silence { party, at },
                false => Fault::Crash { party, at },
            }
        };
        (0..count).map(&mut kill).collect()
    }

    fn calm_span(&self, seed: u64) -> (Time, Time) {
        let calm = self.simulate(Conditions::new(seed));
        let first = |event: &Event| matches!(event, Event::Round(1) | Event::Iteration(1));
        let begun = calm.events.iter().find(|(_, _, event)| first(event));
        let ended = calm.finished_at.iter().flatten().copied().min();
        (
            begun.map_or(Time::ZERO, |(at, _, _)| *at),
            ended.unwrap_or(Time::ZERO),
        )
    }

    /// The last row of a node that came to the end.
    pub fn last_row<'a>(&self, outcome: &'a Outcome) -> Option<&'a [f64]> {
        let (planned, dimension) = (self.releases[0].len(), self.plan.draft().dimension());
        let rows: &[f64] = match (&outcome.gossip, &outcome.training) {
            (Some(gossip), _) if gossip.rounds == self.plan.rounds() => &gossip.estimates,
            (None, Some(training)) if training.iterations == planned as u64 => training.result.as_deref()?,
            _ => return None,
        };
        rows.rchunks(dimension).next()
    }

    /// What the last row would be everywhere with even weights and without noise: the means over
    /// those who were in each release's round, added up.
    pub fn truth(&self, simulated: &Simulated) -> Vec<f64> {
        let was_in: Vec<u64> = (0..self.plan.parties())
            .map(|party| rounds_of(simulated, party))
            .collect();
        let mut sum = vec![0.0; self.plan.draft().dimension()];
        for release in 0..self.releases[0].len() {
            let there = was_in.iter().filter(|&&rounds| rounds > release as u64).count();
            for (party, rows) in self.releases.iter().enumerate() {
                if was_in[party] > release as u64 {
                    let terms = sum.iter_mut().zip(&rows[release]);
                    terms.for_each(|(sum, value)| *sum += value / there as f64);
                }
            }
        }
        sum
    }

    /// Each party's last row without noise, if no message is missing.
    pub fn without_noise(&self) -> Vec<Vec<f64>> {
        let (parties, dimension) = (self.plan.parties(), self.plan.draft().dimension());
        if self.plan.draft().sums_everybody() {
            return vec![self.mean_of_all(); parties];
        }
        let mut states = vec![vec![0.0; dimension]; parties];
        for round in 1..=self.plan.rounds() {
            for (state, rows) in states.iter_mut().zip(&self.releases) {
                let row = rows.get(round as usize - 1).into_iter().flatten();
                state
                    .iter_mut()
                    .zip(row)
                    .for_each(|(state, value)| *state += value);
            }
            let pairs = self.plan.exchanges().pairs(round);
            let active = Graph::from_edges(parties, &pairs).expect("edges of a checked plan");
            let weights = RoundWeights::of(&active);
            let averaged = |own: Party| {
                let mut sum = vec![0.0; dimension];
                for &(other, weight) in weights.row(own) {
                    let part = f64::from(weight) / f64::from(WHOLE);
                    let terms = sum.iter_mut().zip(&states[other]);
                    terms.for_each(|(sum, value)| *sum += part * value);
                }
                sum
            };
            states = (0..parties).map(averaged).collect();
        }
        states
    }

    /// The means of all releases, added up.
    fn mean_of_all(&self) -> Vec<f64> {
        let mut sum = vec![0.0; self.plan.draft().dimension()];
        for row in self.releases.iter().flatten() {
            let terms = sum.iter_mut().zip(row);
            terms.for_each(|(sum, value)| *sum += value / self.plan.parties() as f64);
        }
        sum
    }
}

/// In how many rounds a party was: where all agree on that, what they agreed on, else as many as it
/// began.
fn rounds_of(simulated: &Simulated, party: Party) -> u64 {
    let mut trainings = simulated.outcomes.iter().flatten();
    if let Some(agreed) = trainings.find_map(|outcome| outcome.training.as_ref()) {
        return agreed.departed.get(&party).map_or(u64::MAX, |since| since - 1);
    }
    let rounds = simulated.events.iter().filter_map(|(_, who, event)| match event {
        Event::Round(round) if *who == party => Some(u64::from(*round)),
        _ => None,
    });
    rounds.max().unwrap_or(0)
}
