//! Counts of categories, bins and magnitudes, and the shares of those that are not missing.

use serde::Serialize;

use super::estimate::{Estimate, within};
use crate::describe::released::{Amount, tell_total};

/// The figures of a block of counts, the last of which is of missing cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountFigures {
    /// One for each category or bin.
    pub cells: Vec<CellFigures>,
}

/// A category or bin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellFigures {
    /// How many rows.
    pub count: Estimate,
    /// Their share of the column's rows that are not missing; `None` where these are too few to
    /// tell, and of missing cells.
    pub share: Option<Estimate>,
}

/// Counts alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlainCells {
    /// One for each place.
    pub cells: Vec<Estimate>,
}

/// Counts told the total, with the error of each.
///
/// Each is shown clamped by itself: the nearest point of the simplex would leave out what intervals
/// need, where many cells are empty. The raw counts add up without bias.
pub fn plain(y: Vec<f64>, std: f64, rows: Amount) -> PlainCells {
    let mut cells = y;
    let part = tell_total(&mut cells, std, rows);
    let noise = std * (1.0 - part).max(0.0).sqrt();
    PlainCells {
        cells: cells
            .into_iter()
            .map(|cell| Estimate::count(cell, noise, rows))
            .collect(),
    }
}

/// Counts and shares.
pub fn figures(y: Vec<f64>, std: f64, rows: Amount) -> CountFigures {
    let mut cells = y;
    let part = tell_total(&mut cells, std, rows);
    let (count_noise, missing_at) = (std * (1.0 - part).max(0.0).sqrt(), cells.len() - 1);
    let kept = missing_at as f64;
    // All but the missing ones: the sum of k − 1 cells, whose covariance is τ²(I − 11ᵀc).
    let present = Amount {
        value: cells[..missing_at].iter().sum(),
        variance: std * std * (kept - kept * kept * part),
    };
    let share_of = |cell: f64| {
        let p = present.value;
        let share = cell / p;
        // The gradient is (1 − s)/p at the cell itself, −s/p at the others.
        let squares = (1.0 - share) * (1.0 - share) + (kept - 1.0) * share * share;
        let sum = 1.0 - kept * share;
        let noise = std / p * (squares - part * sum * sum).max(0.0).sqrt();
        let middle = (share * p + 2.0) / (p + 4.0);
        Estimate {
            value: within(share, 0.0, 1.0),
            noise,
            sampling: Some((middle * (1.0 - middle)).max(0.0).sqrt() / (p + 4.0).sqrt()),
            raw: Some(share),
        }
    };
    let cell = |(at, &cell): (usize, &f64)| CellFigures {
        count: Estimate::count(cell, count_noise, rows),
        share: (at != missing_at && present.is_enough()).then(|| share_of(cell)),
    };
    CountFigures {
        cells: cells.iter().enumerate().map(cell).collect(),
    }
}
