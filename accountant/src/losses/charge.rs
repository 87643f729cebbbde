//! The cost of a run in three parts that add up over runs, and the (ε, δ) that they come to.
//!
//! Take two data sets that differ in what is protected, and runs that an adversary may choose one
//! after another, each by what it saw of those before. Of run i, whatever came before it:
//!
//! - `draw`, p: what it draws in public (its schedule) is *bad* with a chance of at most p, which
//!   is the same for both data sets; whether it is bad is part of what the adversary sees;
//! - `mu_squared`, μ²: if that is not bad, what noise that is really Gaussian lets the adversary
//!   see is μ-Gaussian-DP;
//! - `distance`, d: with the noise as it is sampled, what it sees is within a total variation
//!   distance of d of that, for either data set.
//!
//! **Theorem.** With M² = Σ μᵢ², P = Σ pᵢ and D = Σ dᵢ all runs together are (ε, δ)-private with
//!
//! δ = δ(ε, M) + P + (1 + e^ε) D   for every ε ≥ 0,
//!
//! δ(ε, M) the trade-off of [`gaussian`].
//!
//! *Proof.* Let R, R′ be the laws of all that the adversary sees, for the one data set and the
//! other, I, I′ the same with real Gaussian noise, and S any event. (1) Exchange the real for the
//! ideal run, one after another. What follows a run is a function of what was seen of it and of
//! randomness of its own, so that each exchange moves the law by at most dᵢ: |R(S) − I(S)| ≤ D,
//! |R′(S) − I′(S)| ≤ D. (2) Let J, J′ be the ideal runs that show nothing but "bad" where their
//! draw is. A draw has one law for both data sets and is seen, and what is shown for each of its
//! values is μᵢ-Gaussian-DP, or constant; so each such run is μᵢ-Gaussian-DP (trade-offs are
//! convex), all of them are M-Gaussian-DP (Dong, Roth and Su 2022, corollary 3.3), and J(S) ≤ e^ε
//! J′(S) + δ(ε, M) for every S. On the event G that no draw is bad, I and J are the same, I′ and J′
//! too; outside of it I has at most P, since each draw adds at most pᵢ whatever came before. So
//! I(S) ≤ J(S ∩ G) + P ≤ e^ε J′(S ∩ G) + δ(ε, M) + P ≤ e^ε I′(S) + δ(ε, M) + P. (3) R(S) ≤ I(S) + D
//! ≤ e^ε I′(S) + δ(ε, M) + P + D ≤ e^ε (R′(S) + D) + δ(ε, M) + P + D. ∎
//!
//! A draw counts once, and not e^ε times, since whether it is bad is seen. What sampling adds
//! cannot be added up as each run states it: (1 + e^εᵢ) dᵢ is for its own εᵢ, which is below that
//! of all.
//!
//! Sums only ever round up, and no ε is below the true one.

use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::losses::gaussian;

/// How far the parts of δ may be off by rounding, relatively: a few operations, and libm's
/// exponential and erfc.
const ROUNDING: f64 = 1e-14;

/// The cost of a run, or of several, at most: parts that add up. All are at least 0; what is no
/// number counts as unbounded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Charge {
    /// μ², the squared loss if no draw is bad; infinite (null in files) where nothing bounds it.
    #[serde(serialize_with = "or_null", deserialize_with = "or_infinite")]
    pub mu_squared: f64,
    /// The chance that some draw of a schedule hides nothing: of one draw, times the draws that
    /// those against the run may look at.
    #[serde(deserialize_with = "part")]
    pub draw: f64,
    /// How far what is sent may be, in total variation, from what real Gaussian noise would give.
    #[serde(deserialize_with = "part")]
    pub distance: f64,
}

impl Charge {
    /// The charge of what costs nothing.
    pub const NOTHING: Charge = Charge {
        mu_squared: 0.0,
        draw: 0.0,
        distance: 0.0,
    };

    /// The charge of a loss μ alone, its square never below the true one.
    pub fn of_loss(mu: f64) -> Self {
        Charge {
            mu_squared: if mu == 0.0 { 0.0 } else { known(mu * mu).next_up() },
            ..Charge::NOTHING
        }
    }

    /// The loss μ, never below the true root.
    pub fn mu(self) -> f64 {
        up(self.mu_squared.sqrt())
    }

    /// μ² of what loses `factor` times as much, at the same draws and noise: `factor` changes one
    /// after another, for a whole number (Dong, Roth and Su 2022, theorem 2.14).
    pub fn times(self, factor: f64) -> Self {
        Charge {
            mu_squared: up(up(self.mu_squared * factor) * factor),
            ..self
        }
    }

    /// The larger of each part.
    pub fn at_least(self, other: Charge) -> Self {
        self.each(other, f64::max)
    }

    /// The smaller of each part.
    pub fn at_most(self, other: Charge) -> Self {
        self.each(other, f64::min)
    }

    /// The rest of it once `other` is taken away.
    pub fn beyond(self, other: Charge) -> Self {
        self.each(other, |all, part| match part {
            0.0 => all,
            part if all > part => up(all - part),
            _ => 0.0,
        })
    }

    fn each(self, other: Charge, of: impl Fn(f64, f64) -> f64) -> Self {
        let of = |a: f64, b: f64| of(known(a), known(b));
        Charge {
            mu_squared: of(self.mu_squared, other.mu_squared),
            draw: of(self.draw, other.draw),
            distance: of(self.distance, other.distance),
        }
    }

    /// The part of δ that sampling adds to a statement with this `epsilon`: (1 + e^ε) d, never
    /// below it, 1 at most.
    pub fn sampling_delta(self, epsilon: f64) -> f64 {
        match self.distance {
            0.0 => 0.0,
            distance => ((1.0 + libm::exp(epsilon)) * distance * (1.0 + ROUNDING)).min(1.0),
        }
    }

    /// δ at `epsilon` ≥ 0, all parts together: never below the true one, 1 at most.
    pub fn delta(self, epsilon: f64) -> f64 {
        let of_noise = gaussian::delta(epsilon, self.mu()).unwrap_or(1.0);
        let all = up(up(of_noise + self.draw) + self.sampling_delta(epsilon));
        // What is not a number is not below 1 either.
        if all < 1.0 { all } else { 1.0 }
    }

    /// The smallest ε of which δ, all parts together, is at most `delta`, in (0, 1): never below
    /// the true one; infinite where there is none.
    pub fn epsilon(self, delta: f64) -> f64 {
        let mu = self.mu();
        let enough = |epsilon: f64| self.delta(epsilon) <= delta;
        if enough(0.0) {
            return 0.0;
        }
        // The derivative of δ in ε is e^ε (d − Φ(−ε/μ − μ/2)): it falls, and then rises for good.
        let rises = |epsilon: f64| {
            let tail = libm::erfc((epsilon / mu + mu / 2.0) / std::f64::consts::SQRT_2) / 2.0;
            self.distance >= tail
        };
        let (mut low, mut high) = (0.0, mu * (40.0 + mu / 2.0));
        if mu == 0.0 || !high.is_finite() {
            return f64::INFINITY;
        }
        loop {
            let middle = low + (high - low) / 2.0;
            if !(low < middle && middle < high) {
                break;
            }
            if enough(middle) || rises(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        if enough(high) { high } else { f64::INFINITY }
    }

    /// Whether it is (`epsilon`, `delta`)-private for sure.
    pub fn is_within(self, epsilon: f64, delta: f64) -> bool {
        self.delta(epsilon) <= delta || self.epsilon(delta) <= epsilon
    }

    /// Whether all parts are numbers, and μ² finite.
    pub fn is_bounded(self) -> bool {
        [self.mu_squared, self.draw, self.distance]
            .iter()
            .all(|part| part.is_finite())
    }
}

impl Add for Charge {
    type Output = Charge;

    /// Both together: no part is below the real sum.
    fn add(self, other: Charge) -> Charge {
        self.each(other, |a, b| match (a, b) {
            (part, 0.0) | (0.0, part) => part,
            (a, b) => up(a + b),
        })
    }
}

impl Sum for Charge {
    fn sum<I: Iterator<Item = Charge>>(charges: I) -> Charge {
        charges.fold(Charge::NOTHING, Add::add)
    }
}

/// d of a statement that sampling adds `sampling_delta` to δ at `epsilon`: never below it. A sum
/// that was cut off at 1 says nothing of d, which is then 1.
pub fn distance_of(sampling_delta: f64, epsilon: f64) -> f64 {
    match sampling_delta {
        0.0 => 0.0,
        stated if stated > 0.0 && stated < 1.0 && epsilon >= 0.0 => {
            let distance = stated / (1.0 + libm::exp(epsilon)) * (1.0 + ROUNDING);
            distance.clamp(f64::MIN_POSITIVE, 1.0)
        }
        _ => 1.0,
    }
}

/// A result of one rounding, moved up by a unit unless it is 0.
fn up(rounded: f64) -> f64 {
    if rounded == 0.0 { 0.0 } else { rounded.next_up() }
}

/// The part, or without a bound what is no number.
fn known(part: f64) -> f64 {
    if part.is_nan() { f64::INFINITY } else { part }
}

fn or_null<S: Serializer>(loss: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    loss.is_finite().then_some(*loss).serialize(serializer)
}

fn or_infinite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let loss = Option::<f64>::deserialize(deserializer)?;
    checked(loss.unwrap_or(f64::INFINITY))
}

fn part<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    checked(f64::deserialize(deserializer)?)
}

fn checked<E: serde::de::Error>(part: f64) -> Result<f64, E> {
    match part >= 0.0 {
        true => Ok(part),
        false => Err(E::custom("a part of a charge is below 0")),
    }
}

#[cfg(test)]
mod tests;
