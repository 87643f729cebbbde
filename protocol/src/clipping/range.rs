//! Clipping of raw vectors and records in f64, before they meet the lattice.

use crate::plan::run_file::settings::{Clip, Data};
use crate::plan::run_file::tensors::Ball;

use super::ball::clip_to_ball;

/// The effect of clipping on a party's vector, or on its records. For its owner's eyes alone: it
/// never goes to a file, a log or another party, and has no `Debug`.
#[derive(Clone, Copy, PartialEq)]
pub struct ClippingReport {
    /// Vectors or records that were changed; those that are not finite are not among them.
    pub changed: usize,
    /// Vectors or records that are not finite, which count as the point of the range nearest to
    /// zero.
    pub replaced: usize,
    /// All vectors or records.
    pub of: usize,
    /// The factor of the vector that lost most, in (0, 1], where the range is a ball; else 1.
    pub scaled: f64,
}

impl ClippingReport {
    /// The report of nothing.
    pub fn none() -> Self {
        ClippingReport {
            changed: 0,
            replaced: 0,
            of: 0,
            scaled: 1.0,
        }
    }

    fn count(&mut self, change: Change) {
        self.of += 1;
        match change {
            Change::Kept => {}
            Change::Moved(factor) => {
                self.changed += 1;
                self.scaled = self.scaled.min(factor);
            }
            Change::Replaced => self.replaced += 1,
        }
    }
}

/// The effect of clipping on one vector.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    Kept,
    /// The vector was outside of the range. The factor is 1 for a box; of tensors it is that of the
    /// tensor that lost most.
    Moved(f64),
    /// The vector was not finite.
    Replaced,
}

/// Clips a party's vector, or each of its records (`values` are whole vectors of the data's
/// dimension, one after the other).
pub fn clip_all(data: &Data, values: &mut [f64]) -> ClippingReport {
    let balls = data.balls().unwrap_or_default();
    let mut report = ClippingReport::none();
    for vector in values.chunks_mut(data.dimension()) {
        report.count(clip(&data.clip, &balls, vector));
    }
    report
}

/// Clips one vector in place. `balls` are the range's own; none for a box.
pub(super) fn clip(bounds: &Clip, balls: &[Ball], values: &mut [f64]) -> Change {
    // One coordinate that is no number says nothing about the others: the vector as a whole counts
    // as the point of the range that is nearest to zero, across all its tensors.
    let finite = values.iter().all(|value| value.is_finite());
    if !finite {
        values.fill(0.0);
    }
    let change = match bounds {
        Clip::Box { low, high } => {
            let mut moved = false;
            for (i, value) in values.iter_mut().enumerate() {
                let clipped = value.max(low.at(i)).min(high.at(i));
                moved |= clipped != *value;
                *value = clipped;
            }
            moved.then_some(1.0)
        }
        Clip::L2 { .. } | Clip::Described { .. } | Clip::Tensors { .. } => {
            let (mut rest, mut scaled) = (values, None);
            for ball in balls {
                let (own, others) = std::mem::take(&mut rest).split_at_mut(ball.coordinates);
                rest = others;
                if let Some(factor) = clip_to_ball(ball.radius, own) {
                    scaled = Some(scaled.map_or(factor, |least: f64| least.min(factor)));
                }
            }
            scaled
        }
    };
    match (finite, change) {
        (false, _) => Change::Replaced,
        (true, Some(factor)) => Change::Moved(factor),
        (true, None) => Change::Kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::run_file::settings::Bound;

    #[test]
    fn clipping_keeps_what_is_inside_and_reports_what_it_changed() {
        let ball = Clip::L2 { radius: 5.0 };
        let whole = [Ball {
            coordinates: 2,
            radius: 5.0,
        }];
        let mut inside = [3.0, 4.0];
        assert_eq!(clip(&ball, &whole, &mut inside), Change::Kept);
        assert_eq!(clip(&ball, &whole, &mut [6.0, 8.0]), Change::Moved(0.5));
        let cube = Clip::Box {
            low: Bound::All(-1.0),
            high: Bound::Each(vec![1.0, 1.0, 3.0]),
        };
        let mut values = [0.5, -3.0, 2.0];
        assert_eq!(clip(&cube, &[], &mut values), Change::Moved(1.0));
        assert_eq!(values, [0.5, -1.0, 2.0]);
    }

    #[test]
    fn a_vector_that_is_not_finite_becomes_the_point_nearest_to_zero_as_a_whole() {
        let cube = Clip::Box {
            low: Bound::Each(vec![10.0, -3.0, -7.0]),
            high: Bound::Each(vec![11.0, 3.0, -5.0]),
        };
        let balls = [1usize, 2].map(|coordinates| Ball {
            coordinates,
            radius: 1.0,
        });
        let tensors = Clip::Tensors {
            radius: [("a".to_owned(), 1.0), ("b".to_owned(), 1.0)].into(),
        };
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for at in 0..3 {
                let mut values = [10.5, 2.0, -6.0];
                values[at] = odd;
                let mut in_box = values;
                assert_eq!(clip(&cube, &[], &mut in_box), Change::Replaced);
                assert_eq!(in_box, [10.0, 0.0, -5.0]);
                assert_eq!(clip(&tensors, &balls, &mut values), Change::Replaced);
                assert_eq!(values, [0.0; 3]);
            }
        }
    }
}
