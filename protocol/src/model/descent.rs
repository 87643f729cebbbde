//! Descent from one model to the next: a step against the mean gradient, with momentum, into a set.
//!
//! Every node computes this for itself and has to come to the same bits (see [`crate::model`]).

use std::collections::VecDeque;

use super::projection::Projection;

/// The length of iteration k's step, counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub enum StepLength {
    /// Always as far.
    Constant(f64),
    /// `first`/k.
    Inverse {
        /// The first iteration's step.
        first: f64,
    },
}

impl StepLength {
    /// The step of iteration `k` ≥ 1.
    pub fn of(&self, k: u64) -> f64 {
        match self {
            StepLength::Constant(step) => *step,
            StepLength::Inverse { first } => *first / k as f64,
        }
    }
}

/// The public parameters of a descent.
#[derive(Clone, Debug)]
pub struct DescentTerms {
    /// The length of each iteration's step.
    pub step: StepLength,
    /// β: the share of the last step's direction that stays, in [0, 1).
    pub momentum: f64,
    /// λ ≥ 0: what the gradient grows by for each length of the model.
    pub ridge: f64,
    /// Onto the set that the model is kept in.
    pub set: Projection,
    /// The share of the iterates, from the end, whose mean is the result; 0: the last one alone.
    pub average: f64,
}

/// A descent under way.
#[derive(Clone, Debug)]
pub struct Descent {
    terms: DescentTerms,
    /// Iterations so far, those that were given up included.
    iterations: u64,
    model: Vec<f64>,
    velocity: Vec<f64>,
    /// The iterates that may still count, in order; the last one is the model.
    last: VecDeque<Vec<f64>>,
}

impl Descent {
    /// Begins at `start`.
    pub fn new(terms: DescentTerms, start: Vec<f64>) -> Self {
        Descent {
            terms,
            iterations: 0,
            velocity: vec![0.0; start.len()],
            last: VecDeque::from([start.clone()]),
            model: start,
        }
    }

    /// θ: what the next iteration's gradients are taken at.
    pub fn model(&self) -> &[f64] {
        &self.model
    }

    /// Returns the number of iterations so far.
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// Takes a step against a sum of gradients over `rows` > 0 rows: g = Σ/W + λθ, v ← βv + g,
    /// θ ← P(θ − αv). The sum has as many coordinates as the model.
    pub fn step(&mut self, sum: impl IntoIterator<Item = f64>, rows: f64) {
        let DescentTerms { momentum, ridge, .. } = self.terms;
        let length = self.terms.step.of(self.iterations + 1);
        let state = self.model.iter_mut().zip(&mut self.velocity);
        for ((theta, velocity), sum) in state.zip(sum) {
            let gradient = sum / rows + ridge * *theta;
            *velocity = momentum * *velocity + gradient;
            *theta -= length * *velocity;
        }
        self.terms.set.apply(&mut self.model);
        self.iterated();
    }

    /// An iteration whose sum is of no use: the model stays, and counts as an iterate.
    pub fn stay(&mut self) {
        self.iterated();
    }

    fn iterated(&mut self) {
        self.iterations += 1;
        self.last.push_back(self.model.clone());
        let counted = self.counted();
        while self.last.len() > counted {
            self.last.pop_front();
        }
    }

    /// Returns the number of iterates that the result is the mean of.
    fn counted(&self) -> usize {
        let share = (self.terms.average * self.iterations as f64).ceil();
        (share as usize).max(1)
    }

    /// The result: the mean of the last ⌈`average`·k⌉ of the iterates 0, …, k, added in their
    /// order.
    pub fn result(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.model.len()];
        for iterate in &self.last {
            mean.iter_mut().zip(iterate).for_each(|(m, theta)| *m += theta);
        }
        let count = self.last.len() as f64;
        mean.iter_mut().for_each(|m| *m /= count);
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::super::projection::ModelSet;
    use super::*;

    fn terms(average: f64) -> DescentTerms {
        DescentTerms {
            step: StepLength::Constant(0.5),
            momentum: 0.25,
            ridge: 0.5,
            set: ModelSet::None.projection(1).expect("every model"),
            average,
        }
    }

    #[test]
    fn a_step_is_what_the_formula_says() {
        let mut descent = Descent::new(terms(0.0), vec![2.0]);
        // g = 6/2 + 0.5·2 = 4, v = 4, θ = 2 − 0.5·4 = 0; g = 1, v = 2, θ = −1.
        descent.step([6.0], 2.0);
        assert_eq!(descent.model(), [0.0]);
        descent.step([4.0], 4.0);
        assert_eq!((descent.model(), descent.result()), (&[-1.0][..], vec![-1.0]));
    }

    #[test]
    fn the_result_is_the_mean_of_the_last_iterates_whenever_it_ends() {
        for average in [0.0, 0.2, 0.5, 1.0] {
            let mut descent = Descent::new(terms(average), vec![1.0]);
            let mut all = vec![1.0];
            assert_eq!(descent.result(), [1.0]);
            for k in 1..30usize {
                match k % 7 {
                    0 => descent.stay(),
                    _ => descent.step([(k * k % 5) as f64], 3.0),
                }
                all.push(descent.model()[0]);
                let counted = ((average * k as f64).ceil() as usize).max(1);
                let tail = &all[all.len() - counted..];
                let mean = tail.iter().fold(0.0, |sum, theta| sum + theta) / counted as f64;
                assert_eq!(descent.result(), [mean], "after {k} with {average}");
            }
        }
    }

    #[test]
    fn a_harmonic_step_shrinks() {
        let step = StepLength::Inverse { first: 0.5 };
        assert_eq!([1, 2, 4].map(|k| step.of(k)), [0.5, 0.25, 0.125]);
    }
}
