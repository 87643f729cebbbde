//! The error of the result, from the same rows as the losses: predicted before a run, realised
//! after it.
//!
//! The estimate is Σ yᵢ / Σ wᵢ over the final states yᵢ, of weights wᵢ, that were summed. Its noise
//! is what the rows of these finals carry: σ* on columns of x̃ (a value with its party's own
//! noise), σ_Δ on columns of η (noise that should cancel).

use std::collections::BTreeSet;

use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::class::faults::{self, Crash};
use crate::class::setting::Setting;
use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::execution::settled::{self, LogsError};
use crate::execution::trace::Trace;
use crate::losses::loss::Noise;
use crate::losses::releases;
use crate::mechanism::places::Held;

/// A sum of finals: its weight, and how much noise it carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Summed {
    /// The sum of the weights of the finals.
    pub weight: f64,
    /// The coefficient of each party's value in the sum; divided by the weight, and times the
    /// party's own weight, it is the party's weight in the result.
    pub values: Vec<f64>,
    /// The sum of the squared coefficients of values: σ*² times this is the variance from the
    /// parties' own noise.
    pub independent: f64,
    /// The sum of the squared coefficients of the other noise: σ_Δ² times this is the variance from
    /// noise that did not cancel.
    pub correlated: f64,
}

impl Summed {
    /// The sum of the finals of `included` at the end of `trace`.
    pub fn of(trace: &Trace, included: &BTreeSet<Party>) -> Self {
        let parties = trace.parties();
        let mut sum = vec![0.0; trace.unknowns()];
        for &party in included {
            sum.iter_mut()
                .zip(trace.final_state(party))
                .for_each(|(total, x)| *total += x);
        }
        let square = |part: &[f64]| part.iter().map(|x| x * x).sum::<f64>();
        Summed {
            weight: included.iter().map(|&party| trace.weights()[party]).sum(),
            independent: square(&sum[..parties]),
            correlated: square(&sum[parties..]),
            values: sum[..parties].to_vec(),
        }
    }

    /// The sum of the noisy values of `included`, and nothing else.
    fn exact(own: &[f64], included: &BTreeSet<Party>) -> Self {
        Summed {
            weight: included.iter().map(|&party| own[party]).sum(),
            values: (0..own.len())
                .map(|party| f64::from(u8::from(included.contains(&party))))
                .collect(),
            independent: included.len() as f64,
            correlated: 0.0,
        }
    }

    /// Variance of the estimate, per coordinate; ∞ if the weights add up to nothing.
    pub fn variance(&self, noise: Noise) -> f64 {
        if self.weight == 0.0 {
            return f64::INFINITY;
        }
        let total =
            noise.independent_std.powi(2) * self.independent + noise.correlated_std.powi(2) * self.correlated;
        total / (self.weight * self.weight)
    }
}

/// Unknowns of a run, parties times one more than rounds, up to which errors after a fault are
/// computed from the rows; above, these would take gigabytes.
const MOST_TRACED: usize = 4_000;

/// The square of these unknowns, times the number of runs, up to which errors are computed from the
/// rows; above, these would take minutes.
const MOST_TRACED_SQUARES: usize = 200_000_000;

/// Expected errors as functions of the noise. A variance is a pair: what σ*² counts in it, and what
/// σ_Δ² does.
pub struct ErrorModel {
    /// The variance without a fault, at σ* = 1.
    plain: f64,
    /// The mean variance over parties when one departs in mixing.
    departed: Option<(f64, f64)>,
    /// The mean variance when one party publishes no final, over those without whose final a result
    /// is left; none above [`MOST_TRACED`] unknowns of INCA.
    late: Option<(f64, f64)>,
    /// Whether a result is left without anybody's final. Not with PPSC, if one party ends with most
    /// of the weight.
    always: bool,
}

impl ErrorModel {
    /// Computes the errors from the fault-free run and, without roll-back, from every crash.
    pub fn of(setting: &Setting) -> Result<Self, ExecutionError> {
        let parties = setting.parties();
        let plain = parties as f64 / setting.total_weight().powi(2);
        let unknowns = parties * (setting.rounds() + 1);
        let traced =
            |runs: usize| unknowns <= MOST_TRACED && runs * unknowns * unknowns <= MOST_TRACED_SQUARES;
        // One final is missing at the end.
        let late = match setting.mechanism.rules().held(&setting.out) {
            Some(held) => late_held(setting, held),
            None if traced(1) => late(setting)?,
            None => vec![],
        };
        let always = late.iter().all(|(_, usable)| *usable);
        let late: Vec<Summed> = late
            .into_iter()
            .filter(|(_, usable)| *usable)
            .map(|(sum, _)| sum)
            .collect();
        let late = (!late.is_empty()).then(|| mean(&late));
        // One party is gone before: with roll-back the rest has its exact mean.
        let departed = if setting.rollback {
            let rest = |party| Summed::exact(&setting.weights, &without(setting, party));
            Some(mean(&(0..parties).map(rest).collect::<Vec<_>>()))
        } else if traced(parties * setting.rounds()) {
            Some(mean(&crashes(setting)?))
        } else {
            None
        };
        Ok(ErrorModel {
            plain,
            departed,
            late,
            always,
        })
    }

    /// The standard error of a run without a fault.
    pub fn plain(&self, noise: Noise) -> f64 {
        self.plain.sqrt() * noise.independent_std
    }

    /// The standard error if one party departs before the logs are agreed: root of the mean
    /// variance over parties (and, without roll-back, over rounds). None where it was not computed.
    pub fn departed(&self, noise: Noise) -> Option<f64> {
        self.departed.map(|terms| error(terms, noise))
    }

    /// The standard error if one party of the agreed logs publishes no final: root of the mean
    /// variance over parties. None where it was not computed, or no result is left without some
    /// party's.
    pub fn late(&self, noise: Noise) -> Option<f64> {
        self.late.filter(|_| self.always).map(|terms| error(terms, noise))
    }

    /// Whether it was computed what is left if one party of the agreed logs publishes no final.
    pub fn knows_late(&self) -> bool {
        self.late.is_some() || !self.always
    }

    /// Returns the error that calibration minimises, at σ* = 1 and σ_Δ² = `ratio`. One party
    /// departs, nine times in ten in mixing and once in ten in publishing (otherwise σ_Δ → ∞ looks
    /// free). Where no result is left no noise helps: these count for nothing.
    pub fn expected(&self, ratio: f64) -> f64 {
        let noise = Noise {
            independent_std: 1.0,
            correlated_std: ratio.sqrt(),
        };
        let departed = self.departed(noise).unwrap_or(self.plain(noise));
        0.9 * departed + 0.1 * self.late.map_or(departed, |terms| error(terms, noise))
    }
}

/// The root of a variance that is one number times σ*² and another times σ_Δ².
fn error((constant, factor): (f64, f64), noise: Noise) -> f64 {
    (constant * noise.independent_std.powi(2) + factor * noise.correlated_std.powi(2)).sqrt()
}

/// Everybody but `party`.
fn without(setting: &Setting, party: Party) -> BTreeSet<Party> {
    (0..setting.parties()).filter(|&other| other != party).collect()
}

/// Without faults, each party's final missing in turn, and whether a result is left.
fn late(setting: &Setting) -> Result<Vec<(Summed, bool)>, ExecutionError> {
    let trace = Trace::keeping(&setting.fault_free()?, &setting.weights, |_, _| false);
    let of_party = |party: Party| {
        let sum = Summed::of(&trace, &without(setting, party));
        let usable = enough(sum.weight, setting.total_weight() - setting.weights[party]);
        (sum, usable)
    };
    Ok((0..setting.parties()).map(of_party).collect())
}

/// Each party's final missing in turn, and whether a result is left, from what finals hold: that
/// takes no rows.
fn late_held(setting: &Setting, held: Vec<Held>) -> Vec<(Summed, bool)> {
    let of_party = |(party, held): (Party, Held)| {
        let mut values = vec![1.0; setting.parties()];
        held.values.iter().for_each(|&value| values[value] = 0.0);
        let weight = values
            .iter()
            .zip(&setting.weights)
            .map(|(value, weight)| value * weight)
            .sum();
        let independent = values.iter().sum();
        // The other place of each noise of the missing final is in the sum.
        let sum = Summed {
            weight,
            values,
            independent,
            correlated: held.noises as f64,
        };
        let usable = enough(weight, setting.total_weight() - setting.weights[party]);
        (sum, usable)
    };
    held.into_iter().enumerate().map(of_party).collect()
}

/// Whether a mean may be written from finals of this weight, of parties of that true weight.
fn enough(weight: f64, true_weight: f64) -> bool {
    weight >= true_weight / 2.0
}

/// Returns the sums that result if each party crashes in each round, without roll-back.
fn crashes(setting: &Setting) -> Result<Vec<Summed>, ExecutionError> {
    let base = setting.fault_free()?;
    let mut sums = Vec::new();
    for party in 0..setting.parties() {
        for round in 1..=setting.rounds() as u32 {
            let crash = Crash {
                party,
                round,
                lost_at_once: false,
                lost_later: false,
            };
            let execution = faults::crashed(setting, &base, crash)?;
            let trace = Trace::keeping(&execution, &setting.weights, |_, _| false);
            sums.push(Summed::of(&trace, &without(setting, party)));
        }
    }
    Ok(sums)
}

/// Returns the mean variance of the estimates, as the pair of coefficients that [`ErrorModel`]
/// stores.
fn mean(sums: &[Summed]) -> (f64, f64) {
    let count = sums.len() as f64;
    let average = |of: fn(&Summed) -> f64| {
        sums.iter()
            .map(|sum| of(sum) / (sum.weight * sum.weight))
            .sum::<f64>()
            / count
    };
    (average(|sum| sum.independent), average(|sum| sum.correlated))
}

/// Runs an execution and sums the finals of `included`.
pub fn summed(execution: &Execution, weights: &[f64], included: &BTreeSet<Party>) -> Summed {
    Summed::of(&Trace::keeping(execution, weights, |_, _| false), included)
}

/// How good a result is, as it turned out.
#[derive(Debug, Clone, PartialEq)]
pub struct Realised {
    /// The standard error, per coordinate and in the data's unit, noise only; ∞ if the weights add
    /// up to nothing.
    pub standard_error: f64,
    /// The weight of each party's value in the result; in a mean the weights add up to 1.
    pub weights: Vec<f64>,
    /// The sum of the weights of the finals that were summed.
    pub total_weight: f64,
    /// The part of the publishers' weight that is missing from the sum (with `rollback = false`: of
    /// everybody's).
    pub lost_weight: f64,
    /// Whether a mean may be written: the weights add up to at least half of the true weight of
    /// these parties, and the noise is not above that of local noise.
    pub usable: bool,
}

/// The error of the sum of the finals of `included`, when `publishers` were let through by the
/// gate, as the agreed logs tell what happened.
///
/// # Errors
/// Logs that contradict the plan's schedule.
pub fn realised(
    plan: &Plan,
    logs: &AgreedLogs,
    publishers: &BTreeSet<Party>,
    included: &BTreeSet<Party>,
) -> Result<Realised, LogsError> {
    let calibration = plan.calibration();
    let noise = Noise {
        independent_std: calibration.independent_std,
        correlated_std: calibration.correlated_std,
    };
    let own: Vec<f64> = (0..plan.parties()).map(|party| plan.weight(party)).collect();
    let setting = Setting::of_plan(plan).map_err(|error| ExecutionError::Invalid {
        place: "injection".into(),
        problem: error.to_string(),
    })?;
    let base = setting.fault_free()?;
    let whole = setting.rollback && included == publishers;
    let summed = if whole || setting.uniform {
        // Roll-back: the finals of all who publish add up to the sum of their x̃, to the bit.
        settled::check(plan, logs)?;
        Summed::exact(&own, included)
    } else {
        summed(&settled::likely(plan, &base, logs, publishers)?, &own, included)
    };
    let standard_error = summed.variance(noise).sqrt();
    let expected: f64 = if setting.rollback {
        publishers.iter().map(|&party| own[party]).sum()
    } else {
        own.iter().sum()
    };
    let true_weight: f64 = included.iter().map(|&party| own[party]).sum();
    // Without any weight nobody's value is in the result.
    let weights = if summed.weight == 0.0 {
        vec![0.0; own.len()]
    } else {
        let parts = summed.values.iter().zip(&own);
        parts
            .map(|(value, weight)| value * weight / summed.weight)
            .collect()
    };
    // A sum is a mean times the weight that is in it; of nothing there is neither.
    let divisor = plan.draft().computation.result().divisor(summed.weight);
    let times = if summed.weight == 0.0 {
        1.0
    } else {
        summed.weight / divisor
    };
    Ok(Realised {
        // Uniform noise of which a part is missing leaves nothing.
        usable: (whole || !setting.uniform)
            && enough(summed.weight, true_weight)
            && standard_error <= local_error(plan, included),
        standard_error: standard_error * plan.scales().root_mean_square() * times,
        weights: weights.into_iter().map(|weight| weight * times).collect(),
        total_weight: summed.weight,
        lost_weight: expected - summed.weight,
    })
}

/// Returns the standard error, per coordinate and in the data's unit, of a result in which nothing
/// but the values of these parties, each with its own noise, is added up; ∞ if they weigh nothing.
pub fn error_of_whole(plan: &Plan, included: &BTreeSet<Party>) -> f64 {
    let own: Vec<f64> = (0..plan.parties()).map(|party| plan.weight(party)).collect();
    let noise = Noise {
        independent_std: plan.calibration().independent_std,
        correlated_std: 0.0,
    };
    let summed = Summed::exact(&own, included);
    let times = summed.weight / plan.draft().computation.result().divisor(summed.weight);
    summed.variance(noise).sqrt() * plan.scales().root_mean_square() * times
}

/// The error that these parties would reach with local noise alone, in a state's units: one noise
/// for everybody, as plans have, enough for the largest sensitivity. (With uneven weights a noise
/// for each would be less, less even than what a plan without faults gives.)
fn local_error(plan: &Plan, included: &BTreeSet<Party>) -> f64 {
    let Ok(budget) = releases::budget(plan.draft()) else {
        return 0.0;
    };
    let weight: f64 = included.iter().map(|&party| plan.weight(party)).sum();
    // A sum of everybody's local noise, and a margin for rounding.
    plan.draft().largest_sensitivity() * (included.len() as f64).sqrt() / (budget * weight) * (1.0 + 1e-5)
}

#[cfg(test)]
mod tests;
