//! A sum of many rows on the lattice, each rounded and held within its ball by itself.

use undertone_protocol::lattice::grid::Lattice;
use undertone_protocol::lattice::payload::Payload;
use undertone_protocol::lattice::vector::LatticeVector;

use crate::party::clipping;

/// Integers up to here are exact in f64, sums of them included.
const EXACT: f64 = (1u64 << 53) as f64;

/// Rows that are added up: in f64, which is exact here and takes a fraction of the time, where
/// cells are powers of two and no sum of so many rows leaves the integers that f64 has; else vector
/// by vector.
pub(super) struct RowSum<'a> {
    lattice: &'a Lattice,
    radius: f64,
    sum: Sums,
}

enum Sums {
    Cells { row: Vec<f64>, sum: Vec<f64> },
    Vectors(LatticeVector),
}

impl<'a> RowSum<'a> {
    /// An empty sum, for at most `rows` vectors of so many coordinates, each of length at most
    /// `radius`.
    pub(super) fn new(lattice: &'a Lattice, radius: f64, (rows, coordinates): (usize, usize)) -> Self {
        let cell = lattice.value_step();
        let exact = (radius / cell + 1.0) * (rows as f64 + 1.0) < EXACT && lattice.value_grid() == 1;
        let sum = match exact {
            true => Sums::Cells {
                row: vec![0.0; coordinates],
                sum: vec![0.0; coordinates],
            },
            false => Sums::Vectors(lattice.zeros(coordinates)),
        };
        RowSum { lattice, radius, sum }
    }

    /// Adds a row that is clipped already.
    pub(super) fn add(&mut self, clipped: &[f64]) {
        match &mut self.sum {
            Sums::Vectors(sum) => {
                let row = clipping::ball_onto_lattice(self.lattice, self.radius, 1.0, clipped);
                sum.add(&row);
            }
            Sums::Cells { row, sum } => {
                let cell = self.lattice.value_step();
                let ball = clipping::cells_within(self.radius / cell, clipped.len());
                // A power of two: dividing by it, and multiplying with its inverse, are exact.
                let mut factor = 1.0 / cell;
                while round_towards_zero(row, clipped, factor) > ball.bound {
                    factor *= ball.shrink;
                }
                sum.iter_mut().zip(row).for_each(|(s, cells)| *s += *cells);
            }
        }
    }

    /// The sum.
    pub(super) fn finish(self) -> LatticeVector {
        match self.sum {
            Sums::Vectors(sum) => sum,
            Sums::Cells { sum, .. } => {
                let cell = self.lattice.value_step();
                self.lattice.encode(sum.into_iter().map(|cells| cells * cell))
            }
        }
    }
}

/// Squares that are added up side by side: one sum would wait for itself.
const LANES: usize = 4;

/// Whole cells of a row; gives the square of their norm, added up in an order that is the same
/// everywhere. ([`clipping::cells_within`] allows for any order.)
fn round_towards_zero(row: &mut [f64], clipped: &[f64], factor: f64) -> f64 {
    let mut norms = [0.0; LANES];
    let lanes = row.chunks_mut(LANES).zip(clipped.chunks(LANES));
    for (cells, values) in lanes {
        for ((cells, value), norm) in cells.iter_mut().zip(values).zip(&mut norms) {
            *cells = (value * factor) as i64 as f64;
            *norm += *cells * *cells;
        }
    }
    norms.iter().sum()
}

#[cfg(test)]
mod tests {
    use undertone_protocol::plan::peers::Peers;
    use undertone_protocol::plan::run_file::parsed::RunFile;

    use super::*;
    use crate::planning::make;

    #[test]
    fn rows_are_what_each_is_by_itself() {
        let text =
            "task = \"regression\"\nname = \"rows\"\n[data]\nshape = [5]\n[model]\nloss = \"logistic\"\n";
        let run = RunFile::parse(text, 4).expect("a run file");
        let peers = Peers::simulated(4, Some(50)).expect("peers");
        let plan = make::make(run, &peers, 0).expect("a plan");
        let lattice = plan.lattice();
        let mut sum = RowSum::new(lattice, 0.5, (50, 5));
        assert!(matches!(sum.sum, Sums::Cells { .. }));
        let mut each = lattice.zeros(5);
        for at in 0..50 {
            let turn = f64::from(at) * 0.7;
            // Some of exactly the radius, which rounding must not leave, and some beyond it.
            let long = [0.5, 0.3, 0.500_000_1][at as usize % 3];
            let row = [turn.cos() * long, turn.sin() * long, 0.0, -1e-30, 0.0];
            sum.add(&row);
            each.add(&clipping::ball_onto_lattice(lattice, 0.5, 1.0, &row));
        }
        assert!(sum.finish().steps().eq(each.steps()));
    }
}
