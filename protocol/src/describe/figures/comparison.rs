//! Differences between groups, with noise and sampling together: a test is about both.

use serde::Serialize;

use super::estimate::Estimate;
use crate::describe::chance::{chi_square_above, two_sided};

/// The difference of two groups' means or shares. Groups are disjoint, and so is their noise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The first less the second.
    pub value: f64,
    /// Its error by noise.
    pub noise: f64,
    /// Its error as a sample.
    pub sampling: f64,
    /// The chance of a difference at least as large where there is none; not corrected for how many
    /// are looked at.
    pub p: f64,
}

/// Returns the first less the second.
pub fn difference(one: &Estimate, other: &Estimate) -> Difference {
    let root = |a: f64, b: f64| (a * a + b * b).sqrt();
    let raw = |estimate: &Estimate| estimate.raw.unwrap_or(estimate.value);
    let value = raw(one) - raw(other);
    let noise = root(one.noise, other.noise);
    let sampling = root(one.sampling.unwrap_or(0.0), other.sampling.unwrap_or(0.0));
    Difference {
        value,
        noise,
        sampling,
        p: two_sided(value / root(noise, sampling)),
    }
}

/// A test that several groups have one mean or share (Cochran's Q).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Homogeneity {
    /// The statistic.
    pub q: f64,
    /// Its degrees of freedom: one less than there are groups.
    pub degrees: usize,
    /// The chance of at least this much where they have one.
    pub p: f64,
}

/// Tests several groups, each weighed by its error; `None` of fewer than two.
pub fn homogeneity(groups: &[&Estimate]) -> Option<Homogeneity> {
    let degrees = groups.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
    let raw = |estimate: &Estimate| estimate.raw.unwrap_or(estimate.value);
    let weight = |estimate: &Estimate| 1.0 / (estimate.both() * estimate.both());
    let weights: f64 = groups.iter().map(|group| weight(group)).sum();
    let mean = groups.iter().map(|group| weight(group) * raw(group)).sum::<f64>() / weights;
    let q = groups
        .iter()
        .map(|group| weight(group) * (raw(group) - mean) * (raw(group) - mean))
        .sum();
    Some(Homogeneity {
        q,
        degrees,
        p: chi_square_above(q, degrees),
    })
}
