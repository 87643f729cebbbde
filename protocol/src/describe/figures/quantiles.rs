//! Quantiles and cumulative counts of a column of numbers.

use serde::Serialize;

use super::estimate::{Estimate, ReadingAs, within};
use crate::describe::released::{Amount, Cumulative, isotonic};

/// The figures of a block of quantiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuantileFigures {
    /// How many cells are missing.
    pub missing: Estimate,
    /// Those that were asked for; `None` where there are too few rows to tell.
    pub quantiles: Option<Vec<Quantile>>,
    /// Rows below each edge of the bins, rising.
    pub cumulative: Vec<f64>,
}

/// A quantile.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quantile {
    /// Which one, in (0, 1).
    pub q: f64,
    /// The number below which this share of the numbers lies; within a bin as if they lay evenly in
    /// it.
    pub value: f64,
    /// The interval due to noise. It ends at edges of bins: sums do not show where rows lie in one.
    pub noise: [f64; 2],
    /// The interval by noise and sampling.
    pub all: [f64; 2],
}

/// The figures of a column with these edges. `whole`: each bin is one whole number, its lower edge.
pub fn figures(
    (y, std): (&[f64], f64),
    (edges, whole): (&[f64], bool),
    rows: Amount,
    asked: &ReadingAs,
) -> QuantileFigures {
    let bins = y.len() - 1;
    let cumulative = Cumulative::of(y, std, rows);
    let last = bins - 1;
    let present = Amount {
        value: cumulative.counts[last],
        variance: cumulative.covariance(last, last),
    };
    let missing_variance =
        cumulative.covariance(bins, bins) + present.variance - 2.0 * cumulative.covariance(bins, last);
    let missing = cumulative.counts[bins] - cumulative.counts[last];
    let shown = isotonic(&cumulative.counts[..bins]);
    let shown = shown
        .iter()
        .map(|count| within(*count, 0.0, present.value.max(0.0)));
    let curve: Vec<f64> = std::iter::once(0.0).chain(shown).collect();
    let variances: Vec<(f64, f64)> = (0..bins)
        .map(|k| (cumulative.covariance(k, k), cumulative.covariance(k, last)))
        .collect();
    let quantile = |&q: &f64| {
        let rank = q * present.value;
        let (at, inside) = crossing(&curve, rank);
        let sampling = present.value * q * (1.0 - q);
        let noise = |edge: usize| {
            let (own, shared) = if edge == 0 {
                (0.0, 0.0)
            } else {
                variances[edge - 1]
            };
            rank_variance(q, (own, shared), present.variance)
        };
        let interval = |more: f64| {
            let reach = |edge: usize| asked.z() * (noise(edge) + more).sqrt();
            let first = (0..=bins).find(|&edge| curve[edge] - rank >= -reach(edge));
            let last = (0..=bins).rfind(|&edge| curve[edge] - rank <= reach(edge));
            let low = first.unwrap_or(bins).saturating_sub(1);
            let high = (last.unwrap_or(0) + 1).min(bins);
            match whole {
                // A bin's number, not its upper edge.
                true => [edges[low], edges[high.max(low + 1) - 1]],
                false => [edges[low], edges[high]],
            }
        };
        Quantile {
            q,
            value: match whole {
                true => edges[at],
                false => edges[at] + (edges[at + 1] - edges[at]) * inside,
            },
            noise: interval(0.0),
            all: interval(sampling),
        }
    };
    QuantileFigures {
        missing: Estimate::count(missing, missing_variance.max(0.0).sqrt(), rows),
        quantiles: present
            .is_enough()
            .then(|| asked.quantiles.iter().map(quantile).collect()),
        cumulative: curve,
    }
}

/// The variance by noise of how far a cumulative count is from the rank that has a share of all
/// below it. `own` is the variance of the count, `shared` its covariance with the count of all,
/// whose variance is `all`.
pub(crate) fn rank_variance(share: f64, (own, shared): (f64, f64), all: f64) -> f64 {
    (own + share * share * all - 2.0 * share * shared).max(0.0)
}

/// The bin in which a rising curve reaches a rank, and the part of the bin below it.
fn crossing(curve: &[f64], rank: f64) -> (usize, f64) {
    let bins = curve.len() - 1;
    let at = (0..bins).find(|&bin| curve[bin + 1] >= rank && curve[bin + 1] > curve[bin]);
    match at {
        Some(bin) => {
            let inside = (rank - curve[bin]) / (curve[bin + 1] - curve[bin]);
            (bin, within(inside, 0.0, 1.0))
        }
        None => (bins - 1, 1.0),
    }
}
