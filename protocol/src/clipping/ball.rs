//! Balls of a clipping range, in f64 and in whole cells of the lattice.

use crate::lattice::grid::Lattice;
use crate::lattice::vector::LatticeVector;

/// Scales values to length `radius` where they are longer, and returns the factor if so. The values
/// are finite.
pub(super) fn clip_to_ball(radius: f64, values: &mut [f64]) -> Option<f64> {
    // Scaled, so that it neither overflows nor loses small vectors.
    let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    if largest == 0.0 {
        return None;
    }
    let relative = values.iter().map(|v| (v / largest).powi(2)).sum::<f64>().sqrt();
    if largest * relative <= radius {
        return None;
    }
    let factor = radius / relative;
    values.iter_mut().for_each(|v| *v = *v / largest * factor);
    Some(factor / largest)
}

/// The bound that an integer vector's norm is checked against.
#[derive(Clone, Copy)]
pub(super) struct CellBall {
    /// The most that the square of its norm may be.
    pub(super) bound: f64,
    /// The factor for a vector whose norm is above that, applied as often as it takes.
    pub(super) shrink: f64,
}

impl CellBall {
    /// The ball of this radius, in cells, for vectors of this many coordinates.
    pub(super) fn of(radius: f64, coordinates: usize) -> Self {
        // Summing m squares in f64, and this line's own rounding, are off by at most this,
        // relatively.
        let doubt = (coordinates as f64 + 8.0) * 2f64.powi(-52);
        CellBall {
            bound: radius.powi(2) * (1.0 - doubt),
            shrink: 1.0 - doubt.max(2f64.powi(-44)),
        }
    }
}

/// Rounds `clipped` × `weight` onto the lattice within the ball of this radius, and returns the
/// factor that this took. The *integer* norm is checked: floating point may not let a vector out of
/// its ball.
pub(super) fn within_ball(
    lattice: &Lattice,
    radius: f64,
    weight: f64,
    clipped: &[f64],
) -> (LatticeVector, f64) {
    let (cell, grid) = (lattice.value_step(), lattice.value_grid());
    let ball = CellBall::of(radius / cell, clipped.len());
    let mut factor = weight;
    loop {
        let vector = lattice.encode(clipped.iter().map(|v| v * factor));
        let norm: f64 = vector.steps().map(|s| ((s / grid) as f64).powi(2)).sum();
        if norm <= ball.bound {
            return (vector, factor);
        }
        factor *= ball.shrink;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::grid::{LatticeRequest, Travel, WEIGHT_UNIT};
    use crate::lattice::injection::Injection;

    #[test]
    fn no_vector_leaves_its_ball_on_the_lattice() {
        let injection = Injection::exact_incremental(7);
        let lattice = Lattice::fit(&LatticeRequest {
            parties: 8,
            dimension: 3,
            travel: Travel::Split {
                fanout: 1,
                injection: &injection,
                received_bound: 1,
            },
            value_bound: 1.0,
            rows: 1,
            coarsest: f64::INFINITY,
            weight_bound: WEIGHT_UNIT,
            independent_std: 4.0,
            correlated_std: 3.0,
            shares_bound: 7,
            epsilon: 1.0,
            delta: 1e-6,
        })
        .unwrap();
        for scale in [1.0, 3.0, 1e9, 1e-3] {
            for direction in [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.3, -0.9, 0.1]] {
                let mut values = direction.map(|v| v * scale);
                clip_to_ball(1.0, &mut values);
                let (vector, _) = within_ball(&lattice, 1.0, 1.0, &values);
                let norm: i128 = vector.steps().map(|s| s * s).sum();
                let bound = 1.0 / lattice.step();
                assert!((norm as f64) <= bound * bound, "{direction:?} {scale}");
            }
        }
    }

    #[test]
    fn a_vector_within_its_ball_is_not_scaled() {
        let mut inside = [3.0, 4.0];
        assert_eq!(clip_to_ball(5.0, &mut inside), None);
        assert_eq!(inside, [3.0, 4.0]);
        for outside in [[6.0, 8.0], [1e300, 1e300], [1.7e308, -1.7e308]] {
            let mut values = outside;
            assert!(clip_to_ball(5.0, &mut values).is_some());
            assert!((libm::hypot(values[0], values[1]) - 5.0).abs() < 1e-12);
        }
    }
}
