//! Chebyshev's polynomial on [λ₂, λ_n]: about √(λ_n/λ₂) times fewer rounds than plain averaging.

use crate::averaging::spectrum::Spectrum;

/// Returns the remaining fraction of a difference after `rounds` rounds, at most: 1/T_K((λ_n +
/// λ₂)/(λ_n − λ₂)).
pub fn factor(spectrum: &Spectrum, rounds: usize) -> f64 {
    let (low, high) = (spectrum.least(), spectrum.largest());
    let middle = (high + low) / (high - low).max(f64::MIN_POSITIVE);
    // T_K by its recurrence: it only grows outside of [-1, 1].
    let (mut before, mut now) = (1.0, middle);
    for _ in 1..rounds {
        (before, now) = (now, 2.0 * middle * now - before);
        if now > 1e200 {
            return 0.0;
        }
    }
    1.0 / now
}

/// The roots of the polynomial of this degree on [λ₂, λ_n], in no useful order.
pub fn roots(spectrum: &Spectrum, rounds: usize) -> Vec<f64> {
    let (low, high) = (spectrum.least(), spectrum.largest());
    // The library's cosine, not the platform's: every node must find the same bits.
    let angle = |k: usize| std::f64::consts::PI * (2 * k + 1) as f64 / (2 * rounds) as f64;
    (0..rounds)
        .map(|k| 0.5 * (high + low) + 0.5 * (high - low) * libm::cos(angle(k)))
        .collect()
}
