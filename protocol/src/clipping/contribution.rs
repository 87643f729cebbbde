//! A party's contribution on the lattice, within the range that Δ was derived from.

use crate::lattice::payload::Payload;
use crate::lattice::vector::LatticeVector;
use crate::plan::checked::Plan;
use crate::plan::run_file::settings::{Clip, Contributed, Unit};
use crate::plan::run_file::tensors::Ball;
use crate::topology::party::Party;

use super::ball::{clip_to_ball, within_ball};
use super::range::{ClippingReport, clip_all};

/// A party's contribution, without noise, within its range on the plan's lattice: its vector times
/// its public weight, or the sum of its records. It is secret; its `Debug` prints no value.
///
/// - A ball, or a ball for each tensor: each is held within its ball (times the weight) by its
///   *integer* norm.
/// - A box: each coordinate is one of the cells of [`Plan::input_range`]. Where a box is thinner
///   than a cell that is one cell, the next towards zero.
/// - Records: each of them is within its range by itself, so that a change of one stays within Δ.
/// - Records that a program clipped and added up: their sum, in the ball, or the ball for each
///   tensor, of that many records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clipped(LatticeVector);

impl Clipped {
    /// For this module's siblings, which clip.
    pub(super) fn new(within: LatticeVector) -> Self {
        Clipped(within)
    }

    /// Clips, weighs and rounds a party's vector, or each of its records (`values` are whole
    /// vectors of the data's dimension, one after the other), and says what clipping changed.
    ///
    /// A vector or record that is not finite counts as the point of its range nearest to zero.
    pub fn of(plan: &Plan, party: Party, mut values: Vec<f64>) -> (Self, ClippingReport) {
        let data = &plan.draft().data;
        if let (Contributed::ByProgram, Some(balls)) = (data.contributed, data.balls()) {
            return Clipped::of_sum(plan, &balls, plan.weight(party), values);
        }
        let report = clip_all(data, &mut values);
        let (range, dimension) = (LatticeRange::of(plan, party), data.dimension());
        let on_lattice = match data.unit {
            Unit::Party => range.of_vector(&values),
            Unit::Record => {
                let mut sum = plan.lattice().zeros(dimension);
                values
                    .chunks(dimension)
                    .for_each(|record| sum.add(&range.of_vector(record)));
                sum
            }
        };
        (Clipped(on_lattice), report)
    }

    /// A sum of so many records that a program clipped, in the ball of all of them, or in the ball
    /// of each tensor. One that is not finite counts as zero: nobody knows of which record that
    /// comes.
    fn of_sum(plan: &Plan, balls: &[Ball], records: f64, mut sum: Vec<f64>) -> (Self, ClippingReport) {
        let mut report = ClippingReport {
            of: 1,
            ..ClippingReport::none()
        };
        if !sum.iter().all(|value| value.is_finite()) {
            sum.fill(0.0);
            report.replaced = 1;
        }
        // Rows within their ball come to no more together, and then nothing is changed here: two
        // sums are as far apart as they were handed over, and as rounding takes them.
        let mut rest = &mut sum[..];
        for ball in balls {
            let (own, others) = rest.split_at_mut(ball.coordinates);
            if let Some(factor) = clip_to_ball(ball.radius * records, own) {
                (report.changed, report.scaled) = (1, factor.min(report.scaled));
            }
            rest = others;
        }
        (Clipped(plan.lattice().encode(sum.into_iter())), report)
    }

    /// The sum of a table's rows, in whole cells of the plan's lattice: each row's vector was made
    /// of its cells by the plan's description, and rounded towards zero by itself. `None` of
    /// another plan, or of another number of coordinates.
    pub fn of_table(plan: &Plan, cells: Vec<i128>) -> Option<Self> {
        let draft = plan.draft();
        let fits = draft.computation.described().is_some() && cells.len() == draft.dimension();
        let grid = plan.lattice().value_grid();
        fits.then(|| Clipped(plan.lattice().vector(cells.into_iter().map(|cell| cell * grid))))
    }

    /// The contribution that stands in for a missing one: the point of the range nearest to zero,
    /// of each of the party's records where these are protected.
    ///
    /// A party whose program is late, crashes, or hands over something else contributes this. It
    /// lies within the range, like whatever else the party could have contributed, so that the
    /// party's claim holds whatever a program does: the change is within Δ of a party. Zero would
    /// be outside of a box such as [10, 11]².
    pub fn stand_in(plan: &Plan, party: Party) -> Self {
        let draft = plan.draft();
        // Clipping takes zero to the point that is nearest to it.
        let (Clipped(nearest), _) = Clipped::of(plan, party, vec![0.0; draft.dimension()]);
        let rows = match (draft.data.unit, draft.data.contributed) {
            (Unit::Record, Contributed::AsTheyAre | Contributed::SecondMoments) => {
                plan.records(party).unwrap_or(1)
            }
            (Unit::Party, _) | (_, Contributed::ByProgram) => 1,
        };
        if rows == 1 {
            return Clipped(nearest);
        }
        let times = nearest.steps().map(|steps| steps * i128::from(rows));
        Clipped(plan.lattice().vector(times))
    }

    /// Its coordinates, without noise.
    pub fn vector(&self) -> &LatticeVector {
        &self.0
    }

    /// Its coordinates, without noise: for simulations, which add it, and for who does so here
    /// ([`LatticeNoise::noisy`](crate::mixing::noise::LatticeNoise::noisy)).
    pub fn into_vector(self) -> LatticeVector {
        self.0
    }
}

/// The range of a party's vector, or of one of its records, on the plan's lattice.
struct LatticeRange<'a> {
    plan: &'a Plan,
    weight: f64,
    kind: RangeKind,
}

enum RangeKind {
    Ball(f64),
    Balls(Vec<Ball>),
    /// The middles of each coordinate's outermost cells.
    Box(Vec<(f64, f64)>),
}

impl<'a> LatticeRange<'a> {
    fn of(plan: &'a Plan, party: Party) -> Self {
        let data = &plan.draft().data;
        let kind = match &data.clip {
            Clip::L2 { radius } => RangeKind::Ball(*radius),
            Clip::Described { zero_out, .. } => RangeKind::Ball(*zero_out),
            Clip::Tensors { .. } => RangeKind::Balls(data.balls().unwrap_or_default()),
            Clip::Box { .. } => {
                let cells = (0..data.dimension()).map(|at| plan.input_range(party, at));
                let cells: Option<Vec<(f64, f64)>> = cells.collect();
                RangeKind::Box(cells.expect("a box has a range for every coordinate"))
            }
        };
        let weight = match data.unit {
            Unit::Party => plan.draft().weight(party),
            Unit::Record => 1.0,
        };
        LatticeRange { plan, weight, kind }
    }

    /// Rounds a clipped vector, times the weight, into the range.
    fn of_vector(&self, clipped: &[f64]) -> LatticeVector {
        let (lattice, weight) = (self.plan.lattice(), self.weight);
        match &self.kind {
            RangeKind::Ball(radius) => within_ball(lattice, radius * weight, weight, clipped).0,
            RangeKind::Balls(balls) => {
                // Each tensor within its own ball on the lattice, by a factor of its own.
                let (mut rest, mut scaled) = (clipped, Vec::with_capacity(clipped.len()));
                for ball in balls {
                    let (own, others) = rest.split_at(ball.coordinates);
                    rest = others;
                    let (_, factor) = within_ball(lattice, ball.radius * weight, weight, own);
                    scaled.extend(own.iter().map(|value| value * factor));
                }
                lattice.encode(scaled.into_iter())
            }
            RangeKind::Box(cells) => {
                let scales = self.plan.scales();
                let each = clipped.iter().zip(cells).enumerate();
                lattice.encode(
                    each.map(|(at, (value, &(low, high)))| {
                        (value * weight / scales.at(at)).max(low).min(high)
                    }),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
