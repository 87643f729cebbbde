//! Rounds and errors of gossip averaging, as functions of public numbers.

use undertone_protocol::mixing::gossip::weights::{RoundWeights, WHOLE};
use undertone_protocol::topology::graph::Graph;
use undertone_protocol::topology::schedule::Schedule;

use crate::parallel::in_parallel;

/// How many standard deviations noise is expected to stay within.
const DEVIATIONS: f64 = 6.0;

/// The weights of a schedule's round, from 1 on.
///
/// # Panics
/// If the schedule has no such round, or is none of edges.
pub(crate) fn weights(schedule: &Schedule, round: u32) -> RoundWeights {
    let active = Graph::from_edges(schedule.parties(), &schedule.pairs(round));
    RoundWeights::of(&active.expect("edges of a schedule join its parties"))
}

/// The weights of each party's value, and of its noise, in every estimate after some rounds.
#[derive(Clone, Debug)]
pub(crate) struct EstimateWeights {
    /// A row an estimate, an entry a party.
    rows: Vec<Vec<f64>>,
}

fn part(weight: u32) -> f64 {
    f64::from(weight) / f64::from(WHOLE)
}

impl EstimateWeights {
    /// Before any round: everybody has its own.
    pub(crate) fn unmixed(parties: usize) -> Self {
        let own = |own: usize| (0..parties).map(move |other| if own == other { 1.0 } else { 0.0 });
        EstimateWeights {
            rows: (0..parties).map(|party| own(party).collect()).collect(),
        }
    }

    /// After one more round, with these weights.
    pub(crate) fn then(&self, weights: &RoundWeights) -> Self {
        let rows = in_parallel(self.rows.len(), |own| {
            let mut row = vec![0.0; self.rows.len()];
            for &(other, weight) in weights.row(own) {
                let weight = part(weight);
                let terms = row.iter_mut().zip(&self.rows[other]);
                terms.for_each(|(sum, value)| *sum += weight * value);
            }
            Some(row)
        });
        EstimateWeights { rows }
    }

    /// For what enters one round earlier, with these weights of that round.
    pub(crate) fn earlier(&self, weights: &RoundWeights) -> Self {
        let rows = in_parallel(self.rows.len(), |own| {
            // Weights are symmetric: a row of them is a column.
            let entry = |party: usize| {
                let terms = weights.row(party).iter();
                terms
                    .map(|&(other, weight)| part(weight) * self.rows[own][other])
                    .sum::<f64>()
            };
            Some((0..self.rows.len()).map(entry).collect())
        });
        EstimateWeights { rows }
    }

    /// Σ w² by row.
    fn squares(&self) -> impl Iterator<Item = f64> {
        let square = |row: &Vec<f64>| row.iter().map(|weight| weight * weight).sum();
        self.rows.iter().map(square)
    }

    /// Σ |w − 1/n| and Σ (w − 1/n)² by row.
    fn off(&self) -> impl Iterator<Item = (f64, f64)> {
        let equal = 1.0 / self.rows.len() as f64;
        let off = move |row: &Vec<f64>| {
            let off = row.iter().map(|weight| weight - equal);
            off.fold((0.0, 0.0), |(sum, square), x| (sum + x.abs(), square + x * x))
        };
        self.rows.iter().map(off)
    }
}

/// How far one value's estimates may be from each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct EstimateReach {
    /// The largest distance of a value from the middle of its range.
    pub(crate) half_width: f64,
    /// σ of each party's noise.
    pub(crate) std: f64,
}

impl EstimateReach {
    /// The largest difference that two estimates may have: twice the largest distance from the mean
    /// of all noisy values, for the worst values, and noise within [`DEVIATIONS`] standard
    /// deviations.
    pub(crate) fn difference(&self, estimates: &EstimateWeights) -> f64 {
        let reach = |(sum, square): (f64, f64)| self.half_width * sum + DEVIATIONS * self.std * square.sqrt();
        2.0 * estimates.off().map(reach).fold(0.0, f64::max)
    }

    /// Whether no two estimates differ by more than `accuracy` standard errors σ/√n: the rule for
    /// the rounds of one value, which has as few as that takes.
    pub(crate) fn within(&self, estimates: &EstimateWeights, accuracy: f64) -> bool {
        let error = self.std / (estimates.rows.len() as f64).sqrt();
        self.difference(estimates) <= accuracy * error
    }
}

/// How far estimates are from the mean of what all parties contributed, at the node that is
/// furthest, if nobody's message is missing. Of a stream: of the last row, the means of all
/// releases, added up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimateError {
    /// The standard deviation of the noise in it over that of a party's own.
    noise: f64,
    /// Σ |weight of a value − 1/n| over the values of all parties and releases.
    uneven: f64,
}

impl EstimateError {
    /// After all rounds of a schedule, with so many releases in the first of them.
    pub fn of(schedule: &Schedule, releases: u64) -> Self {
        let parties = schedule.parties();
        let mut estimates = EstimateWeights::unmixed(parties);
        let (mut squares, mut uneven) = (vec![0.0; parties], vec![0.0; parties]);
        for round in (1..=schedule.rounds() as u32).rev() {
            estimates = estimates.earlier(&weights(schedule, round));
            if u64::from(round) > releases {
                continue;
            }
            let mut add = squares.iter_mut().zip(estimates.squares());
            add.by_ref().for_each(|(sum, square)| *sum += square);
            let add = uneven.iter_mut().zip(estimates.off());
            add.for_each(|(sum, (off, _))| *sum += off);
        }
        let largest = |all: Vec<f64>| all.into_iter().fold(0.0, f64::max);
        EstimateError {
            noise: largest(squares).sqrt(),
            uneven: largest(uneven),
        }
    }

    /// The standard error of the noise, with this noise of a party's own.
    pub fn standard_error(&self, independent_std: f64) -> f64 {
        self.noise * independent_std
    }

    /// How far an estimate can be from the mean of all clipped values in a coordinate, whatever
    /// these are, noise aside; `half_width`: the largest distance of a clipped value from the
    /// middle of its range.
    pub fn spread(&self, half_width: f64) -> f64 {
        self.uneven * half_width
    }
}

#[cfg(test)]
mod tests;
