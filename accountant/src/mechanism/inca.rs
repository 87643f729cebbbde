//! INCA (Algorithm 2): a row of (c, Z) comes in in each round, c_t of the value and Z_t of the
//! noises η; a share is an equal part of the state.

use serde::{Deserialize, Serialize};
use undertone_protocol::lattice::injection::Injection;

use crate::losses::loss::{Noise, squared_losses};
use crate::losses::view::View;
use crate::mechanism::flow::{Row, Sending, combined, led_out};
use crate::mechanism::rules::{Rules, Sends};
use crate::mechanism::unfit::Unfit;

/// Numbers that the states of one round may take at most (512 MiB): a file cannot ask for more
/// memory than that.
const LARGEST_ROUND: usize = 1 << 26;

/// The injection of values and noises, round by round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "injection must be \"incremental\", \"early\", \"late\", or {\"c\": [T + 1 numbers], \"z\": [T + 1 rows of T numbers]}"
)]
pub enum InjectionSpec {
    /// One of the paper's examples.
    Named(NamedInjection),
    /// Any valid (c, Z)-Gaussian (Definition 3.4).
    Custom(CustomInjection),
}

/// The paper's examples of injections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedInjection {
    /// Example 3.1, D_Inc: equal parts of the value, fresh noise in each round that leaves in the
    /// next.
    Incremental,
    /// Example 3.2, D_EI: the value at once.
    Early,
    /// The value at once, fresh noise in each round that leaves in the next: the injection of
    /// uniform noise.
    Late,
}

/// An injection (c, Z) over T rounds, as numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomInjection {
    /// The parts of the value injected before round 1 and in each round: T + 1 shares of it.
    pub c: Vec<f64>,
    /// The factors of the noises injected before round 1 and in each round: T + 1 rows of T
    /// factors.
    pub z: Vec<Vec<f64>>,
}

impl Rules for InjectionSpec {
    fn check_size(&self, parties: usize, rounds: usize, _shares: usize) -> Result<(), Unfit> {
        if rounds == 0 {
            return Err(Unfit::NoRounds);
        }
        let size = parties
            .checked_mul(parties)
            .and_then(|square| square.checked_mul(rounds.checked_add(1)?));
        if size.is_none_or(|size| size > LARGEST_ROUND) {
            return Err(Unfit::TooLarge {
                place: "parties",
                size: "parties² · (rounds + 1)",
                most: LARGEST_ROUND,
            });
        }
        Ok(())
    }

    fn noises(&self, rounds: usize, _hand_outs: usize) -> usize {
        rounds
    }

    fn injection(&self, rounds: usize) -> Result<Option<Injection<f64>>, Unfit> {
        Ok(Some(match self {
            InjectionSpec::Named(NamedInjection::Incremental) => Injection::incremental(rounds),
            InjectionSpec::Named(NamedInjection::Early) => Injection::early(rounds),
            InjectionSpec::Named(NamedInjection::Late) => Injection::late(rounds),
            InjectionSpec::Custom(CustomInjection { c, z }) => {
                if c.len() != rounds + 1 {
                    return Err(Unfit::ValueShares {
                        found: c.len(),
                        expected: rounds + 1,
                    });
                }
                Injection::custom(c.clone(), z.clone())?
            }
        }))
    }

    fn square_before_publishing(&self, rounds: usize, _hand_outs: usize, ratio: f64) -> Result<f64, Unfit> {
        seen_before_cancelling(self, rounds, ratio)
    }

    /// E ≤ 3(4D + T(D + 1) + T), for D_Inc with fan-out 1.
    fn cost_of_moving(&self, sends: &Sends, depth: f64) -> Option<f64> {
        let one_at_most = sends.iter().flatten().all(|to| to.len() <= 1);
        let incremental = matches!(self, InjectionSpec::Named(NamedInjection::Incremental));
        let rounds = sends.len() as f64;
        let cost = 3.0 * (4.0 * depth + rounds * (depth + 1.0) + rounds);
        Some(cost).filter(|_| one_at_most && incremental)
    }

    /// Before its split of round t + 1 a state that sends to k others changes by (k + 1) times the
    /// flow of that sending, which is what was injected until then less what was led out: Z̄ dη =
    /// (k + 1) f + F − c̄ a.
    fn noise_changes(&self, parties: usize, rounds: usize, sendings: &[Sending]) -> Option<Vec<Row>> {
        let injection = self.injection(rounds).ok()??;
        let solve = inverse(&sums(&injection))?;
        let value: Vec<f64> = injection
            .c()
            .iter()
            .scan(0.0, |sum, part| {
                *sum += part;
                Some(*sum)
            })
            .collect();
        let mut changes = Vec::with_capacity(parties * rounds);
        for party in 0..parties {
            let all = led_out(sendings, party, rounds as u32);
            let of_round = |t: usize| {
                let split = |(index, sending): (usize, &Sending)| {
                    let here = sending.from == party && sending.round as usize == t + 1;
                    here.then_some((index, sending.to.len() as f64 + 1.0))
                };
                let split: Row = sendings.iter().enumerate().filter_map(split).collect();
                let left = led_out(sendings, party, t as u32);
                combined([(1.0, &split), (1.0, &left), (-value[t], &all)])
            };
            let states: Vec<Row> = (0..rounds).map(of_round).collect();
            changes.extend(solve.iter().map(|row| combined(row.iter().copied().zip(&states))));
        }
        Some(changes)
    }

    fn gains_from_rounds(&self) -> bool {
        true
    }
}

/// Z̄: the sums of the first t + 1 rows of Z, t < T.
fn sums(injection: &Injection<f64>) -> Vec<Vec<f64>> {
    let rounds = injection.rounds();
    let mut sum = vec![0.0; rounds];
    let mut rows = Vec::with_capacity(rounds);
    for t in 0..rounds {
        sum.iter_mut()
            .zip(injection.z(t))
            .for_each(|(sum, part)| *sum += part);
        rows.push(sum.clone());
    }
    rows
}

/// The largest product of an entry of Z̄ and one of its inverse: with more elimination may lose
/// more digits than it is trusted with. The paper's injections have 1.
const MOST_CONDITION: f64 = 50.0;

/// The inverse of a square matrix, by Gauss and Jordan with pivots; none of one that is singular,
/// or close to it.
fn inverse(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    let unit = |row: usize| (0..size).map(move |column| f64::from(u8::from(row == column)));
    let mut rows: Vec<Vec<f64>> = (0..size)
        .map(|row| matrix[row].iter().copied().chain(unit(row)).collect())
        .collect();
    for column in 0..size {
        let pivot =
            (column..size).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        rows.swap(column, pivot);
        let scale = rows[column][column];
        if scale.abs() < 1e-9 {
            return None;
        }
        rows[column].iter_mut().for_each(|x| *x /= scale);
        let here = rows[column].clone();
        for row in (0..size).filter(|&row| row != column) {
            let factor = rows[row][column];
            if factor != 0.0 {
                rows[row]
                    .iter_mut()
                    .zip(&here)
                    .for_each(|(x, y)| *x -= factor * y);
            }
        }
    }
    let inverse: Vec<Vec<f64>> = rows.into_iter().map(|row| row[size..].to_vec()).collect();
    let largest = |rows: &[Vec<f64>]| rows.iter().flatten().fold(0.0f64, |most, x| most.max(x.abs()));
    (largest(matrix) * largest(&inverse) <= MOST_CONDITION).then_some(inverse)
}

/// The bound μ² at σ* = 1 and Δ = 1 on what any party of INCA shows before its final, r = `ratio`.
///
/// Until its final, a party lets nothing leave but functions of what it injected before round T:
/// even one that knows each of these injections, c_t x̃ + Z_t η, t < T, sees x̃ through noise that
/// is still out. For D_Inc the sums of the first t + 1 are (t + 1)/(T + 1) x̃ + η_{t+1},
/// independent noises: μ² = 1/(σ*² + σ_Δ²/Σ_{t≤T}(t/(T + 1))²). For D_EI all but one of the noises
/// are seen: 1/(σ*² + σ_Δ²). For any (c, Z) it is the loss of that view.
fn seen_before_cancelling(injection: &InjectionSpec, rounds: usize, ratio: f64) -> Result<f64, Unfit> {
    match injection {
        InjectionSpec::Named(NamedInjection::Incremental) => {
            let last = rounds as f64 + 1.0;
            let precision: f64 = (1..=rounds).map(|t| (t as f64 / last).powi(2)).sum();
            Ok(1.0 / (1.0 + ratio / precision))
        }
        InjectionSpec::Named(NamedInjection::Early) => Ok(1.0 / (1.0 + ratio)),
        InjectionSpec::Named(NamedInjection::Late) => Ok(seen_injections(&Injection::late(rounds), ratio)),
        InjectionSpec::Custom(custom) => {
            let injection = Injection::custom(custom.c.clone(), custom.z.clone())?;
            Ok(seen_injections(&injection, ratio))
        }
    }
}

/// The squared loss of one who sees each injection c_t x̃ + Z_t η, t < T: sums of them are
/// functions of them and see no more.
fn seen_injections(injection: &Injection<f64>, ratio: f64) -> f64 {
    let rounds = injection.rounds();
    let rows: Vec<Vec<f64>> = (0..rounds)
        .map(|t| {
            std::iter::once(injection.c()[t])
                .chain(injection.z(t).iter().copied())
                .collect()
        })
        .collect();
    let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
    squared_losses(
        &View::from_rows(&rows, vec![0], |_| 1..rounds + 1),
        Noise {
            independent_std: 1.0,
            correlated_std: ratio.sqrt(),
        },
    )[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_are_the_losses_of_their_views() {
        for rounds in [1, 2, 5, 9] {
            for ratio in [0.01, 1.0, 40.0] {
                for (named, injection) in [
                    (NamedInjection::Incremental, Injection::incremental(rounds)),
                    (NamedInjection::Early, Injection::early(rounds)),
                ] {
                    let closed = seen_before_cancelling(&InjectionSpec::Named(named), rounds, ratio)
                        .expect("closed form");
                    let view = seen_injections(&injection, ratio);
                    assert!(
                        (closed / view - 1.0).abs() < 1e-10,
                        "{named:?} {rounds} {ratio}: {closed} {view}"
                    );
                }
            }
        }
    }
}
