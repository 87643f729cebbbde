//! Made-up vectors of means and streams, and what their nodes would have without noise.

use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::mixing::gossip::weights::{RoundWeights, WHOLE};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::run::outcome::{Event, Outcome};
use undertone_protocol::simulator::scenario::Report as Simulated;
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::party::Party;

use crate::measuring::synthetic;
use crate::measuring::trial::{Contributions, Trial};

/// Made-up vectors within the clipping range.
pub struct Vectors {
    /// By party and release; of all of its rows.
    pub releases: Vec<Vec<Vec<f64>>>,
}

impl Vectors {
    /// Vectors for this plan, drawn from `seed`.
    pub fn drawn(plan: &Plan, seed: u64) -> Self {
        let (data, parties) = (&plan.draft().data, plan.parties());
        let release = |party: Party, release: usize| {
            let rows = plan.records(party).unwrap_or(1) as usize;
            let row = |row| synthetic::vector(&data.clip, data.dimension(), seed, party + row * parties);
            (release * rows..(release + 1) * rows).flat_map(row).collect()
        };
        let of_party = |party: Party| {
            let all = 0..plan.draft().releases() as usize;
            all.map(|number| release(party, number)).collect()
        };
        Vectors {
            releases: (0..parties).map(of_party).collect(),
        }
    }
}

impl Contributions for Vectors {
    fn contribution(&self, plan: &Plan, party: Party, number: u32, _: &[f64]) -> LatticeVector {
        let values = self.releases[party][number as usize - 1].clone();
        let value = Clipped::of(plan, party, values).0.into_vector();
        if !plan.reads_circles() {
            return value;
        }
        // Beside the message stands what is added to each vector: here the simulation's noise.
        let edges = plan.active_edges(number);
        let none = plan.lattice().zeros(plan.draft().dimension());
        let vectors = std::iter::repeat_n(none, edges.neighbours(party).len());
        plan.lattice().joined(std::iter::once(value).chain(vectors))
    }
}

impl Trial<Vectors> {
    /// The last row of a node that came to the end.
    pub fn last_row<'a>(&self, outcome: &'a Outcome) -> Option<&'a [f64]> {
        let (planned, dimension) = (self.of.releases[0].len(), self.plan.draft().dimension());
        let rows: &[f64] = match (&outcome.gossip, &outcome.training) {
            (Some(gossip), _) if gossip.rounds == self.plan.rounds() => &gossip.estimates,
            (None, Some(training)) if training.iterations == planned as u64 => training.result.as_deref()?,
            _ => return None,
        };
        rows.rchunks(dimension).next()
    }

    /// Returns the last row as it would be everywhere with equal weights and without noise. This is
    /// the sum, over the releases, of the means over those who were in each release's round.
    pub fn truth(&self, simulated: &Simulated) -> Vec<f64> {
        let was_in: Vec<u64> = (0..self.plan.parties())
            .map(|party| rounds_of(simulated, party))
            .collect();
        let mut sum = vec![0.0; self.plan.draft().dimension()];
        for release in 0..self.of.releases[0].len() {
            let there = was_in.iter().filter(|&&rounds| rounds > release as u64).count();
            for (party, rows) in self.of.releases.iter().enumerate() {
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
            for (state, rows) in states.iter_mut().zip(&self.of.releases) {
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
        for row in self.of.releases.iter().flatten() {
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
