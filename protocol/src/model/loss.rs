//! The gradient of a model's loss on a row.
//!
//! A model is one vector: a number for each column, for softmax one such block for each class, one
//! after the other. Exponentials are `libm`'s, so that a simulation repeats on any machine; all the
//! same nobody may rely on the last bits of a gradient.

use super::ordered::{dot, norm};

/// The loss by which a model is held against a row's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// ½(xᵀθ − y)²: least squares.
    Squared,
    /// The negative log-likelihood of y ∈ {0, 1} at probability 1/(1 + exp(−xᵀθ)).
    Logistic,
    /// The negative log-likelihood of class y at probabilities proportional to exp(xᵀθ_c).
    Softmax {
        /// The number of classes, at least 2; y ∈ {0, …, classes − 1}.
        classes: usize,
    },
}

impl Loss {
    /// The coordinates of a model for rows of so many features.
    pub fn parameters(self, features: usize) -> usize {
        self.blocks().saturating_mul(features)
    }

    /// The scores that a model gives a row.
    fn blocks(self) -> usize {
        match self {
            Loss::Squared | Loss::Logistic => 1,
            Loss::Softmax { classes } => classes,
        }
    }

    /// Whether a target is one that this loss knows.
    pub fn knows(self, target: f64) -> bool {
        match self {
            Loss::Squared => target.is_finite(),
            Loss::Logistic => target == 0.0 || target == 1.0,
            Loss::Softmax { classes } => target >= 0.0 && target < classes as f64 && target.fract() == 0.0,
        }
    }

    /// The most that a gradient of rows of this length changes per length of a model's change: the
    /// largest eigenvalue of the loss's second derivative (Böhning 1992 for softmax: half of R²).
    pub fn smoothness(self, length: f64) -> f64 {
        let square = length * length;
        match self {
            Loss::Squared => square,
            Loss::Logistic => square / 4.0,
            Loss::Softmax { .. } => square / 2.0,
        }
    }

    /// Returns the scores of a row under a model: for each block of the model xᵀθ_c.
    pub fn scores(self, model: &[f64], features: &[f64]) -> Vec<f64> {
        model
            .chunks_exact(features.len())
            .map(|block| dot(block, features))
            .collect()
    }

    /// The target that scores name: a number, or the class of the largest.
    pub fn named(self, scores: &[f64]) -> f64 {
        match self {
            Loss::Squared => scores[0],
            Loss::Logistic => f64::from(scores[0] > 0.0),
            Loss::Softmax { .. } => {
                let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
                best.unwrap_or(0) as f64
            }
        }
    }

    /// The derivative of a row's loss by each of its scores.
    fn slopes(self, scores: &[f64], target: f64) -> Vec<f64> {
        match self {
            Loss::Squared => vec![scores[0] - target],
            Loss::Logistic => vec![logistic(scores[0]) - target],
            Loss::Softmax { .. } => {
                let mut slopes = probabilities(scores);
                slopes[target as usize] -= 1.0;
                slopes
            }
        }
    }

    /// A row's loss at a model. The target is one that [`Loss::knows`].
    pub fn value(self, model: &[f64], features: &[f64], target: f64) -> f64 {
        let scores = self.scores(model, features);
        match self {
            Loss::Squared => 0.5 * (scores[0] - target) * (scores[0] - target),
            Loss::Logistic => softplus(scores[0]) - target * scores[0],
            Loss::Softmax { .. } => {
                let most = largest(&scores);
                let sum = scores
                    .iter()
                    .fold(0.0, |sum, score| sum + libm::exp(score - most));
                most + libm::log(sum) - scores[target as usize]
            }
        }
    }

    /// Puts a row's gradient at a model into `gradient`, which is as long as the model. The target
    /// is one that [`Loss::knows`].
    pub fn gradient(self, model: &[f64], features: &[f64], target: f64, gradient: &mut [f64]) {
        let slopes = self.slopes(&self.scores(model, features), target);
        outer_product(&slopes, features, gradient);
    }

    /// Puts a row's gradient at a model, [clipped](clip_gradient) to length `radius`, into
    /// `gradient`. A gradient is its slopes times the row's features, and so is its length: no pass
    /// over the model's parameters is needed for it.
    pub fn clipped_gradient(
        self,
        model: &[f64],
        (features, target): (&[f64], f64),
        radius: f64,
        gradient: &mut [f64],
    ) {
        let mut slopes = self.slopes(&self.scores(model, features), target);
        // A norm is the largest's multiple, and no number is the largest of those that are none.
        let finite = slopes.iter().chain(features).all(|factor| factor.is_finite());
        let length = norm(&slopes) * norm(features);
        if finite && length.is_finite() {
            if length > radius {
                slopes.iter_mut().for_each(|slope| *slope *= radius / length);
            }
            outer_product(&slopes, features, gradient);
        } else {
            outer_product(&slopes, features, gradient);
            clip_gradient(radius, gradient);
        }
    }
}

/// Every slope times every feature, slope by slope.
fn outer_product(slopes: &[f64], features: &[f64], product: &mut [f64]) {
    for (block, slope) in product.chunks_exact_mut(features.len()).zip(slopes) {
        block.iter_mut().zip(features).for_each(|(p, x)| *p = slope * x);
    }
}

/// Shortens a gradient to length `radius` where it is longer. One that is not finite becomes zero:
/// what a row holds is never an error.
pub fn clip_gradient(radius: f64, gradient: &mut [f64]) {
    if gradient.iter().any(|g| !g.is_finite()) {
        return gradient.fill(0.0);
    }
    let length = norm(gradient);
    if length > radius {
        // Divided first: the length of finite numbers may be infinite.
        let largest = gradient.iter().fold(0.0f64, |most, g| most.max(g.abs()));
        gradient.iter_mut().for_each(|g| *g /= largest);
        let factor = radius / norm(gradient);
        gradient.iter_mut().for_each(|g| *g *= factor);
    }
}

/// 1/(1 + exp(−score)), without overflow.
pub fn logistic(score: f64) -> f64 {
    if score >= 0.0 {
        1.0 / (1.0 + libm::exp(-score))
    } else {
        let e = libm::exp(score);
        e / (1.0 + e)
    }
}

/// ln(1 + exp(score)), without overflow.
fn softplus(score: f64) -> f64 {
    score.max(0.0) + libm::log1p(libm::exp(-score.abs()))
}

/// Probabilities proportional to the exponentials of scores.
pub fn probabilities(scores: &[f64]) -> Vec<f64> {
    let most = largest(scores);
    let raised: Vec<f64> = scores.iter().map(|score| libm::exp(score - most)).collect();
    let sum = raised.iter().fold(0.0, |sum, e| sum + e);
    raised.iter().map(|e| e / sum).collect()
}

fn largest(scores: &[f64]) -> f64 {
    scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    const LOSSES: [Loss; 3] = [Loss::Squared, Loss::Logistic, Loss::Softmax { classes: 3 }];

    #[test]
    fn gradients_are_the_slopes_of_losses() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for loss in LOSSES {
            for target in [0.0, 1.0] {
                let mut draw =
                    |count| -> Vec<f64> { (0..count).map(|_| rng.random_range(-2.0..2.0)).collect() };
                let (features, model) = (draw(4), draw(loss.parameters(4)));
                let mut gradient = vec![0.0; model.len()];
                loss.gradient(&model, &features, target, &mut gradient);
                for (i, slope) in gradient.iter().enumerate() {
                    let at = |step: f64| {
                        let mut moved = model.clone();
                        moved[i] += step;
                        loss.value(&moved, &features, target)
                    };
                    let measured = (at(1e-5) - at(-1e-5)) / 2e-5;
                    assert!((slope - measured).abs() < 1e-8, "{loss:?} {slope} {measured}");
                }
            }
        }
    }

    #[test]
    fn a_gradient_changes_no_faster_than_its_smoothness() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for (loss, _) in LOSSES.iter().zip(0..) {
            let mut steepest = 0.0f64;
            for _ in 0..2000 {
                let mut draw =
                    |count| -> Vec<f64> { (0..count).map(|_| rng.random_range(-3.0..3.0)).collect() };
                let (features, model) = (draw(2), draw(loss.parameters(2)));
                let step: Vec<f64> = draw(model.len()).iter().map(|s| s * 1e-4).collect();
                let moved: Vec<f64> = model.iter().zip(&step).map(|(m, s)| m + s).collect();
                let (mut here, mut there) = (vec![0.0; model.len()], vec![0.0; model.len()]);
                loss.gradient(&model, &features, 1.0, &mut here);
                loss.gradient(&moved, &features, 1.0, &mut there);
                let change: Vec<f64> = there.iter().zip(&here).map(|(t, h)| t - h).collect();
                let bound = loss.smoothness(norm(&features));
                steepest = steepest.max(norm(&change) / norm(&step) / bound);
            }
            assert!(
                (0.8..1.0 + 1e-6).contains(&steepest),
                "{loss:?}: {steepest} of the bound"
            );
        }
    }

    #[test]
    fn nothing_overflows() {
        let extreme = [1e308, -1e308];
        for loss in [Loss::Logistic, Loss::Softmax { classes: 2 }] {
            let model = vec![1.0; loss.parameters(2)];
            let mut gradient = vec![0.0; model.len()];
            loss.gradient(&model, &[700.0, 900.0], 0.0, &mut gradient);
            assert!(gradient.iter().all(|g| g.is_finite()), "{gradient:?}");
        }
        let mut gradient = extreme.to_vec();
        clip_gradient(1.0, &mut gradient);
        assert!((norm(&gradient) - 1.0).abs() < 1e-15);
        gradient[1] = f64::NAN;
        clip_gradient(1.0, &mut gradient);
        assert_eq!(gradient, [0.0, 0.0]);
    }

    #[test]
    fn a_clipped_gradient_is_the_gradient_clipped() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        for loss in LOSSES {
            for case in 0..300 {
                let scale = [1e-3, 1.0, 1e3, 1e200, 1e308][case % 5];
                let mut draw =
                    |count| -> Vec<f64> { (0..count).map(|_| rng.random_range(-1.0..1.0) * scale).collect() };
                let features = draw(4);
                let model: Vec<f64> = draw(loss.parameters(4));
                let [mut one, mut other] = [(); 2].map(|()| vec![9.0; model.len()]);
                loss.clipped_gradient(&model, (&features, 1.0), 0.5, &mut one);
                loss.gradient(&model, &features, 1.0, &mut other);
                clip_gradient(0.5, &mut other);
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-14;
                assert!(
                    one.iter().zip(&other).all(near),
                    "{loss:?} {scale}: {one:?}, {other:?}"
                );
            }
        }
    }

    #[test]
    fn targets_are_known_or_not() {
        let known = |loss: Loss| [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, f64::NAN].map(|y| loss.knows(y));
        assert_eq!(known(Loss::Squared), [true, true, true, true, true, true, false]);
        assert_eq!(
            known(Loss::Logistic),
            [false, true, false, true, false, false, false]
        );
        assert_eq!(known(LOSSES[2]), [false, true, false, true, true, false, false]);
    }
}
