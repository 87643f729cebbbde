//! Observers of a graph whose weights stay: prepared once, asked about many targets.

use faer::Mat;

use crate::account::gossip::bounds::Whitener;
use crate::account::gossip::gram::{Powers, unit, without};
use crate::account::gossip::threat::{GossipError, ObserversNoise, Sensitivity, Shape, Threat};
use crate::account::gossip::weights::Weights;
use crate::losses::row_space::independent;
use crate::parallel::in_parallel;

/// The view that observers have of some targets, prepared for computing these targets' losses.
pub struct Observers {
    rounds: usize,
    shape: Shape,
    whitener: Whitener,
    /// (Wᵏ)ₒⱼ by observer o of the basis, power k and target j.
    entries: Vec<Vec<Vec<f64>>>,
    /// For each target, whether an observer reads its contributions without noise.
    exposed: Vec<bool>,
}

impl Observers {
    /// Prepares for `targets`. One observer and a symmetric matrix W take, for T rounds, T products
    /// with W, O(T²) numbers and a factorisation of size T.
    pub fn of(weights: &Weights, threat: &Threat<'_>, targets: &[usize]) -> Result<Self, GossipError> {
        let nodes = weights.nodes();
        threat.check(nodes)?;
        if let Some(&found) = targets.iter().find(|&&target| target >= nodes) {
            return Err(GossipError::Target { found, nodes });
        }
        let shape = threat.shape();
        let basis = basis(weights, threat, shape.first);
        let powers = Powers::of(
            weights,
            threat,
            &basis,
            shape.first + shape.rounds.saturating_sub(1),
            targets,
        );
        let k = gram_of_views(&powers, basis.len(), shape);
        Ok(Observers {
            rounds: threat.rounds,
            shape,
            whitener: Whitener::of(&k)?,
            entries: powers.entries,
            exposed: targets.iter().map(|&target| threat.exposes(target)).collect(),
        })
    }

    /// The sensitivity of the target at place `index` of those that were prepared for.
    pub fn sensitivity(&self, index: usize) -> Sensitivity {
        if self.exposed[index] {
            return Sensitivity::UNBOUNDED;
        }
        let g = self.columns(index);
        self.whitener
            .sensitivity(&g, self.rounds, self.entries.len() == 1)
    }

    /// T λ_max(M) of the target at place `index`, T the number of rounds: an upper bound on the
    /// squared sensitivity, often above that of [`Observers::sensitivity`]. Infinite if its
    /// contributions stand open.
    pub fn spectral(&self, index: usize) -> f64 {
        if self.exposed[index] {
            return f64::INFINITY;
        }
        let g = self.columns(index);
        self.whitener.spectral(&g, self.rounds, self.entries.len() == 1)
    }

    /// G of the target at place `index`.
    fn columns(&self, index: usize) -> Mat<f64> {
        let (observers, Shape { first, rounds }) = (self.entries.len(), self.shape);
        Mat::from_fn(observers * rounds, rounds, |row, s| {
            let (t, o) = (row / observers, row % observers);
            if t < s {
                0.0
            } else {
                self.entries[o][t - s + first][index]
            }
        })
    }

    /// The sensitivities of all targets that were prepared for, in their order, on all cores.
    pub fn sensitivities(&self) -> Vec<Sensitivity> {
        let quick = self.quick();
        let open: Vec<usize> = (0..self.exposed.len())
            .filter(|&index| quick.get(index).is_none_or(|(_, tight)| !tight))
            .collect();
        let mut careful = in_parallel(open.len(), |place| Some(self.sensitivity(open[place]))).into_iter();
        let mut answers: Vec<Sensitivity> = quick.into_iter().map(|(answer, _)| answer).collect();
        answers.resize(self.exposed.len(), Sensitivity::NONE);
        open.into_iter()
            .for_each(|index| answers[index] = careful.next().expect("one each"));
        answers
    }

    /// The sensitivities of all targets by one product for all of them: `lower` is that of
    /// [`Observers::sensitivities`], `upper` holds as well but may be larger for targets close by.
    /// For several observers there is no such way, and nothing differs.
    pub fn sensitivities_at_once(&self) -> Vec<Sensitivity> {
        if self.entries.len() != 1 {
            return self.sensitivities();
        }
        self.quick().into_iter().map(|(answer, _)| answer).collect()
    }

    /// Returns the answer of one product for all targets of a single observer, and whether it
    /// settles each target. It is empty for several observers.
    pub(super) fn quick(&self) -> Vec<(Sensitivity, bool)> {
        let (targets, Shape { first, rounds }) = (self.exposed.len(), self.shape);
        let [entries] = &self.entries[..] else {
            return vec![];
        };
        let g = Mat::from_fn(rounds, targets, |k, index| entries[k + first][index]);
        let mut answers = self.whitener.quick(&g, self.rounds);
        let exposed = answers
            .iter_mut()
            .zip(&self.exposed)
            .filter(|(_, exposed)| **exposed);
        exposed.for_each(|(answer, _)| *answer = (Sensitivity::UNBOUNDED, true));
        answers
    }
}

/// Observers whose rows of the gossip matrix, over noises that are unknown, are independent; all
/// where they see fresh noise of their own.
pub(super) fn basis(weights: &Weights, threat: &Threat<'_>, first: usize) -> Vec<usize> {
    if first == 0 {
        return threat.observers.to_vec();
    }
    let known = if threat.noise == ObserversNoise::Known {
        threat.observers
    } else {
        &[]
    };
    let row = |&observer: &usize| without(&weights.after(&unit(weights.nodes(), observer)), known);
    let rows: Vec<Vec<f64>> = threat.observers.iter().map(row).collect();
    independent(&rows)
        .into_iter()
        .map(|place| threat.observers[place])
        .collect()
}

/// K, the covariance of what is observed, rows by round and then observer: a block is the block one
/// up and left of it plus the products of two more powers.
fn gram_of_views(powers: &Powers, observers: usize, Shape { first, rounds }: Shape) -> Mat<f64> {
    let size = observers * rounds;
    let mut k: Mat<f64> = Mat::zeros(size, size);
    for column in 0..size {
        let (s, p) = (column / observers, column % observers);
        for row in column..size {
            let (t, o) = (row / observers, row % observers);
            let before = if s == 0 {
                0.0
            } else {
                k[(row - observers, column - observers)]
            };
            k[(row, column)] = before + powers.gram.of((o, t + first), (p, s + first));
        }
    }
    k
}
