//! Local steps of a party on the mean of all states, with rows that only it knows. They are those
//! of PPSC's Algorithms 3 and 4, and of their least-squares variants.
//!
//! Nothing here is an error: a coordinate that comes out as no finite number stays as it was.

use serde::{Deserialize, Serialize};

use super::affine::Affine;
use super::descent::StepLength;
use super::loss::Loss;
use super::ordered::dot;
use super::projection::Projection;

/// The meaning of equations without a common solution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inconsistent {
    /// The least Σ(hᵀx − z)²: steps along −Σ h(hᵀx − z).
    LeastSquares,
    /// The paper's variant: part of the way to the projection, which is least squares of rows that
    /// are scaled to length 1.
    Normalised,
}

/// A party's local step. Its rows are private: there is no `Debug` that prints them.
pub struct LocalStep {
    kind: StepKind,
    length: StepLength,
    set: Projection,
}

enum StepKind {
    /// Onto the solutions of its equations.
    Onto(Affine),
    /// Part of the way to them.
    Towards(Affine),
    /// Along the gradient of a loss over its rows, and of ridge/2·|x|².
    Against {
        loss: Loss,
        ridge: f64,
        rows: PrivateRows,
    },
}

/// Rows of features, and a number for each.
pub struct PrivateRows {
    /// A row each.
    pub features: Vec<Vec<f64>>,
    /// The right side or target of each.
    pub targets: Vec<f64>,
}

impl LocalStep {
    /// Builds the local step of Algorithm 3 on these equations, or of what is meant where they may
    /// have no common solution.
    pub fn of_equations(
        rows: PrivateRows,
        inconsistent: Option<Inconsistent>,
        length: StepLength,
        set: Projection,
    ) -> Self {
        let affine = |rows: &PrivateRows| Affine::new(&rows.features, &rows.targets);
        let kind = match inconsistent {
            None => StepKind::Onto(affine(&rows)),
            Some(Inconsistent::Normalised) => StepKind::Towards(affine(&rows)),
            Some(Inconsistent::LeastSquares) => StepKind::Against {
                loss: Loss::Squared,
                ridge: 0.0,
                rows,
            },
        };
        LocalStep { kind, length, set }
    }

    /// Builds the local step of Algorithm 4. Every target is one that the loss knows.
    pub fn of_loss(
        rows: PrivateRows,
        (loss, ridge): (Loss, f64),
        length: StepLength,
        set: Projection,
    ) -> Self {
        let kind = StepKind::Against { loss, ridge, rows };
        LocalStep { kind, length, set }
    }

    /// The party's state before the first outer iteration, from where all begin.
    pub fn begin(&self, state: &mut [f64]) {
        match &self.kind {
            StepKind::Onto(affine) | StepKind::Towards(affine) => {
                keeping_finite(state, |state| {
                    affine.project(state);
                    self.set.apply(state);
                });
            }
            StepKind::Against { .. } => self.apply(1, state),
        }
    }

    /// The party's state after an outer iteration, from what averaging came to; `k` counts from 1,
    /// and is 2 after the first.
    pub fn apply(&self, k: u64, state: &mut [f64]) {
        let length = self.length.of(k);
        keeping_finite(state, |state| {
            match &self.kind {
                StepKind::Onto(affine) => affine.project(state),
                StepKind::Towards(affine) => {
                    let mut onto = state.to_vec();
                    affine.project(&mut onto);
                    let moved = state.iter_mut().zip(onto);
                    moved.for_each(|(x, p)| *x += length * (p - *x));
                }
                StepKind::Against { loss, ridge, rows } => {
                    let gradient = rows.gradient(*loss, state);
                    let moved = state.iter_mut().zip(gradient);
                    moved.for_each(|(x, g)| *x -= length * (g + ridge * *x));
                }
            }
            self.set.apply(state);
        });
    }
}

fn keeping_finite(state: &mut [f64], change: impl FnOnce(&mut [f64])) {
    let before = state.to_vec();
    change(state);
    let changed = state.iter_mut().zip(before);
    changed
        .filter(|(x, _)| !x.is_finite())
        .for_each(|(x, before)| *x = before);
}

impl PrivateRows {
    /// The sum over rows of a loss's gradient at a point.
    fn gradient(&self, loss: Loss, point: &[f64]) -> Vec<f64> {
        let (mut sum, mut gradient) = (vec![0.0; point.len()], vec![0.0; point.len()]);
        for (features, &target) in self.features.iter().zip(&self.targets) {
            loss.gradient(point, features, target, &mut gradient);
            sum.iter_mut().zip(&gradient).for_each(|(s, g)| *s += g);
        }
        sum
    }

    /// Returns the squared residual of the rows' equations at a point: Σ (hᵀx − z)².
    pub fn residual(&self, point: &[f64]) -> f64 {
        let rows = self.features.iter().zip(&self.targets);
        rows.fold(0.0, |sum, (features, target)| {
            let off = dot(features, point) - target;
            sum + off * off
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::projection::ModelSet;
    use super::*;

    fn rows() -> PrivateRows {
        PrivateRows {
            features: vec![vec![1.0, 2.0], vec![0.0, 3.0]],
            targets: vec![5.0, 6.0],
        }
    }

    fn free() -> Projection {
        ModelSet::None.projection(2).expect("every point")
    }

    #[test]
    fn equations_hold_after_a_step_onto_them() {
        let step = LocalStep::of_equations(rows(), None, StepLength::Constant(1.0), free());
        let mut state = vec![7.0, -3.0];
        step.begin(&mut state);
        assert!(rows().residual(&state) < 1e-20, "{state:?}");
        state = vec![-1.0, 100.0];
        step.apply(2, &mut state);
        assert!(rows().residual(&state) < 1e-20, "{state:?}");
    }

    #[test]
    fn least_squares_goes_along_its_own_gradient_and_the_paper_s_towards_the_projection() {
        let length = || StepLength::Inverse { first: 1.0 };
        let mut state = vec![1.0, 0.0];
        let squares = LocalStep::of_equations(rows(), Some(Inconsistent::LeastSquares), length(), free());
        squares.apply(2, &mut state);
        // Σ h(hᵀx − z) at (1, 0): (1, 2)·(−4) + (0, 3)·(−6); half of it.
        assert_eq!(state, [1.0 + 2.0, 13.0]);
        let towards = LocalStep::of_equations(rows(), Some(Inconsistent::Normalised), length(), free());
        let mut state = vec![9.0, 0.0];
        towards.apply(2, &mut state);
        // The common solution is (1, 2): half of the way.
        assert!(
            (state[0] - 5.0).abs() < 1e-12 && (state[1] - 1.0).abs() < 1e-12,
            "{state:?}"
        );
    }

    #[test]
    fn what_is_not_finite_stays_and_sets_hold() {
        let wild = PrivateRows {
            features: vec![vec![1e200, 0.0]],
            targets: vec![0.0],
        };
        let ball = ModelSet::Ball { radius: 1.0 }.projection(2).expect("a ball");
        let step = LocalStep::of_loss(wild, (Loss::Squared, 0.0), StepLength::Constant(1.0), ball);
        let mut state = vec![0.5, 0.5];
        step.apply(1, &mut state);
        assert!(state.iter().all(|x| x.is_finite()), "{state:?}");
    }
}
