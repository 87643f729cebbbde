//! The share of rows that are without an event after a time: a life table by bins of time.

use serde::Serialize;

use super::estimate::{Estimate, within};
use crate::describe::released::{Amount, isotonic};
use crate::describe::root::Root;

/// The figures of a block of survival.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SurvivalFigures {
    /// Rows whose time or event is missing.
    pub missing: Estimate,
    /// The curve, as far as enough rows are at risk.
    pub curve: Vec<SurvivalPoint>,
    /// The time at which it begins.
    #[serde(skip)]
    start: f64,
}

/// The time after which at most a share is without an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeReached {
    /// The end of the first bin after which it is so.
    pub value: f64,
    /// The interval due to noise, from the start of a bin to the end of one. Where its upper end is
    /// not reached it is infinite, in JSON null.
    pub noise: [f64; 2],
    /// The interval by noise and sampling.
    pub all: [f64; 2],
}

/// The end of a bin of time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SurvivalPoint {
    /// The time.
    pub to: f64,
    /// Rows at risk in the bin: half of those that are censored in it count.
    pub at_risk: f64,
    /// The share that is without an event until then.
    pub survival: f64,
    /// Its error by noise.
    pub noise: f64,
    /// Its error as a sample (Greenwood 1926).
    pub sampling: f64,
}

impl SurvivalFigures {
    /// Returns the time after which at most this share is without an event, with intervals of z
    /// errors; `None` where the curve does not reach it.
    pub fn reached(&self, share: f64, z: f64) -> Option<TimeReached> {
        let first = |error: &dyn Fn(&SurvivalPoint) -> f64| {
            let mut points = self.curve.iter();
            points.position(|point| point.survival + error(point) <= share)
        };
        let end = |at: usize| self.curve[at].to;
        let value = end(first(&|_| 0.0)?);
        let between = |error: &dyn Fn(&SurvivalPoint) -> f64| {
            let low = first(&|point| -z * error(point)).unwrap_or(0);
            // From the start of its bin: nobody learns where in it the last event was.
            let low = low.checked_sub(1).map_or(self.start, end);
            [low, first(&|point| z * error(point)).map_or(f64::INFINITY, end)]
        };
        Some(TimeReached {
            value,
            noise: between(&|point| point.noise),
            all: between(&|point| libm::hypot(point.noise, point.sampling)),
        })
    }
}

/// A linear combination of what was released: of the sum of events, of censored rows, and of the
/// number of rows with a time, whose noises are independent.
#[derive(Clone)]
struct Gradient {
    events: Vec<f64>,
    censored: Vec<f64>,
    present: f64,
}

impl Gradient {
    fn variance(&self, tau_squared: f64, present: f64) -> f64 {
        let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
        tau_squared * (squares(&self.events) + squares(&self.censored))
            + present * self.present * self.present
    }
}

/// The figures of a column with these edges of time.
pub fn figures((y, std): (&[f64], f64), edges: &[f64], rows: Amount) -> SurvivalFigures {
    let bins = y.len() / 2;
    let (root, tau_squared) = (Root::of(bins), std * std);
    let norm_squared = root.norm_squared();
    let missing = y[2 * bins] / norm_squared.sqrt();
    let present = Amount {
        value: rows.value - missing,
        variance: rows.variance + tau_squared / norm_squared,
    };
    let rising = |part: &[f64]| {
        let counts: Vec<f64> = root
            .cumulate(part)
            .into_iter()
            .map(|count| count.max(0.0))
            .collect();
        let mut counts = isotonic(&counts);
        counts.insert(0, 0.0);
        counts
    };
    let (events, censored) = (rising(&y[..bins]), rising(&y[bins..2 * bins]));
    let f = root.coefficients();
    // Row t of R: what a cumulative count is made of, by place; 0 before the first bin.
    let row = |t: usize, place: usize| if place < t { f[t - 1 - place] } else { 0.0 };
    let mut total = Gradient {
        events: vec![0.0; bins],
        censored: vec![0.0; bins],
        present: 0.0,
    };
    let (mut survival, mut greenwood, mut curve) = (1.0, 0.0, vec![]);
    for t in 0..bins {
        let (died, left) = (events[t + 1] - events[t], censored[t + 1] - censored[t]);
        let at_risk = present.value - events[t] - censored[t] - left / 2.0;
        let of_risk = Gradient {
            events: (0..bins).map(|place| -row(t, place)).collect(),
            censored: (0..bins)
                .map(|place| -(row(t, place) + row(t + 1, place)) / 2.0)
                .collect(),
            present: 1.0,
        };
        let noise = of_risk.variance(tau_squared, present.variance).sqrt();
        let hazard = died / at_risk;
        if at_risk < 5.0 * noise || at_risk < 2.0 || hazard >= 1.0 {
            break;
        }
        // d log S = −(δd − h·δrisk)/(risk·(1 − h))
        let factor = 1.0 / (at_risk * (1.0 - hazard));
        for place in 0..bins {
            let died = row(t + 1, place) - row(t, place);
            total.events[place] -= (died - hazard * of_risk.events[place]) * factor;
            total.censored[place] += hazard * of_risk.censored[place] * factor;
        }
        total.present += hazard * factor;
        survival *= 1.0 - hazard;
        greenwood += died / (at_risk * (at_risk - died));
        curve.push(SurvivalPoint {
            to: edges[t + 1],
            at_risk,
            survival: within(survival, 0.0, 1.0),
            noise: survival * total.variance(tau_squared, present.variance).sqrt(),
            sampling: survival * greenwood.max(0.0).sqrt(),
        });
    }
    SurvivalFigures {
        missing: Estimate::count(missing, std / norm_squared.sqrt(), rows),
        curve,
        start: edges[0],
    }
}
