//! The best noise for given rounds and schedule: a minimum over one number.
//!
//! All losses μ scale with a party's own noise σ* and the noise σ_Δ that cancels: μ² = F(r)/σ*²
//! with r = σ_Δ²/σ*² and F falling in r. So σ*² = F(r)/μ² meets the budget for any r, and what is
//! left to choose is r: it minimises √F(r) times the expected error at σ* = 1, over the cases of a
//! quote. F is what is known of the tolerated class ([`Bound`]).

use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::Dissemination;

use crate::bounds::before_publishing::largest_theorem;
use crate::bounds::bound::Bound;
use crate::calibration::utility::ErrorModel;
use crate::class::claim_error::LARGEST_RATIO;
use crate::class::setting::Setting;
use crate::execution::error::ExecutionError;

/// The smallest r that is tried.
const SMALLEST_RATIO: f64 = 1e-2;

/// The largest r where finals are averaged in public: the further out they are, the fewer bits are
/// left for the accuracy of their average. Our choice: the default accuracy fits with 200 parties.
const LARGEST_AVERAGED_RATIO: f64 = 100.0;

/// The largest r that is tried for a draft.
pub(crate) fn largest_ratio(draft: &Draft) -> f64 {
    match draft.run.dissemination {
        Dissemination::Consensus => LARGEST_AVERAGED_RATIO,
        Dissemination::Flood | Dissemination::Slices | Dissemination::Auto => LARGEST_RATIO,
    }
}

/// How close the minimum is found, in ln r: the objective is flat there, 2 % of r change it by less
/// than 1e-4.
const PRECISION: f64 = 0.02;

/// The error without a fault, over the least that noise which cancels leaves, at most: where only
/// the closed form is known, the least expected error would be that of little such noise. Our
/// choice: a fifth more than there need be.
const MOST_WITHOUT_FAULT: f64 = 1.2;

/// How far F may lie above that over the coalitions that were looked at for r to count as the best:
/// the objective is as flat. σ* itself follows from all coalitions.
const CLOSE: f64 = 1e-4;

/// The largest loss and the expected error of a setting at one r, mostly the best r for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Optimum {
    /// The variance of the noise that cancels over that of a party's own, r = σ_Δ²/σ*².
    pub ratio: f64,
    /// The largest squared loss F(r) at σ* = 1, before-publishing included.
    pub square: f64,
    /// The expected error at loss μ = 1: √F(r) times the expected error at σ* = 1.
    pub objective: f64,
}

/// Everything that is evaluated at each r.
pub struct Problem<'a> {
    setting: &'a Setting,
    bound: Bound<'a>,
    /// Errors at σ* = 1.
    errors: ErrorModel,
    /// The largest r that is tried.
    largest: f64,
}

impl<'a> Problem<'a> {
    /// Prepares a setting, or returns none where only the loss of local noise is known.
    pub fn of(setting: &'a Setting, largest: f64) -> Result<Option<Self>, ExecutionError> {
        let bound = Bound::of(setting);
        if bound.is_local() {
            return Ok(None);
        }
        Ok(Some(Problem {
            setting,
            bound,
            errors: ErrorModel::of(setting)?,
            largest,
        }))
    }

    /// The best r, looked for around `near` (an earlier one) if there is one: of those whose error
    /// without a fault is at most [`MOST_WITHOUT_FAULT`] times what any noise that cancels leaves,
    /// that of the least expected error.
    pub fn solve(&self, near: Option<f64>) -> Optimum {
        let best = self.least_expected(near);
        let most = self.at(self.largest).square * MOST_WITHOUT_FAULT * MOST_WITHOUT_FAULT;
        if best.square <= most {
            return best;
        }
        // F falls in r.
        let (mut low, mut high) = (libm::log(best.ratio), libm::log(self.largest));
        while high - low > PRECISION {
            let middle = (low + high) / 2.0;
            match self.at(libm::exp(middle)).square <= most {
                true => high = middle,
                false => low = middle,
            }
        }
        self.at(libm::exp(high))
    }

    fn least_expected(&self, near: Option<f64>) -> Optimum {
        let (_, mut active) = self.bound.screened(near.unwrap_or(10.0), &[]);
        // Few coalitions bind: solve for these, look at all, add what binds there. Each pass ends
        // at a minimum of a lower bound of F.
        for _ in 0..8 {
            let best = self.minimise(near, |ratio| {
                self.evaluate(ratio, self.bound.screened(ratio, &active).0)
            });
            let (square, worse) = self.bound.screened(best.ratio, &[]);
            let full = self.evaluate(best.ratio, square);
            let known = active.len();
            active.extend(worse);
            active.sort_unstable();
            active.dedup();
            if active.len() == known || full.square <= best.square * (1.0 + CLOSE) {
                return full;
            }
        }
        self.minimise(near, |ratio| self.at(ratio))
    }

    /// Evaluates the setting at one r.
    pub fn at(&self, ratio: f64) -> Optimum {
        self.evaluate(ratio, self.bound.screened(ratio, &[]).0)
    }

    /// Whether it is known what a final that is missing leaves in the result.
    pub fn knows_late(&self) -> bool {
        self.errors.knows_late()
    }

    fn evaluate(&self, ratio: f64, class: f64) -> Optimum {
        let square = class.max(before_publishing(self.setting, ratio));
        Optimum {
            ratio,
            square,
            objective: square.sqrt() * self.errors.expected(ratio),
        }
    }

    fn minimise(&self, near: Option<f64>, at: impl Fn(f64) -> Optimum) -> Optimum {
        minimise(near, self.largest, at)
    }
}

/// The largest squared loss at σ* = 1 of what leaves before publishing, by the theorem.
pub(crate) fn before_publishing(setting: &Setting, ratio: f64) -> f64 {
    largest_theorem(setting, ratio).unwrap_or(f64::INFINITY)
}

/// Golden-section search in ln r, after a walk that brackets the minimum.
pub(crate) fn minimise(near: Option<f64>, largest: f64, at: impl Fn(f64) -> Optimum) -> Optimum {
    let step = if near.is_some() { 0.35 } else { 1.0 };
    let limits = (libm::log(SMALLEST_RATIO), libm::log(largest));
    let value = |ln: f64| at(libm::exp(ln)).objective;
    // There may be two minima: one that all but gives up on noise that cancels, and a better one.
    let coarse = (-1..=6).map(|power| f64::from(power) * std::f64::consts::LN_10);
    let best = || coarse.min_by(|&a, &b| value(a).total_cmp(&value(b)));
    let start = near.map(libm::log).or_else(best).unwrap_or_default();
    let start = start.clamp(limits.0, limits.1);
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
