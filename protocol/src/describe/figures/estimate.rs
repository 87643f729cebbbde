//! One figure, and how it is shown.

use serde::Serialize;

use crate::describe::chance::normal_within;
use crate::describe::released::Amount;

/// An estimate with its errors, each a standard deviation in the estimate's unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// As shown: within the range that is possible.
    pub value: f64,
    /// The error by the noise of the release.
    pub noise: f64,
    /// The error as a sample of a population, where there is a formula.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<f64>,
    /// As computed, without bias: for adding up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<f64>,
}

impl Estimate {
    /// A count, shown within [0, total].
    pub fn count(raw: f64, noise: f64, total: Amount) -> Self {
        Estimate {
            value: within(raw, 0.0, total.value.max(0.0)),
            noise,
            sampling: None,
            raw: Some(raw),
        }
    }

    /// The error by noise and sampling together.
    pub fn both(&self) -> f64 {
        let sampling = self.sampling.unwrap_or(0.0);
        (self.noise * self.noise + sampling * sampling).sqrt()
    }
}

/// A number moved into a range.
pub fn within(value: f64, low: f64, high: f64) -> f64 {
    value.max(low).min(high)
}

/// The level and the quantiles that a reader asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadingAs {
    /// The share of intervals that hold, in (0, 1).
    pub confidence: f64,
    /// The quantiles, each in (0, 1).
    pub quantiles: Vec<f64>,
}

impl Default for ReadingAs {
    fn default() -> Self {
        ReadingAs {
            confidence: 0.95,
            quantiles: vec![0.25, 0.5, 0.75],
        }
    }
}

impl ReadingAs {
    /// Half the width of an interval, in standard deviations.
    pub fn z(&self) -> f64 {
        normal_within(self.confidence)
    }
}
