//! The sensitivity: how far one protected unit can move a party's contribution
//! (accountant/docs/guarantees.md: derived, never typed).
//!
//! Every result is rounded towards more: a Δ that is too small would be a false claim.

use crate::model::statistics;
use crate::plan::run_file::settings::{Adjacency, Bound, Clip, Contributed, Data, Unit};

/// `a + b`, both ≥ 0, never below the real sum.
fn add_up(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // What rounding dropped, exactly (Knuth's two-sum).
    let b_part = sum - a;
    let dropped = (a - (sum - b_part)) + (b - b_part);
    if dropped > 0.0 { sum.next_up() } else { sum }
}

/// `a · b`, both ≥ 0, never below the real product.
fn multiply_up(a: f64, b: f64) -> f64 {
    let product = a * b;
    if a.mul_add(b, -product) > 0.0 {
        product.next_up()
    } else {
        product
    }
}

/// `a / b`, a ≥ 0 and b > 0, never below the real quotient.
fn divide_up(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    if quotient.mul_add(b, -a) < 0.0 {
        quotient.next_up()
    } else {
        quotient
    }
}

/// `√a`, a ≥ 0, never below the real root.
fn root_up(a: f64) -> f64 {
    let root = a.sqrt();
    if root.mul_add(root, -a) < 0.0 {
        root.next_up()
    } else {
        root
    }
}

/// `high − low` for low < high, never below the real difference.
fn difference_up(high: f64, low: f64) -> f64 {
    if low <= 0.0 && high >= 0.0 {
        return add_up(high, -low);
    }
    let difference = high - low;
    let b_part = high - difference;
    let dropped = (high - (difference + b_part)) + (b_part - low);
    if dropped > 0.0 {
        difference.next_up()
    } else {
        difference
    }
}

/// ‖v‖₂ for one extent per coordinate, or `dimension` times the same.
fn norm_up(extents: Extents, dimension: usize) -> f64 {
    match extents {
        Extents::Same(extent) => multiply_up(extent, root_up(dimension as f64)),
        Extents::Each(extents) => {
            // Scaled by a power of two (exact), so that no square overflows or vanishes beside the
            // largest.
            let largest = extents.iter().fold(0.0f64, |m, &x| m.max(x));
            let scale = f64::from_bits(largest.to_bits() & f64::INFINITY.to_bits());
            let squares = extents.iter().map(|&x| multiply_up(x / scale, x / scale));
            multiply_up(root_up(squares.fold(0.0, add_up)), scale)
        }
    }
}

enum Extents {
    Same(f64),
    Each(Vec<f64>),
}

fn extents(
    low: &Bound,
    high: &Bound,
    scales: &Scales,
    dimension: usize,
    extent: impl Fn(f64, f64) -> f64,
) -> Extents {
    match (low, high) {
        (Bound::All(low), Bound::All(high)) => Extents::Same(extent(*low, *high)),
        _ => Extents::Each(
            (0..dimension)
                .map(|j| divide_up(extent(low.at(j), high.at(j)), scales.at(j)))
                .collect(),
        ),
    }
}

/// The part of the data's unit that is 1 in each coordinate of a state. 1 everywhere, except where
/// records are clipped to a box whose columns differ in width: then each column is divided by its
/// width before the sum, since else the widest would set everybody's noise. Derived from the public
/// bounds alone, so that all members divide by the same numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Scales(Option<Vec<f64>>);

impl Scales {
    fn of(data: &Data) -> Self {
        let Clip::Box { low, high } = &data.clip else {
            return Scales(None);
        };
        let listed = matches!(low, Bound::Each(_)) || matches!(high, Bound::Each(_));
        if data.unit != Unit::Record || !listed {
            return Scales(None);
        }
        // Never below the real width, so that no scaled column is wider than 1.
        let widths: Vec<f64> = (0..data.dimension())
            .map(|j| difference_up(high.at(j), low.at(j)))
            .collect();
        let differ = widths.iter().any(|&width| width != widths[0]);
        Scales(differ.then_some(widths))
    }

    /// Returns the divisor of a coordinate before the sum, above 0, which multiplies it after the
    /// sum.
    pub fn at(&self, coordinate: usize) -> f64 {
        self.0
            .as_ref()
            .and_then(|widths| widths.get(coordinate))
            .copied()
            .unwrap_or(1.0)
    }

    /// The root of their mean square: an error of 1 in every coordinate of a state is a result's
    /// error of this much in the data's unit, taken as the root of the mean square over
    /// coordinates.
    pub fn root_mean_square(&self) -> f64 {
        let Some(widths) = &self.0 else { return 1.0 };
        let largest = widths.iter().fold(0.0f64, |m, &x| m.max(x));
        largest
            * (widths.iter().map(|width| (width / largest).powi(2)).sum::<f64>() / widths.len() as f64).sqrt()
    }

    /// Whether coordinates are in units of their own, the widths of their columns.
    pub fn differ(&self) -> bool {
        self.0.is_some()
    }
}

impl Data {
    /// The units of a state's coordinates.
    pub fn scales(&self) -> Scales {
        Scales::of(self)
    }

    /// Δ of a party with public weight `weight` > 0: how far a change of one unit can move what it
    /// injects, in Euclidean norm and in a state's units ([`Scales`]; the data's unit but for
    /// records in uneven boxes). Never below the real number.
    ///
    /// - L2 ball of radius C: 2C (replace-one) or C (zero-out); box: ‖high − low‖₂ or
    ///   ‖max(|low|, |high|)‖₂. Times the weight where a party is the unit; where a record is, one
    ///   row of weight 1 changes, whatever the party's count.
    /// - A ball for each tensor: the root of the sum of squares of what each would be.
    /// - Rows that a program clips: as of their ball or balls, and what rounding their sum adds.
    /// - Second moments of rows of length R, in the ball of radius R²: √2·R² and a little for their
    ///   rounding, on lattices that are no coarser than [`Data::coarsest_cell`].
    /// - Vectors of described rows: as their layout says (see
    ///   [`RowLayout`](crate::describe::layout::RowLayout)), on lattices that are no coarser.
    /// - Columns scaled to width 1: √d, or ‖max(|low|, |high|)/(high − low)‖₂.
    /// - Inputs meet the lattice *within* this range (see
    ///   [`crate::plan::checked::Plan::input_range`]): rounding is towards zero, and where a box
    ///   does not contain zero its bounds snap inwards. So the lattice does not enter here.
    pub fn sensitivity(&self, weight: f64) -> f64 {
        let unweighted = match &self.clip {
            Clip::L2 { radius } => {
                let moved = match self.adjacency {
                    Adjacency::ReplaceOne if self.contributed == Contributed::SecondMoments => {
                        statistics::sensitivity_before_steps(*radius, self.dimension())
                    }
                    Adjacency::ReplaceOne => 2.0 * radius,
                    Adjacency::ZeroOut => *radius,
                };
                add_up(moved, self.rounding_of_sums())
            }
            Clip::Described {
                replace_one,
                zero_out,
                ..
            } => match self.adjacency {
                Adjacency::ReplaceOne => *replace_one,
                Adjacency::ZeroOut => *zero_out,
            },
            Clip::Tensors { radius } => {
                let radii = radius.values().copied().collect();
                let norm = norm_up(Extents::Each(radii), radius.len());
                let moved = match self.adjacency {
                    Adjacency::ReplaceOne => 2.0 * norm,
                    Adjacency::ZeroOut => norm,
                };
                add_up(moved, self.rounding_of_sums())
            }
            Clip::Box { low, high } => {
                let (dimension, scales) = (self.dimension(), self.scales());
                norm_up(
                    match self.adjacency {
                        Adjacency::ReplaceOne => extents(low, high, &scales, dimension, |low, high| {
                            difference_up(high, low)
                        }),
                        Adjacency::ZeroOut => extents(low, high, &scales, dimension, |low, high| {
                            low.abs().max(high.abs())
                        }),
                    },
                    dimension,
                )
            }
        };
        match self.unit {
            Unit::Party => multiply_up(unweighted, weight),
            Unit::Record => unweighted,
        }
    }

    /// Returns how much further apart two sums of a program's clipped rows may lie because of
    /// roundings that follow; 0 where no program clips. Rounding towards zero moves each coordinate
    /// by less than a cell of the lattice, which is half as coarse as this allows. The other half
    /// is for what scaling a sum into its ball is off by in f64.
    fn rounding_of_sums(&self) -> f64 {
        let cell = self.coarsest_cell();
        match self.contributed == Contributed::ByProgram && cell.is_finite() {
            true => multiply_up(2.0 * cell, root_up(self.dimension() as f64)),
            false => 0.0,
        }
    }

    /// The coarsest cell that a lattice may have, which Δ rests on where a program clips its rows:
    /// a power of two, which costs at most a two hundredth of Δ in noise (our choice). Likewise for
    /// second moments, whose Δ knows of their rounding. Else ∞: rows are clipped on the lattice.
    pub fn coarsest_cell(&self) -> f64 {
        match (self.contributed, &self.clip) {
            (Contributed::SecondMoments, Clip::L2 { radius }) => {
                statistics::coarsest_step(*radius, self.dimension())
            }
            (Contributed::ByProgram, _) => self.radius().map_or(f64::INFINITY, |radius| {
                let cell = radius / 256.0 / (self.dimension() as f64).sqrt();
                f64::from_bits(cell.to_bits() & f64::INFINITY.to_bits())
            }),
            (_, Clip::Described { cell, .. }) => *cell,
            _ => f64::INFINITY,
        }
    }

    /// The largest absolute coordinate of a clipped vector or record, in a state's units.
    pub fn largest_coordinate(&self) -> f64 {
        match &self.clip {
            Clip::L2 { radius } => *radius,
            Clip::Described { largest, .. } => *largest,
            Clip::Tensors { radius } => radius.values().copied().fold(0.0, f64::max),
            Clip::Box {
                low: Bound::All(low),
                high: Bound::All(high),
            } => low.abs().max(high.abs()),
            Clip::Box { low, high } => {
                let scales = self.scales();
                let reach = |j: usize| divide_up(low.at(j).abs().max(high.at(j).abs()), scales.at(j));
                (0..self.dimension()).map(reach).fold(0.0, f64::max)
            }
        }
    }
}

#[cfg(test)]
mod tests;
