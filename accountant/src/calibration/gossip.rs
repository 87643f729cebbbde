//! Noise, lattice step, rounds and errors of gossip averaging, as functions of public numbers.

use std::sync::Arc;

use undertone_protocol::mixing::gossip::weights::{RoundWeights, WHOLE};
use undertone_protocol::topology::graph::Graph;

use crate::parallel::in_parallel;

/// What rounding may add to the loss, as a part of it.
const ROUNDING_SHARE: f64 = 1e-4;

/// How many standard deviations noise is expected to stay within.
const DEVIATIONS: f64 = 6.0;

/// Rounds of one value's averaging at most.
pub const MOST_ROUNDS: usize = 4096;

/// Who reads what of a round, as rounding sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadInRound {
    /// Neighbours read messages.
    Messages,
    /// Everybody reads one sum of all messages.
    SumOfAll,
    /// Each party reads the sum of its neighbours' messages; so many may be against a party: those
    /// who collude and those who depart.
    SumsOfNeighbours {
        /// c + D.
        against: usize,
    },
}

impl ReadInRound {
    /// k, where rounding adds at most μ_r² = k · E·n·d · (step/σ)² to the squared loss: planned
    /// changes of messages are rounded to half a step, and so is what is averaged, so that fresh
    /// noise changes by up to 2 steps a coordinate, party and round more than without a lattice. In
    /// the sum of all, rounded changes must add up to 0: 3 steps. In sums of neighbours each term's
    /// own small noise takes up its rounding.
    pub fn rounding(self) -> f64 {
        match self {
            ReadInRound::Messages => 4.0,
            ReadInRound::SumOfAll => 9.0,
            ReadInRound::SumsOfNeighbours { against } => 4.0 + 2048.0 * against as f64,
        }
    }
}

/// What the noise of gossip averaging must serve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GossipDemand {
    /// n.
    pub parties: usize,
    /// E: releases, one a round; 1 for one value.
    pub releases: usize,
    /// d, the coordinates of a release.
    pub dimension: usize,
    /// Δ of one release.
    pub sensitivity: f64,
    /// μ that all releases together may lose.
    pub budget: f64,
    /// Who reads what.
    pub read: ReadInRound,
}

/// The noise of each round, and the lattice that it is on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GossipNoise {
    /// σ of each party's noise in a round with a release.
    pub std: f64,
    /// One step of the lattice is 2^`step_log2`.
    pub step_log2: i32,
    /// μ_r: what rounding adds to the loss at most, a ten-thousandth of the budget.
    pub rounding: f64,
}

impl GossipDemand {
    /// The least noise, where the worst case has the squared loss `square` at unit noise and
    /// sensitivity, with the largest step whose rounding costs no more than a ten-thousandth of the
    /// budget. None if a number is not positive and finite, or the step is none that a number has.
    pub fn noise(&self, square: f64) -> Option<GossipNoise> {
        let std = self.sensitivity * square.sqrt() / (self.budget * (1.0 - ROUNDING_SHARE));
        let values = self.releases as f64 * self.parties as f64 * self.dimension as f64;
        // μ_r for a step of 1.
        let of_step = (self.read.rounding() * values).sqrt() / std;
        let step_log2 = (ROUNDING_SHARE * self.budget / of_step).log2().floor();
        let usable = std > 0.0 && std.is_finite() && of_step > 0.0 && (-1000.0..1000.0).contains(&step_log2);
        usable.then(|| GossipNoise {
            std,
            step_log2: step_log2 as i32,
            rounding: of_step * step_log2.exp2(),
        })
    }
}

/// A row of weights: what each party's release, and noise, counts in one estimate.
type Row = Vec<f64>;

fn part(weight: u32) -> f64 {
    f64::from(weight) / f64::from(WHOLE)
}

/// Everybody's rows after one more round: W times them.
fn averaged(weights: &RoundWeights, rows: &[Row]) -> Vec<Row> {
    in_parallel(rows.len(), |own| {
        let mut row = vec![0.0; rows.len()];
        for &(other, weight) in weights.row(own) {
            let weight = part(weight);
            row.iter_mut()
                .zip(&rows[other])
                .for_each(|(sum, value)| *sum += weight * value);
        }
        Some(row)
    })
}

fn unmixed(parties: usize) -> Vec<Row> {
    (0..parties)
        .map(|own| {
            (0..parties)
                .map(|other| if own == other { 1.0 } else { 0.0 })
                .collect()
        })
        .collect()
}

/// How far one value's estimates may be from the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EstimateReach {
    /// The largest distance of a value from the middle of its range.
    pub half_width: f64,
    /// σ of each party's noise.
    pub std: f64,
}

impl EstimateReach {
    /// The largest difference that an estimate with these rows may have from the mean of all noisy
    /// values: for the worst values, and noise of [`DEVIATIONS`] standard deviations.
    fn of(&self, rows: &[Row]) -> f64 {
        let even = 1.0 / rows.len() as f64;
        let of_row = |row: &Row| {
            let off = || row.iter().map(|weight| weight - even);
            let (sum, square) = (
                off().map(f64::abs).sum::<f64>(),
                off().map(|x| x * x).sum::<f64>(),
            );
            self.half_width * sum + DEVIATIONS * self.std * square.sqrt()
        };
        rows.iter().map(of_row).fold(0.0, f64::max)
    }

    /// T for one value: the fewest rounds, of these, after which no estimate is further from the
    /// mean than `accuracy` standard errors σ/√n. None if all of them, at most [`MOST_ROUNDS`], are
    /// too few.
    pub fn fewest_rounds(&self, edges: &[Arc<Graph>], accuracy: f64) -> Option<usize> {
        let parties = edges.first()?.parties();
        let wanted = accuracy * self.std / (parties as f64).sqrt();
        let mut rows = unmixed(parties);
        let mut weights: Option<(&Arc<Graph>, RoundWeights)> = None;
        for (round, graph) in edges.iter().enumerate().take(MOST_ROUNDS) {
            if weights.as_ref().is_none_or(|(of, _)| !Arc::ptr_eq(of, graph)) {
                weights = Some((graph, RoundWeights::of(graph)));
            }
            if let Some((_, weights)) = &weights {
                rows = averaged(weights, &rows);
            }
            if self.of(&rows) <= wanted {
                return Some(round + 1);
            }
        }
        None
    }
}

/// How well estimates agree with the sum of all releases' means if nothing is missing, at unit
/// noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GossipErrors {
    /// The standard deviation by noise: the root of its mean square over parties.
    pub noise: f64,
    /// The most that uneven weights do, in half widths of a value's range, if each party brings the
    /// same in every round.
    pub weights: f64,
}

/// [`GossipErrors`] after the last of these rounds, where something enters in each of the first
/// `entering` (1 for one value, all of them for a stream).
pub fn errors(edges: &[Arc<Graph>], entering: usize) -> GossipErrors {
    let parties = edges.first().map_or(0, |graph| graph.parties());
    let even = 1.0 / parties as f64;
    let mut rows = unmixed(parties);
    let mut squares = vec![0.0; parties];
    let mut off = vec![vec![0.0; parties]; parties];
    for (round, graph) in edges.iter().enumerate().rev() {
        // The product of this round's weights and all later ones: rows times W, which is symmetric.
        let weights = RoundWeights::of(graph);
        rows = in_parallel(parties, |own| {
            let entry = |party: usize| {
                let terms = weights.row(party).iter();
                terms
                    .map(|&(other, weight)| part(weight) * rows[own][other])
                    .sum()
            };
            Some((0..parties).map(entry).collect())
        });
        if round >= entering {
            continue;
        }
        for (own, row) in rows.iter().enumerate() {
            squares[own] += row.iter().map(|weight| weight * weight).sum::<f64>();
            off[own]
                .iter_mut()
                .zip(row)
                .for_each(|(off, weight)| *off += weight - even);
        }
    }
    let absolute = off
        .iter()
        .map(|row| row.iter().map(|x: &f64| x.abs()).sum::<f64>());
    GossipErrors {
        noise: (squares.iter().sum::<f64>() * even).sqrt(),
        weights: absolute.fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests;
