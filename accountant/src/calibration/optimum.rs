//! The best noise for given rounds and schedule: a minimum over one number.
//!
//! All losses μ scale with a party's own noise σ* and the noise σ_Δ that cancels: μ² = F(r)/σ*²
//! with r = σ_Δ²/σ*² and F falling in r. So σ*² = F(r)/μ² meets the budget for any r, and what is
//! left to choose is r: it minimises √F(r) times the expected error at σ* = 1.
//!
//! F is that of a tolerated class of which each system is computed ([`Class`]).

use std::collections::BTreeSet;

use crate::bounds::before_publishing::largest_theorem;
use crate::calibration::utility::ErrorModel;
use crate::class::claim_error::LARGEST_RATIO;
use crate::class::setting::Setting;
use crate::class::worst::{Class, Seen};
use crate::execution::error::ExecutionError;

/// The smallest r that is tried; the largest is [`LARGEST_RATIO`].
const SMALLEST_RATIO: f64 = 1e-2;

/// How close the minimum is found, in ln r: the objective is flat there, 2 % of r change it by less
/// than 1e-4.
const PRECISION: f64 = 0.02;

/// How far F may lie above what the active cases say for r to count as the best: the objective is
/// as flat. σ* itself follows from all cases.
const CLOSE: f64 = 1e-4;

/// What a setting comes to at one r, mostly the best for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optimum {
    /// The variance of the noise that cancels over that of a party's own, r = σ_Δ²/σ*².
    pub ratio: f64,
    /// The largest squared loss F(r) at σ* = 1 by the fast path, before-publishing included.
    pub square: f64,
    /// The expected error at loss μ = 1: √F(r) times the expected error at σ* = 1.
    pub objective: f64,
}

/// Everything that is evaluated at each r.
pub struct Problem<'a> {
    /// The setting that is evaluated.
    pub setting: &'a Setting,
    /// The tolerated class.
    class: Class<'a>,
    /// Errors at σ* = 1.
    errors: ErrorModel,
}

impl<'a> Problem<'a> {
    /// Prepares a setting; none if its class is not computed.
    pub fn of(setting: &'a Setting) -> Result<Option<Self>, ExecutionError> {
        let Some(class) = Class::of(setting)? else {
            return Ok(None);
        };
        Ok(Some(Problem {
            setting,
            class,
            errors: ErrorModel::of(setting)?,
        }))
    }

    /// The best r, looked for around `near` (an earlier one) if there is one.
    pub fn solve(&self, near: Option<f64>) -> Optimum {
        let class = &self.class;
        let (mut seen, mut active) = (Seen::default(), BTreeSet::new());
        class.extend_active(
            &mut active,
            &class.screen_above(near.unwrap_or(10.0), 0.0, &mut seen),
        );
        // Solve the binding cases, check all that may be worse, add what bound: few passes, each
        // ends at a minimum of a lower bound of F.
        for _ in 0..8 {
            let best = minimise(near, |ratio| {
                self.evaluate(ratio, class.screen_only(&active, ratio))
            });
            let worse = class.screen_above(best.ratio, best.square, &mut seen);
            let full = self.evaluate(
                best.ratio,
                worse.first().map_or(0.0, |case| case.square).max(best.square),
            );
            if !class.extend_active(&mut active, &worse) || full.square <= best.square * (1.0 + CLOSE) {
                return full;
            }
        }
        minimise(near, |ratio| self.at(ratio))
    }

    /// What the setting comes to at one r.
    pub fn at(&self, ratio: f64) -> Optimum {
        let worst = self.class.screen(ratio);
        self.evaluate(ratio, worst.first().map_or(0.0, |case| case.square))
    }

    /// What the setting comes to at one r, if its objective is below `limit`.
    pub fn below(&self, ratio: f64, limit: f64) -> Option<Optimum> {
        let square = (limit / self.errors.expected(ratio)).powi(2);
        let before = before_publishing(self.setting, ratio);
        let class = (before < square)
            .then(|| self.class.screen_below(ratio, square))
            .flatten()?;
        Some(self.evaluate(ratio, class)).filter(|optimum| optimum.objective < limit)
    }

    /// How many systems are computed.
    pub fn cases(&self) -> usize {
        self.class.cases()
    }

    fn evaluate(&self, ratio: f64, class: f64) -> Optimum {
        let square = class.max(before_publishing(self.setting, ratio));
        Optimum {
            ratio,
            square,
            objective: square.sqrt() * self.errors.expected(ratio),
        }
    }
}

/// The largest squared loss at σ* = 1 of what leaves before publishing, by the theorem.
pub(super) fn before_publishing(setting: &Setting, ratio: f64) -> f64 {
    largest_theorem(setting, ratio).unwrap_or(f64::INFINITY)
}

/// Golden-section search in ln r, after a walk that brackets the minimum.
pub(crate) fn minimise(near: Option<f64>, at: impl Fn(f64) -> Optimum) -> Optimum {
    let step = if near.is_some() { 0.35 } else { 1.0 };
    let limits = (libm::log(SMALLEST_RATIO), libm::log(LARGEST_RATIO));
    let start = libm::log(near.unwrap_or(10.0)).clamp(limits.0, limits.1);
    let value = |ln: f64| at(libm::exp(ln)).objective;
    let (mut middle, mut here) = (start, value(start));
    let mut direction = 1.0;
    if value((start + step).min(limits.1)) >= here {
        direction = -1.0;
    }
    // Walk on while it falls.
    let (low, high) = loop {
        let next = (middle + direction * step).clamp(limits.0, limits.1);
        let there = value(next);
        if there >= here || next == middle {
            let back = (middle - direction * step).clamp(limits.0, limits.1);
            break (next.min(back), next.max(back));
        }
        (middle, here) = (next, there);
    };
    at(libm::exp(golden_section(low, high, value)))
}

/// Where a function with one minimum between `low` and `high` has it.
fn golden_section(mut low: f64, mut high: f64, value: impl Fn(f64) -> f64) -> f64 {
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_a, mut at_b) = (value(a), value(b));
    while high - low > PRECISION {
        if at_a <= at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - golden * (high - low);
            at_a = value(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + golden * (high - low);
            at_b = value(b);
        }
    }
    (low + high) / 2.0
}
