//! Counts of combinations of categories, and whether two columns are independent.

use faer::{Mat, Side};
use serde::Serialize;

use super::counts::plain;
use super::estimate::Estimate;
use crate::describe::chance::chi_square_above;
use crate::describe::released::{Amount, tell_total};

/// The figures of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableFigures {
    /// The columns, the last one varying fastest.
    pub columns: Vec<String>,
    /// The counts, `other` and missing included.
    pub cells: Vec<Estimate>,
    /// A test of independence over declared categories; `None` where a margin is too small to tell,
    /// or where there are not two columns.
    pub independence: Option<Independence>,
}

/// A Wald test of independence that knows of the noise as well as of sampling.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Independence {
    /// The statistic.
    pub chi_square: f64,
    /// Its degrees of freedom, (I − 1)(J − 1).
    pub degrees: usize,
    /// The chance of at least this much where the columns are independent.
    pub p: f64,
}

/// The most declared cells of which independence is tested: the test solves for their covariances.
const MOST_TESTED: usize = 1024;

/// The figures of a table of these extents, `other` and missing included in each.
pub fn figures(
    columns: &[String],
    (y, std): (Vec<f64>, f64),
    extents: &[usize],
    rows: Amount,
) -> TableFigures {
    let mut told = y.clone();
    let part = tell_total(&mut told, std, rows);
    let independence = match extents {
        &[i, j] => independence((&told, std, part), (i, j)),
        _ => None,
    };
    TableFigures {
        columns: columns.to_vec(),
        cells: plain(y, std, rows).cells,
        independence,
    }
}

/// T = x − r·cᵀ/N over declared categories, whose covariance where nothing is there is that of the
/// noise, projected as T is, and that of sampling.
fn independence(
    (told, std, part): (&[f64], f64, f64),
    (wide, narrow): (usize, usize),
) -> Option<Independence> {
    let (i, j) = (wide.checked_sub(2)?, narrow.checked_sub(2)?);
    if i < 2 || j < 2 || i * j > MOST_TESTED {
        return None;
    }
    let x = |a: usize, b: usize| told[a * narrow + b];
    let rows: Vec<f64> = (0..i).map(|a| (0..j).map(|b| x(a, b)).sum()).collect();
    let columns: Vec<f64> = (0..j).map(|b| (0..i).map(|a| x(a, b)).sum()).collect();
    let total: f64 = rows.iter().sum();
    // The noise of a sum of m cells.
    let noise = |cells: usize| std * (cells as f64 - (cells * cells) as f64 * part).max(0.0).sqrt();
    let is_told = |margin: f64, cells: usize| margin > 0.0 && margin >= 5.0 * noise(cells);
    if !rows.iter().all(|&row| is_told(row, j)) || !columns.iter().all(|&column| is_told(column, i)) {
        return None;
    }
    let p: Vec<f64> = rows.iter().map(|row| row / total).collect();
    let q: Vec<f64> = columns.iter().map(|column| column / total).collect();
    let centred = |p: &[f64]| Mat::from_fn(p.len(), p.len(), |a, b| f64::from(u8::from(a == b)) - p[a]);
    let spread = |p: &[f64]| {
        Mat::from_fn(p.len(), p.len(), |a, b| {
            if a == b { p[a] - p[a] * p[a] } else { -p[a] * p[b] }
        })
    };
    let product =
        |a: &Mat<f64>, b: &Mat<f64>| Mat::from_fn(i * j, i * j, |r, s| a[(r / j, s / j)] * b[(r % j, s % j)]);
    let m = product(&centred(&p), &centred(&q));
    let cell_noise = Mat::from_fn(i * j, i * j, |r, s| {
        std * std * (f64::from(u8::from(r == s)) - part)
    });
    let sampling = product(&spread(&p), &spread(&q));
    let noisy = &m * &cell_noise * m.transpose();
    let covariance = Mat::from_fn(i * j, i * j, |r, s| noisy[(r, s)] + total * sampling[(r, s)]);
    let apart = |at: usize| x(at / j, at % j) - rows[at / j] * columns[at % j] / total;
    let degrees = (i - 1) * (j - 1);
    let chi_square = wald(&covariance, &(0..i * j).map(apart).collect::<Vec<_>>(), degrees)?;
    Some(Independence {
        chi_square,
        degrees,
        p: chi_square_above(chi_square, degrees),
    })
}

/// tᵀ·W⁺·t by the `rank` largest eigenvalues of W.
fn wald(covariance: &Mat<f64>, t: &[f64], rank: usize) -> Option<f64> {
    let found = covariance.self_adjoint_eigen(Side::Lower).ok()?;
    let (vectors, values) = (found.U(), found.S());
    let mut order: Vec<usize> = (0..t.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    let along = |k: usize| (0..t.len()).map(|at| vectors[(at, k)] * t[at]).sum::<f64>();
    let terms = order
        .into_iter()
        .take(rank)
        .map(|k| along(k) * along(k) / values[k]);
    Some(terms.sum::<f64>()).filter(|sum| sum.is_finite())
}
