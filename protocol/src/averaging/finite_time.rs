//! Exact in finite time: Π (1 − L/λ) over the different non-zero eigenvalues of the Laplacian is
//! the projection onto the mean.
//!
//! The order decides how rounding errors grow: each next root is the eigenvalue at which most is
//! left (Leja's order), so that no prefix of the product is large. The same order makes a good
//! polynomial of every prefix, which may be accurate enough before all roots are used.

use crate::averaging::spectrum::Spectrum;

/// The different eigenvalues in Leja's order, the largest first.
pub fn roots(spectrum: &Spectrum) -> Vec<f64> {
    order(spectrum.distinct())
}

/// Leja's order of any roots: the largest, then each time the one at which the product so far is
/// largest.
pub fn order(mut roots: Vec<f64>) -> Vec<f64> {
    // Logarithms, so that long products neither vanish nor overflow; equal roots stay −∞ and come
    // last.
    let mut left: Vec<f64> = roots.iter().map(|&root| root * 1e-300).collect();
    for at in 0..roots.len() {
        let best = (at..roots.len()).fold(at, |best, i| if left[i] > left[best] { i } else { best });
        roots.swap(at, best);
        left.swap(at, best);
        let taken = roots[at];
        for (root, left) in roots.iter().zip(&mut left).skip(at + 1) {
            *left += libm::log((1.0 - root / taken).abs());
        }
    }
    roots
}
