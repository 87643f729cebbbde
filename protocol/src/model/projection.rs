//! Sets that a model may be kept in, and the nearest point of each.
//!
//! A projection P onto a closed convex set is the only map with (v − P(v))·(u − P(v)) ≤ 0 for every
//! u of the set: that is its test.

use serde::{Deserialize, Serialize};

use super::affine::Affine;
use super::ordered::norm;

/// A closed convex set of models, given by public numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ModelSet {
    /// Every model.
    #[default]
    None,
    /// Euclidean length at most `radius` > 0.
    Ball {
        /// The most that a model's length may be.
        radius: f64,
    },
    /// Every coordinate between `low` and `high` ≥ `low`.
    Box {
        /// The least that a coordinate may be.
        low: f64,
        /// The most that a coordinate may be.
        high: f64,
    },
    /// No coordinate below 0, their sum `total` > 0.
    Simplex {
        /// The required sum of the coordinates.
        total: f64,
    },
    /// The solutions of `a`·y = `b`, of equations none of which follows from the others.
    Affine {
        /// The equations' coefficients, a row an equation.
        a: Vec<Vec<f64>>,
        /// The equations' right sides.
        b: Vec<f64>,
    },
}

/// A projection, made ready once for many points.
#[derive(Clone, Debug)]
pub struct Projection(ProjectionKind);

#[derive(Clone, Debug)]
enum ProjectionKind {
    None,
    Ball(f64),
    Box(f64, f64),
    Simplex(f64),
    Affine(Affine),
}

/// A reason why numbers make no set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSet {
    /// A length or a sum that is not above 0, or not finite.
    #[error("must be a finite number above 0")]
    Positive,
    /// Bounds that nothing lies between.
    #[error("low must be at most high, both finite")]
    Bounds,
    /// Coefficients of another number than the model's coordinates.
    #[error("every equation has one coefficient for each coordinate of the model, and one right side")]
    Shape,
    /// Equations of which one follows from others, or that are more than coordinates.
    #[error("an equation follows from the others, or contradicts them: leave it out")]
    Dependent,
}

impl ModelSet {
    /// The projection onto this set of models with so many coordinates.
    pub fn projection(&self, dimension: usize) -> Result<Projection, NoSet> {
        let positive = |number: f64| number > 0.0 && number.is_finite();
        let kind = match self {
            ModelSet::None => ProjectionKind::None,
            ModelSet::Ball { radius } if positive(*radius) => ProjectionKind::Ball(*radius),
            ModelSet::Simplex { total } if positive(*total) => ProjectionKind::Simplex(*total),
            ModelSet::Ball { .. } | ModelSet::Simplex { .. } => return Err(NoSet::Positive),
            ModelSet::Box { low, high } if low <= high && low.is_finite() && high.is_finite() => {
                ProjectionKind::Box(*low, *high)
            }
            ModelSet::Box { .. } => return Err(NoSet::Bounds),
            ModelSet::Affine { a, b } => {
                let finite = a.iter().flatten().chain(b).all(|number| number.is_finite());
                if a.len() != b.len() || !finite || a.iter().any(|row| row.len() != dimension) {
                    return Err(NoSet::Shape);
                }
                let affine = Affine::new(a, b);
                if !affine.has_rank(a.len()) {
                    return Err(NoSet::Dependent);
                }
                ProjectionKind::Affine(affine)
            }
        };
        Ok(Projection(kind))
    }
}

impl Projection {
    /// Moves a point of finite coordinates to the nearest one of the set.
    pub fn apply(&self, point: &mut [f64]) {
        match &self.0 {
            ProjectionKind::None => {}
            ProjectionKind::Ball(radius) => onto_ball(*radius, point),
            ProjectionKind::Box(low, high) => point.iter_mut().for_each(|p| *p = between(*p, *low, *high)),
            ProjectionKind::Simplex(total) => onto_simplex(*total, point),
            ProjectionKind::Affine(affine) => affine.project(point),
        }
    }
}

fn onto_ball(radius: f64, point: &mut [f64]) {
    let length = norm(point);
    if length > radius {
        let factor = radius / length;
        point.iter_mut().for_each(|p| *p *= factor);
    }
}

/// Takes the same off every coordinate and cuts at 0, as much as makes the rest add up to `total`
/// (Held, Wolfe, Crowder 1974).
fn onto_simplex(total: f64, point: &mut [f64]) {
    let mut descending = point.to_vec();
    descending.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut off) = (0.0, 0.0);
    for (above, value) in descending.iter().enumerate() {
        sum += value;
        let candidate = (sum - total) / (above + 1) as f64;
        if value - candidate <= 0.0 {
            break;
        }
        off = candidate;
    }
    point
        .iter_mut()
        .for_each(|p| *p = between(*p - off, 0.0, f64::INFINITY));
}

/// By comparisons alone: of two zeros, `max` and `min` may take either one.
fn between(value: f64, low: f64, high: f64) -> f64 {
    if value <= low {
        low
    } else if value >= high {
        high
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::super::ordered::dot;
    use super::*;

    /// A point of the set, made without the projection.
    fn member(set: &ModelSet, dimension: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
        let mut drawn: Vec<f64> = (0..dimension).map(|_| rng.random_range(-1.0..1.0)).collect();
        match set {
            ModelSet::None => {}
            ModelSet::Ball { radius } => {
                let factor = radius * rng.random_range(0.0..1.0) / norm(&drawn);
                drawn.iter_mut().for_each(|d| *d *= factor);
            }
            ModelSet::Box { low, high } => {
                drawn
                    .iter_mut()
                    .for_each(|d| *d = low + (high - low) * (*d + 1.0) / 2.0);
            }
            ModelSet::Simplex { total } => {
                let sum: f64 = drawn.iter().map(|d| d.abs()).sum();
                drawn.iter_mut().for_each(|d| *d = d.abs() * total / sum);
            }
            // y_0 + y_1 = 1, y_2 − 2·y_0 = 3, the rest is free.
            ModelSet::Affine { .. } => {
                (drawn[1], drawn[2]) = (1.0 - drawn[0], 3.0 + 2.0 * drawn[0]);
            }
        }
        drawn
    }

    fn sets(dimension: usize) -> [ModelSet; 5] {
        let mut a = vec![vec![0.0; dimension]; 2];
        (a[0][0], a[0][1], a[1][2], a[1][0]) = (1.0, 1.0, 1.0, -2.0);
        [
            ModelSet::None,
            ModelSet::Ball { radius: 0.7 },
            ModelSet::Box { low: -0.3, high: 0.8 },
            ModelSet::Simplex { total: 1.5 },
            ModelSet::Affine { a, b: vec![1.0, 3.0] },
        ]
    }

    proptest! {
        #[test]
        fn nothing_of_the_set_is_nearer(seed: u64, dimension in 3usize..9, scale in 0.01f64..100.0) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for set in sets(dimension) {
                let projection = set.projection(dimension).expect("a set");
                let point: Vec<f64> =
                    (0..dimension).map(|_| scale * rng.random_range(-1.0..1.0)).collect();
                let mut nearest = point.clone();
                projection.apply(&mut nearest);
                let mut again = nearest.clone();
                projection.apply(&mut again);
                let close = 1e-12 * (1.0 + scale);
                prop_assert!(again.iter().zip(&nearest).all(|(a, b)| (a - b).abs() <= close), "{set:?}");
                let off: Vec<f64> = point.iter().zip(&nearest).map(|(p, n)| p - n).collect();
                for _ in 0..20 {
                    let other = member(&set, dimension, &mut rng);
                    let towards: Vec<f64> = other.iter().zip(&nearest).map(|(o, n)| o - n).collect();
                    prop_assert!(dot(&off, &towards) <= 1e-11 * (1.0 + scale * scale), "{set:?} {point:?}");
                }
            }
        }

        #[test]
        fn equations_that_follow_from_others_change_nothing(seed: u64) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut draw = || -> Vec<f64> { (0..5).map(|_| rng.random_range(-1.0..1.0)).collect() };
            let (first, second, point) = (draw(), draw(), draw());
            let both: Vec<f64> = first.iter().zip(&second).map(|(f, s)| 2.0 * f - s).collect();
            let needed = Affine::new(&[first.clone(), second.clone()], &[0.5, -1.0]);
            let more = Affine::new(&[first, vec![0.0; 5], both, second], &[0.5, 7.0, 2.0, -1.0]);
            prop_assert!(more.has_rank(2));
            let (mut one, mut other) = (point.clone(), point);
            needed.project(&mut one);
            more.project(&mut other);
            prop_assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }

    #[test]
    fn numbers_that_make_no_set_are_refused() {
        let refused = |set: ModelSet| set.projection(2).expect_err("no set");
        assert_eq!(refused(ModelSet::Ball { radius: 0.0 }), NoSet::Positive);
        assert_eq!(refused(ModelSet::Simplex { total: f64::NAN }), NoSet::Positive);
        assert_eq!(refused(ModelSet::Box { low: 1.0, high: 0.0 }), NoSet::Bounds);
        let affine = |a: &[[f64; 2]], b: &[f64]| ModelSet::Affine {
            a: a.iter().map(|row| row.to_vec()).collect(),
            b: b.to_vec(),
        };
        assert_eq!(refused(affine(&[[1.0, 0.0]], &[])), NoSet::Shape);
        assert_eq!(
            refused(affine(&[[1.0, 2.0], [2.0, 4.0]], &[1.0, 2.0])),
            NoSet::Dependent
        );
        assert_eq!(refused(affine(&[[0.0, 0.0]], &[0.0])), NoSet::Dependent);
    }
}
