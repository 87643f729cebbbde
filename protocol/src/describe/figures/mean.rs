//! Mean, deviation and sum of a column of numbers, and how many of its cells are missing.

use serde::Serialize;

use super::estimate::{Estimate, within};
use crate::describe::layout::{MEAN_A_SQUARED, MEAN_CENTRE, mean_norm_squared};
use crate::describe::released::Amount;

/// The figures of a block of a mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeanFigures {
    /// How many cells are missing.
    pub missing: Estimate,
    /// The sum of the numbers.
    pub sum: Estimate,
    /// The mean of the numbers; `None` where these are too few to tell.
    pub mean: Option<Estimate>,
    /// Their deviation.
    pub sd: Option<Deviation>,
}

/// A standard deviation. Its interval is the root of the variance's, not ± something.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deviation {
    /// The deviation, of all numbers (divided by how many they are, not by one less).
    pub value: f64,
    /// Its error by noise; `None` where the deviation is 0.
    pub noise: Option<f64>,
    /// The interval's low end.
    pub low: f64,
    /// The interval's high end.
    pub high: f64,
    /// The variance, as computed.
    pub variance: f64,
    /// Its error by noise.
    pub variance_noise: f64,
}

/// The figures of a column with these bounds: y is the block's sum with τ for its noise.
pub fn figures((y, std): (&[f64], f64), (low, high): (f64, f64), rows: Amount, z: f64) -> MeanFigures {
    let (half, middle) = ((high - low) / 2.0, low + (high - low) / 2.0);
    let (norm_squared, tau_squared) = (mean_norm_squared(), std * std);
    let missing = y[0] / norm_squared.sqrt();
    let present = Amount {
        value: rows.value - missing,
        variance: rows.variance + tau_squared / norm_squared,
    };
    let Amount {
        value: p,
        variance: v,
    } = present;
    let sum = Estimate {
        value: middle * p + half * y[1],
        noise: (middle * middle * v + half * half * tau_squared).sqrt(),
        sampling: None,
        raw: None,
    };
    let missing = Estimate::count(missing, std / norm_squared.sqrt(), rows);
    if !present.is_enough() {
        let (mean, sd) = (None, None);
        return MeanFigures {
            missing,
            sum,
            mean,
            sd,
        };
    }
    // Both in units of half the range, from its middle.
    let m = y[1] / p;
    let q = y[2] / (MEAN_A_SQUARED.sqrt() * p) + MEAN_CENTRE;
    let variance = q - m * m;
    let mean_noise = (tau_squared + m * m * v).sqrt() / p;
    let by_m = 2.0 * m * m - q + MEAN_CENTRE;
    let variance_noise =
        (tau_squared / MEAN_A_SQUARED + 4.0 * m * m * tau_squared + by_m * by_m * v).sqrt() / p;
    let root = |variance: f64, most: f64| half * within(variance, 0.0, most).sqrt();
    let (from, to) = (
        root(variance - z * variance_noise, 1.0),
        root(variance + z * variance_noise, 1.0),
    );
    let value = root(variance, (1.0 - m * m).max(0.0));
    let sd = Deviation {
        value,
        noise: (value > 0.0).then(|| variance_noise * half * half / (2.0 * value)),
        low: from,
        high: to,
        variance: variance * half * half,
        variance_noise: variance_noise * half * half,
    };
    let spread = if from > 0.0 { value } else { to };
    let mean = Estimate {
        value: middle + half * within(m, -1.0, 1.0),
        noise: half * mean_noise,
        sampling: Some(spread / p.sqrt()),
        raw: Some(middle + half * m),
    };
    MeanFigures {
        missing,
        sum,
        mean: Some(mean),
        sd: Some(sd),
    }
}
