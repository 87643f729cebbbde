//! Quantiles and tails of the normal and the χ² distribution. Computed by `libm` alone, so that
//! figures are the same on every machine.

use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

/// The share of a normal distribution below `z`.
pub fn normal_below(z: f64) -> f64 {
    0.5 * libm::erfc(-z * FRAC_1_SQRT_2)
}

/// z for which |x| ≤ z holds with this chance in (0, 1): 1.96 for 0.95. By Newton's method on the
/// complementary error function, to the last digits.
pub fn normal_within(confidence: f64) -> f64 {
    // Where to begin: Abramowitz and Stegun 26.2.23, off by at most 4.5e-4.
    let tail = (1.0 - confidence) / 2.0;
    let t = (-2.0 * libm::log(tail)).sqrt();
    let above = 2.515517 + t * (0.802853 + t * 0.010328);
    let below = 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308));
    let mut z = t - above / below;
    for _ in 0..4 {
        let density = libm::exp(-z * z / 2.0) / (2.0 * PI).sqrt();
        z += (0.5 * libm::erfc(z / SQRT_2) - tail) / density;
    }
    z
}

/// The chance that a normal variate is at least as far from 0 as `z`.
pub fn two_sided(z: f64) -> f64 {
    libm::erfc(z.abs() * FRAC_1_SQRT_2)
}

/// The chance that a χ² variate of `degrees` degrees of freedom is at least `x`: the upper
/// incomplete gamma function Q(degrees/2, x/2), by its series below the mean and by its continued
/// fraction above it (Numerical Recipes, 6.2).
pub fn chi_square_above(x: f64, degrees: usize) -> f64 {
    let (a, x) = (degrees as f64 / 2.0, x / 2.0);
    if degrees == 0 || x <= 0.0 {
        return 1.0;
    }
    let scale = libm::exp(a * libm::log(x) - x - libm::lgamma(a));
    if x < a + 1.0 {
        let (mut term, mut sum, mut at) = (1.0 / a, 1.0 / a, a);
        for _ in 0..10_000 {
            at += 1.0;
            term *= x / at;
            sum += term;
            if term < sum * 1e-17 {
                break;
            }
        }
        return (1.0 - sum * scale).clamp(0.0, 1.0);
    }
    // Lentz's method.
    let tiny = 1e-300;
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1.0 / tiny, 1.0 / b);
    let mut fraction = d;
    for i in 1..10_000 {
        let an = -(i as f64) * (i as f64 - a);
        b += 2.0;
        let nonzero = |value: f64| if value.abs() < tiny { tiny } else { value };
        d = 1.0 / nonzero(an * d + b);
        c = nonzero(b + an / c);
        fraction *= d * c;
        if (d * c - 1.0).abs() < 1e-16 {
            break;
        }
    }
    (scale * fraction).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_tails_are_those_of_tables() {
        for (confidence, z) in [
            (0.5, 0.674489750196082),
            (0.9, 1.6448536269514722),
            (0.95, 1.959963984540054),
            (0.999999, 4.891638475698796),
        ] {
            assert!((normal_within(confidence) - z).abs() < 1e-9, "{confidence}");
            assert!((two_sided(z) - (1.0 - confidence)).abs() < 1e-12);
        }
        // R: pchisq(x, k, lower.tail = FALSE)
        for (x, degrees, p) in [
            (3.841458820694124, 1, 0.05),
            (5.991464547107979, 2, 0.05),
            (18.307038053275146, 10, 0.05),
            (0.5, 3, 0.9188914116546758),
        ] {
            let found = chi_square_above(x, degrees);
            assert!((found - p).abs() < 1e-10, "{x}, {degrees}: {found}");
        }
        assert_eq!(chi_square_above(0.0, 4), 1.0);
        assert!((normal_below(1.0) - 0.8413447460685429).abs() < 1e-14);
    }
}
