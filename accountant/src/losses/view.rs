//! Views: what an adversary sees, as linear functions of what it does not know.

use std::ops::Range;

use ndarray::Array2;
use undertone_protocol::topology::party::Party;

/// Rows that an adversary observes, over the unknowns of honest parties: y = B x̃ + A η, x̃ the
/// values with their parties' own noise, η the noises that cancel (INCA, equation 10).
#[derive(Debug, Clone)]
pub struct View {
    /// The honest parties; the columns of `b`, and those of each one's noises in `a`, in this
    /// order.
    pub honest: Vec<Party>,
    /// B: a row an observation, a column an honest party's value.
    pub b: Array2<f64>,
    /// A: a row an observation, a column a noise of an honest party: one a round for INCA, one a
    /// hand-out for PPSC.
    pub a: Array2<f64>,
}

impl View {
    /// Restricts rows over all unknowns to those of `honest`, whose noises are where `noises` says:
    /// what corrupted parties injected is known and drops out.
    pub fn from_rows(rows: &[&[f64]], honest: Vec<Party>, noises: impl Fn(Party) -> Range<usize>) -> Self {
        let b = Array2::from_shape_fn((rows.len(), honest.len()), |(row, column)| {
            rows[row][honest[column]]
        });
        let columns: Vec<usize> = honest.iter().flat_map(|&party| noises(party)).collect();
        let a = Array2::from_shape_fn((rows.len(), columns.len()), |(row, column)| {
            rows[row][columns[column]]
        });
        View { honest, b, a }
    }
}
