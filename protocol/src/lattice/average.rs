//! Vectors under public integer weights: sums of multiples, and what they come to in whole steps.
//! Gossip averaging is generic over it, so that the accountant runs it on unit impulses.

use crate::lattice::payload::Impulse;
use crate::lattice::residue::ResidueVector;
use crate::lattice::vector::{LatticeVector, Words};

/// Weights of an average are multiples of 2^-16.
pub const AVERAGE_BITS: u32 = 16;

/// The requirements on a lattice of averages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AverageTerms {
    /// The number of rounds T.
    pub rounds: u32,
    /// The number of them, from the first on, in which a party adds something of its own.
    pub injections: u32,
    /// A step is at most this, in the data's unit.
    pub finest: f64,
    /// For so many readers at most a party seals a vector in a round, each with noise of its own; 0
    /// where messages are open.
    pub readers: usize,
}

/// A vector of which weighted averages are taken, with weights in units of 2^-[`AVERAGE_BITS`].
pub trait Averageable: Sized {
    /// A sum of integer multiples of vectors of one shape.
    type Sum;
    /// The empty sum of this vector's shape.
    fn no_terms(&self) -> Self::Sum;
    /// Adds `factor` times this vector. On the lattice the caller has seen to it that no coordinate
    /// of a sum leaves 128 bits.
    fn add_to(&self, factor: u32, sum: &mut Self::Sum);
    /// Becomes sum / 2^16: on the lattice the nearest whole number of steps, of two the larger, so
    /// that everybody rounds alike; exact on impulses.
    fn become_average(&mut self, sum: &Self::Sum);
}

/// round(sum / 2^16), of two equally near integers the larger one.
pub(crate) fn nearest(sum: i128) -> i128 {
    (sum + (1 << (AVERAGE_BITS - 1))) >> AVERAGE_BITS
}

impl Averageable for LatticeVector {
    type Sum = Vec<i128>;

    fn no_terms(&self) -> Vec<i128> {
        vec![0; self.len()]
    }

    fn add_to(&self, factor: u32, sum: &mut Vec<i128>) {
        let factor = i128::from(factor);
        let add = |(sum, steps): (&mut i128, i128)| *sum += factor * steps;
        match &self.0 {
            Words::Narrow(words) => sum.iter_mut().zip(words.iter().map(|&w| w.into())).for_each(add),
            Words::Wide(words) => sum.iter_mut().zip(words.iter().copied()).for_each(add),
            Words::Residues(residues) => sum.iter_mut().zip(residues.lifted()).for_each(add),
        }
    }

    fn become_average(&mut self, sum: &Vec<i128>) {
        let steps = sum.iter().map(|&sum| nearest(sum));
        match &mut self.0 {
            // Averages of what fits fit.
            Words::Narrow(words) => words.iter_mut().zip(steps).for_each(|(w, s)| *w = s as i64),
            Words::Wide(words) => words.iter_mut().zip(steps).for_each(|(w, s)| *w = s),
            Words::Residues(residues) => *residues = ResidueVector::of(residues.ring(), steps),
        }
    }
}

impl Averageable for Impulse {
    type Sum = Vec<f64>;

    fn no_terms(&self) -> Vec<f64> {
        vec![0.0; self.0.len()]
    }

    fn add_to(&self, factor: u32, sum: &mut Vec<f64>) {
        let factor = f64::from(factor);
        sum.iter_mut()
            .zip(&self.0)
            .for_each(|(sum, x)| *sum += factor * x);
    }

    fn become_average(&mut self, sum: &Vec<f64>) {
        let unit = 1.0 / f64::from(1u32 << AVERAGE_BITS);
        self.0.iter_mut().zip(sum).for_each(|(x, sum)| *x = sum * unit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_up_and_all_words_average_alike() {
        let half = 1 << (AVERAGE_BITS - 1);
        let sums: Vec<i128> = vec![half, half - 1, -half, -half - 1, 3 << AVERAGE_BITS, 0];
        let expected: Vec<i128> = vec![1, 0, 0, -1, 3, 0];
        let widths = [
            Words::Narrow(vec![0; 6]),
            Words::Wide(vec![0; 6]),
            Words::Residues(ResidueVector::zeros(
                crate::lattice::residue::Ring::even(3).expect("a width"),
                6,
            )),
        ];
        for words in widths {
            let mut vector = LatticeVector(words);
            vector.become_average(&sums);
            assert_eq!(vector.steps().collect::<Vec<_>>(), expected);
            let mut sum = vector.no_terms();
            vector.add_to(5, &mut sum);
            assert_eq!(sum, [5, 0, 0, -5, 15, 0]);
        }
    }
}
