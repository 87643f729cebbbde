//! The range of a box's values on the lattice, and of the sum of tables.

use std::collections::BTreeSet;

use crate::describe::released::furthest_sum;
use crate::plan::checked::Plan;
use crate::plan::error::PlanError;
use crate::plan::run_file::settings::{Clip, Unit};
use crate::topology::party::Party;

/// Beyond this many cells f64 cannot tell neighbouring cells safely apart.
const MOST_CELLS: f64 = (1u64 << 50) as f64;

impl Plan {
    /// For a box: the interval that coordinate `coordinate` of party `party`'s *weighted* vector,
    /// or of one of its records, must be clamped to before
    /// [`Lattice::encode`](crate::lattice::grid::Lattice::encode), in the state's units
    /// ([`Plan::scales`]). None for an L2 ball.
    ///
    /// What `encode` makes of any number in the interval lies in weight × [low, high] (a record's
    /// weight is 1), so that Δ = weight × ‖high − low‖₂ holds on the lattice: the outermost cells
    /// inside the box (with 2⁻⁵⁰ to spare for rounding) are the ends, given as their middles,
    /// because `encode` cuts towards zero. A box thinner than a cell, some 2⁻¹⁶ of the noise,
    /// becomes one point of it.
    pub fn input_range(&self, party: usize, coordinate: usize) -> Option<(f64, f64)> {
        let Clip::Box { low, high } = &self.draft.data.clip else {
            return None;
        };
        let weight = match self.draft.data.unit {
            Unit::Party => self.draft.weight(party),
            Unit::Record => 1.0,
        };
        let scaled = |bound: f64| weight * bound / self.scales.at(coordinate);
        Some(cell_range(
            scaled(low.at(coordinate)),
            scaled(high.at(coordinate)),
            self.lattice.value_step(),
        ))
    }

    /// Returns the furthest that a coordinate of the sum of these parties' tables can be from zero,
    /// in lattice steps, noise included. `None` unless statistics are computed.
    pub fn furthest_steps(&self, included: &BTreeSet<Party>) -> Option<u128> {
        self.draft.computation.described()?;
        let rows: f64 = included.iter().map(|&party| self.weight(party)).sum();
        // Uniform noise and masks have cancelled: each party's own is left.
        let noise = self.calibration.independent_std * (included.len() as f64).sqrt();
        let furthest = furthest_sum(rows, self.draft.data.largest_coordinate(), noise);
        Some((furthest / self.lattice.step()).ceil() as u128)
    }

    /// Refuses boxes whose bounds are too many cells from zero, and cells that are too coarse for
    /// Δ.
    pub(super) fn check_ranges(&self) -> Result<(), PlanError> {
        if self.lattice.value_step() > self.draft.data.coarsest_cell() {
            return Err(PlanError::CoarseCells);
        }
        let largest = match self.draft.data.unit {
            Unit::Party => self.draft.value_bound(),
            Unit::Record => self.draft.data.largest_coordinate(),
        };
        let far = largest / self.lattice.value_step() >= MOST_CELLS;
        match &self.draft.data.clip {
            Clip::Box { .. } if far => Err(PlanError::FarBox),
            _ => Ok(()),
        }
    }
}

fn cell_range(low: f64, high: f64, cell: f64) -> (f64, f64) {
    let spare = |cells: f64| cells.abs() / MOST_CELLS;
    let (low, high) = (low / cell, high / cell);
    let first = (low + spare(low)).ceil();
    let last = (high - spare(high)).floor();
    // With no cell inside, the next one towards zero. (A box that contains zero has cell 0.)
    let (first, last) = if first <= last {
        (first, last)
    } else if low > 0.0 {
        (last, last)
    } else {
        (first, first)
    };
    let middle = |cells: f64| {
        if cells == 0.0 {
            0.0
        } else {
            (cells + 0.5f64.copysign(cells)) * cell
        }
    };
    (middle(first), middle(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the cells that `Lattice::encode` makes of a number, towards zero.
    fn cells(x: f64, cell: f64) -> f64 {
        (x / cell).trunc()
    }

    #[test]
    fn ends_are_the_outermost_cells_inside() {
        let (low, high) = cell_range(1.3, 4.9, 1.0);
        assert_eq!((cells(low, 1.0), cells(high, 1.0)), (2.0, 4.0));
        let (low, high) = cell_range(-4.9, -1.3, 1.0);
        assert_eq!((cells(low, 1.0), cells(high, 1.0)), (-4.0, -2.0));
        let (low, high) = cell_range(-0.4, 0.4, 1.0);
        assert_eq!((low, high), (0.0, 0.0));
        // Thinner than a cell: one point, towards zero.
        let (low, high) = cell_range(1.3, 1.4, 1.0);
        assert_eq!((cells(low, 1.0), cells(high, 1.0)), (1.0, 1.0));
        let (low, high) = cell_range(-1.4, -1.3, 1.0);
        assert_eq!((cells(low, 1.0), cells(high, 1.0)), (-1.0, -1.0));
    }

    proptest! {
        #[test]
        fn encoded_values_stay_within_the_box(
            low in -1e3f64..1e3,
            width in 1e-3f64..1e3,
            at in -0.5f64..1.5,
            cell in 1e-6f64..1.0,
        ) {
            let high = low + width;
            let (first, last) = cell_range(low, high, cell);
            prop_assert!(first <= last);
            let found = cells((low + at * width).clamp(first, last), cell);
            let (least, most) = (cells(first, cell), cells(last, cell));
            prop_assert!(least <= found && found <= most);
            // The distance, not the place, is what Δ bounds.
            prop_assert!((most - least) * cell <= width);
        }
    }
}
