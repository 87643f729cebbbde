//! Plain averaging: the paper's Algorithm 2 with equal edge weights.

use crate::averaging::spectrum::Spectrum;

/// The paper's largest edge weight: 1/n.
pub fn weight(spectrum: &Spectrum) -> f64 {
    1.0 / spectrum.parties() as f64
}

/// Returns the remaining fraction of a difference after one round of weight `a`, at most.
pub fn factor(spectrum: &Spectrum, a: f64) -> f64 {
    (1.0 - a * spectrum.least())
        .abs()
        .max((1.0 - a * spectrum.largest()).abs())
}

/// The rounds after which at most `reduction` of a difference is left; `None` if that takes more
/// than `most`.
pub fn rounds(spectrum: &Spectrum, reduction: f64, most: usize) -> Option<usize> {
    let factor = factor(spectrum, weight(spectrum));
    let mut left = 1.0;
    (1..=most).find(|_| {
        left *= factor;
        left <= reduction
    })
}
