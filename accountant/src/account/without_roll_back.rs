//! INCA's Figure 3a: the mean squared error of INCA as its paper has it (Algorithm 2), which leaves
//! the noise of those who depart where it is.
//!
//! The two experiments of its section 5.2, over random exchanges and random departures. First the
//! least σ_Δ² at which an execution meets (ε, δ), σ*² given: where the paper has Theorem 4.7's
//! bound, here it is found by the exact loss of the execution (Theorem 4.1 with the exact Gaussian
//! trade-off); the largest of all draws serves. Then the error of the mean at that σ_Δ²: where the
//! paper draws values and noise, here it is their variance, computed from what the finals have of
//! each; only executions are drawn.

use rand::rngs::ChaCha8Rng;
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};

use crate::account::answer::AccountError;
use crate::account::departing::Departing;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::seen::seen_states;
use crate::execution::trace::Trace;
use crate::losses::covariances::Covariances;
use crate::losses::loss::Noise;
use crate::losses::view::View;
use crate::mechanism::inca::{InjectionSpec, NamedInjection};
use crate::parallel::in_parallel;

/// α: how many times the least σ*² that n_O honest parties need is taken, so that σ_Δ² need not be
/// large (section 5.2, which takes 1.3).
pub const DEGRADATION: f64 = 1.3;

/// Draws that are computed at once after the first two: our choice. It says nothing of the result
/// but how often σ_Δ² is found anew.
const AT_ONCE: u64 = 8;

/// Where the search for σ_Δ²/σ*² begins; below what any is taken for the least, and above what
/// none is taken for enough. Our guesses.
const FIRST_RATIO: f64 = 0.05;
const LEAST_RATIO: f64 = 1e-9;
const LAST_RATIO: f64 = 1e7;

/// How far above the least σ_Δ² the one that is found may lie, relatively: our choice, far below
/// what its largest varies by from seed to seed.
const TOLERANCE: f64 = 1e-3;

/// INCA with D_Inc (Example 3.2) and weights 1/(k + 1), of whose parties some depart for good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithoutRollBack {
    /// Who averages, at what ε and δ, and how many collude.
    pub among: Departing,
    /// k: to how many others each party sends in a round, drawn by chance, afresh in each.
    pub fanout: usize,
    /// T, at least 1.
    pub rounds: usize,
    /// How many honest parties depart, each before it sends in a round that is drawn of 1 to T.
    pub departed: usize,
}

/// The noises that were found, and the error that they make.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WhatStays {
    /// The mean squared error of the mean of numbers from 0 to 1.
    pub error: f64,
    /// How much of it is noise that did not cancel.
    pub uncancelled: f64,
    /// σ*².
    pub independent_variance: f64,
    /// σ_Δ²: the largest that a draw needs.
    pub correlated_variance: f64,
}

/// Variances of the mean that the finals of one execution give.
#[derive(Debug, Clone, Copy, Default)]
struct Remainder {
    /// What all parties' own noises come to, at σ* = 1.
    own: f64,
    /// What all noises that were to cancel come to, at σ_Δ = 1.
    uncancelled: f64,
    /// What missing parts of some values, and too much of others, come to: each value is uniform
    /// from 0 to 1.
    values: f64,
}

impl Remainder {
    /// What the finals of those who stayed add up to, divided by the weight that they have of
    /// values.
    fn of(execution: &Execution, trace: &Trace) -> Self {
        let parties = execution.parties();
        let mut sum = vec![0.0; trace.unknowns()];
        for &party in execution.published() {
            sum.iter_mut()
                .zip(trace.final_state(party))
                .for_each(|(sum, x)| *sum += x);
        }
        let weight: f64 = sum[..parties].iter().sum();
        let squares = |part: &[f64], even: f64| part.iter().map(|x| (x / weight - even).powi(2)).sum();
        let values: f64 = squares(&sum[..parties], 1.0 / parties as f64);
        Remainder {
            own: squares(&sum[..parties], 0.0),
            uncancelled: squares(&sum[parties..], 0.0),
            // The variance of a uniform number from 0 to 1.
            values: values / 12.0,
        }
    }
}

impl WithoutRollBack {
    /// Both experiments, on the same `runs` draws (at least 1), from `seed`; none if in some draw
    /// no σ_Δ² meets (ε, δ) at this σ*².
    pub fn measure(&self, runs: u64, seed: u64) -> Result<Option<WhatStays>, AccountError> {
        let Departing {
            parties, colluding, ..
        } = self.among;
        // σ*² = α/(n_O μ²): in units of σ*² the square of a loss may be α/n_O, whatever ε and δ.
        let most = DEGRADATION / (parties - colluding - self.departed) as f64;
        let independent_variance = most * self.among.central()? * (parties as f64).powi(2);
        let (mut ratio, mut mean, mut done) = (None::<f64>, Remainder::default(), 0);
        while done < runs.max(1) {
            let count = if done == 0 { 2 } else { AT_ONCE }.min(runs.max(1) - done);
            let of_draw = |draw: usize| Some(self.draw(done + draw as u64, seed, most, ratio));
            for found in in_parallel(count as usize, of_draw) {
                let (remainder, needed) = found?;
                mean.own += remainder.own / runs.max(1) as f64;
                mean.uncancelled += remainder.uncancelled / runs.max(1) as f64;
                mean.values += remainder.values / runs.max(1) as f64;
                ratio = Some(ratio.map_or(needed, |ratio| ratio.max(needed)));
            }
            done += count;
        }
        let ratio = ratio.unwrap_or(f64::INFINITY);
        if ratio.is_infinite() {
            return Ok(None);
        }
        let correlated_variance = ratio * independent_variance;
        let uncancelled = correlated_variance * mean.uncancelled;
        Ok(Some(WhatStays {
            error: independent_variance * mean.own + uncancelled + mean.values,
            uncancelled,
            independent_variance,
            correlated_variance,
        }))
    }

    /// What one draw's finals come to, and the σ_Δ²/σ*² that it needs, or `known` if that is
    /// enough.
    fn draw(
        &self,
        draw: u64,
        seed: u64,
        most: f64,
        known: Option<f64>,
    ) -> Result<(Remainder, f64), ExecutionError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(draw);
        let execution = self.execution(&mut random)?;
        let states = seen_states(&execution);
        let even = vec![1.0; execution.parties()];
        let trace = Trace::keeping(&execution, &even, |party, round| states.contains(&(party, round)));
        let remainder = Remainder::of(&execution, &trace);
        let view = View::of_trace(&trace, &execution);
        drop(trace);
        let covariances = Covariances::of(view);
        let excess = |ratio: f64| {
            let losses = covariances.squared_losses(Noise {
                independent_std: 1.0,
                correlated_std: ratio.sqrt(),
            });
            libm::log(losses.into_iter().fold(0.0, f64::max) / most)
        };
        Ok((remainder, least_ratio(excess, known)))
    }

    /// Parties are alike: the first ones depart, the last ones collude.
    fn execution(&self, random: &mut ChaCha8Rng) -> Result<Execution, ExecutionError> {
        let Departing {
            parties, colluding, ..
        } = self.among;
        let mut receivers = |from: usize| -> Vec<usize> {
            let others = sample(random, parties - 1, self.fanout).into_iter();
            others.map(|other| other + usize::from(other >= from)).collect()
        };
        let out = (0..self.rounds)
            .map(|_| (0..parties).map(&mut receivers).collect())
            .collect();
        let mut online = vec![vec![true; parties]; self.rounds + 1];
        for party in 0..self.departed {
            let first = random.random_range(1..=self.rounds);
            online[first..].iter_mut().for_each(|round| round[party] = false);
        }
        Execution::fault_free(InjectionSpec::Named(NamedInjection::Incremental), out)?
            .with_online(online)?
            .with_corrupted(parties - colluding..parties)
    }
}

/// The least ratio at which `excess`, which falls with it, is 0 or less, or [`TOLERANCE`] more; if
/// `known` is enough, `known`; ∞ if none is.
fn least_ratio(excess: impl Fn(f64) -> f64, known: Option<f64>) -> f64 {
    // Both ends as (ln ratio, excess).
    let at = |ln: f64| (ln, excess(libm::exp(ln)));
    let step = libm::log(4.0);
    let mut high = at(libm::log(known.unwrap_or(FIRST_RATIO)));
    let mut low = high;
    if high.1 <= 0.0 {
        if let Some(known) = known {
            return known;
        }
        while low.1 <= 0.0 {
            high = low;
            if high.0 < libm::log(LEAST_RATIO) {
                return libm::exp(high.0);
            }
            low = at(low.0 - step);
        }
    }
    while high.1 > 0.0 {
        if high.0 > libm::log(LAST_RATIO) {
            return f64::INFINITY;
        }
        low = high;
        high = at(high.0 + step);
    }
    // A line through both ends, and then a bit towards the end that was not moved last: once the
    // line is that exact, both ends close in.
    let mut beyond = 0.5 * TOLERANCE;
    while high.0 - low.0 > TOLERANCE {
        let share = if low.1.is_finite() {
            low.1 / (low.1 - high.1)
        } else {
            0.5
        };
        let line = low.0 + share * (high.0 - low.0);
        let margin = 0.1 * TOLERANCE;
        let next = at((line + beyond).clamp(low.0 + margin, high.0 - margin));
        if next.1 <= 0.0 {
            (high, beyond) = (next, -0.5 * TOLERANCE);
        } else {
            (low, beyond) = (next, 0.5 * TOLERANCE);
        }
    }
    libm::exp(high.0)
}

#[cfg(test)]
mod tests;
