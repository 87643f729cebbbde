//! A sum of many rows on the lattice, each clipped, rounded and held within its ball by itself.

use crate::lattice::grid::Lattice;
use crate::lattice::payload::Payload;
use crate::lattice::vector::LatticeVector;
use crate::plan::checked::Plan;

use super::ball::{CellBall, clip_to_ball, within_ball};
use super::contribution::Clipped;

/// Integers up to here are exact in f64, sums of them included.
const EXACT: f64 = (1u64 << 53) as f64;

/// The sum of a party's rows in a plan whose rows lie in one ball, such as gradients.
///
/// Rows are added up in f64, which is exact here and takes a fraction of the time, where cells are
/// powers of two and no sum of that many rows leaves the integers that f64 has; else vector by
/// vector.
pub struct RowSum<'a> {
    lattice: &'a Lattice,
    radius: f64,
    sum: PartialSum,
}

enum PartialSum {
    Cells { row: Vec<f64>, sum: Vec<f64> },
    Vectors(LatticeVector),
}

impl<'a> RowSum<'a> {
    /// An empty sum, for at most `rows` vectors of the plan's dimension. `None` where a row's range
    /// is not one ball.
    pub fn of(plan: &'a Plan, rows: usize) -> Option<Self> {
        let [ball] = plan.draft().data.balls()?[..] else {
            return None;
        };
        Some(RowSum::new(plan.lattice(), ball.radius, (rows, ball.coordinates)))
    }

    fn new(lattice: &'a Lattice, radius: f64, (rows, coordinates): (usize, usize)) -> Self {
        let cell = lattice.value_step();
        let exact = (radius / cell + 1.0) * (rows as f64 + 1.0) < EXACT && lattice.value_grid() == 1;
        let sum = match exact {
            true => PartialSum::Cells {
                row: vec![0.0; coordinates],
                sum: vec![0.0; coordinates],
            },
            false => PartialSum::Vectors(lattice.zeros(coordinates)),
        };
        RowSum { lattice, radius, sum }
    }

    /// Adds a row. One that is longer than the radius is shortened; one that is not finite counts
    /// as zero.
    pub fn add(&mut self, row: &[f64]) {
        match &mut self.sum {
            PartialSum::Vectors(sum) => {
                let clipped = clipped(self.radius, row);
                sum.add(&within_ball(self.lattice, self.radius, 1.0, &clipped).0);
            }
            PartialSum::Cells { row: cells, sum } => {
                let cell = self.lattice.value_step();
                let ball = CellBall::of(self.radius / cell, row.len());
                // A power of two: dividing by it, and multiplying with its inverse, are exact.
                let mut factor = 1.0 / cell;
                // Rows come clipped by the loss that they are gradients of, but for rounding.
                let norm = round_towards_zero(cells, row, factor);
                if norm.is_nan() || norm > ball.bound {
                    let clipped = clipped(self.radius, row);
                    while round_towards_zero(cells, &clipped, factor) > ball.bound {
                        factor *= ball.shrink;
                    }
                }
                sum.iter_mut().zip(cells).for_each(|(s, cells)| *s += *cells);
            }
        }
    }

    /// Returns the sum.
    pub fn finish(self) -> Clipped {
        Clipped::new(match self.sum {
            PartialSum::Vectors(sum) => sum,
            PartialSum::Cells { sum, .. } => {
                let cell = self.lattice.value_step();
                self.lattice.encode(sum.into_iter().map(|cells| cells * cell))
            }
        })
    }
}

/// The row within its ball in f64, zero if it is not finite.
fn clipped(radius: f64, row: &[f64]) -> Vec<f64> {
    let mut clipped = row.to_vec();
    match row.iter().all(|value| value.is_finite()) {
        true => {
            clip_to_ball(radius, &mut clipped);
        }
        false => clipped.fill(0.0),
    }
    clipped
}

/// Squares that are added up side by side: one sum would wait for itself.
const LANES: usize = 4;

/// Rounds a row to whole cells and returns the square of their norm, added up in an order that is
/// the same everywhere ([`CellBall`] allows for any order). NaN if the row is not finite.
fn round_towards_zero(row: &mut [f64], clipped: &[f64], factor: f64) -> f64 {
    let mut norms = [0.0; LANES];
    let lanes = row.chunks_mut(LANES).zip(clipped.chunks(LANES));
    for (cells, values) in lanes {
        for ((cells, value), norm) in cells.iter_mut().zip(values).zip(&mut norms) {
            *cells = (value * factor) as i64 as f64;
            // Zero times a finite number adds nothing, and times any other NaN.
            *norm += *cells * *cells + value * 0.0;
        }
    }
    norms.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::cluster::tests::plan;

    /// Rows of exactly the radius, which rounding must not leave, and beyond it.
    fn rows() -> impl Iterator<Item = [f64; 2]> {
        (0..50).map(|at| {
            let turn = f64::from(at) * 0.7;
            let long = [0.5, 0.3, 0.500_000_1, 1e12][at as usize % 4];
            [libm::cos(turn) * long, libm::sin(turn) * long]
        })
    }

    #[test]
    fn rows_are_summed_as_each_is_by_itself() {
        let sealed = plan(4, "[run]\nsealed = true", 3);
        let lattice = sealed.lattice();
        let mut sum = RowSum::new(lattice, 0.5, (50, 2));
        assert!(matches!(sum.sum, PartialSum::Cells { .. }));
        let mut each = lattice.zeros(2);
        for row in rows() {
            sum.add(&row);
            each.add(&within_ball(lattice, 0.5, 1.0, &clipped(0.5, &row)).0);
        }
        assert!(sum.finish().vector().steps().eq(each.steps()));
    }

    /// On every lattice, also where rows are added vector by vector.
    #[test]
    fn a_row_that_is_not_finite_adds_nothing() {
        for lines in ["[run]\nsealed = true", ""] {
            let plan = plan(4, lines, 3);
            let of = |extra: &[[f64; 2]]| {
                let mut sum = RowSum::of(&plan, 60).expect("one ball");
                rows().chain(extra.iter().copied()).for_each(|row| sum.add(&row));
                sum.finish().vector().steps().collect::<Vec<i128>>()
            };
            let odd = [
                [f64::NAN, 0.1],
                [0.1, f64::NAN],
                [f64::NAN, 1.0],
                [1.0, f64::INFINITY],
                [f64::NEG_INFINITY, f64::NAN],
            ];
            assert_eq!(of(&odd), of(&[]), "{lines}");
        }
    }
}
