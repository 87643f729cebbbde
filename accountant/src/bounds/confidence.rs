//! Bounds on a chance from counts (Clopper and Pearson 1934): exact, whatever the chance is.

/// A lower bound on a chance of which `found` of `trials` came true: the largest for which so many
/// or more still had a probability of at most `alpha`, so that it is below the true one except with
/// that probability. 0 if nothing was found.
pub fn at_least(found: u64, trials: u64, alpha: f64) -> f64 {
    if found == 0 {
        return 0.0;
    }
    // P(Bin(n, p) ≥ k) = I_p(k, n − k + 1), which grows with p.
    let (low, _) = bracket(|p| incomplete_beta(p, found as f64, (trials - found) as f64 + 1.0) > alpha);
    low * (1.0 - ROUNDING)
}

/// An upper bound on a chance of which `found` of `trials` came true: the smallest for which so
/// many or fewer had a probability of at most `alpha`, so that it is above the true one except with
/// that probability. 1 if all were found.
pub fn at_most(found: u64, trials: u64, alpha: f64) -> f64 {
    if found >= trials {
        return 1.0;
    }
    // P(Bin(n, p) ≤ k) = 1 − I_p(k + 1, n − k).
    let (_, high) =
        bracket(|p| incomplete_beta(p, found as f64 + 1.0, (trials - found) as f64) > 1.0 - alpha);
    (high * (1.0 + ROUNDING)).min(1.0)
}

/// A bound on the relative error of the fraction and of ln Γ, up to 10⁹ trials: ln Γ there is
/// 2·10¹⁰ with 53 bits.
const ROUNDING: f64 = 1e-5;

/// Where a condition that is false at 0 and true at 1 turns, from both sides.
fn bracket(holds: impl Fn(f64) -> bool) -> (f64, f64) {
    let (mut low, mut high) = (0.0f64, 1.0f64);
    // Chances of 1e-9 to ten digits.
    for _ in 0..64 {
        let middle = low + (high - low) / 2.0;
        if holds(middle) {
            high = middle
        } else {
            low = middle
        }
    }
    (low, high)
}

/// The regularised incomplete beta function I_x(a, b), by its continued fraction (Lentz's method;
/// DLMF 8.17.22).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    // The fraction converges fast on this side of the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front =
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    let tiny = 1e-300;
    let nonzero = |value: f64| if value.abs() < tiny { tiny } else { value };
    let (mut c, mut d) = (1.0, 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..100_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for numerator in [even, odd] {
            d = 1.0 / nonzero(1.0 + numerator * d);
            c = nonzero(1.0 + numerator / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0f64).abs() < 1e-15 {
            break;
        }
    }
    libm::exp(front) * fraction / a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_in_ten_thousand() {
        // 1 − p̄ = α^(1/n).
        for (trials, alpha) in [(10_000u64, 1e-3f64), (10, 0.05), (1_000_000, 5e-4)] {
            let exact = -libm::expm1(libm::log(alpha) / trials as f64);
            let found = at_most(0, trials, alpha);
            assert!(
                found >= exact && found <= exact * (1.0 + 3.0 * ROUNDING),
                "{found} {exact}"
            );
            let found = at_least(trials, trials, alpha);
            assert!(found <= 1.0 - exact && found >= (1.0 - exact) * (1.0 - 3.0 * ROUNDING));
        }
        assert!((at_most(0, 10_000, 1e-3) - 6.905e-4).abs() < 1e-7);
        assert_eq!((at_least(0, 5, 0.1), at_most(5, 5, 0.1)), (0.0, 1.0));
    }

    #[test]
    fn bounds_are_where_the_binomial_sums_say() {
        // P(X ≤ 3) and P(X ≥ 3) of ten, summed term by term.
        let term = |k: i32, p: f64| {
            let choose = (0..k).fold(1.0, |product, i| product * f64::from(10 - i) / f64::from(i + 1));
            choose * p.powi(k) * (1.0 - p).powi(10 - k)
        };
        let (low, high) = (at_least(3, 10, 0.025), at_most(3, 10, 0.025));
        let at_or_above: f64 = (3..=10).map(|k| term(k, low)).sum();
        let at_or_below: f64 = (0..=3).map(|k| term(k, high)).sum();
        assert!(
            (at_or_above - 0.025).abs() < 1e-5 && at_or_above <= 0.025,
            "{at_or_above}"
        );
        assert!(
            (at_or_below - 0.025).abs() < 1e-5 && at_or_below <= 0.025,
            "{at_or_below}"
        );
    }

    #[test]
    fn large_counts_are_near_the_normal_interval() {
        let (found, trials, z) = (3_167u64, 1_000_000u64, 3.290_526_731_491_9);
        let (p, n) = (found as f64 / trials as f64, trials as f64);
        let half = z * (p * (1.0 - p) / n).sqrt();
        assert!((at_least(found, trials, 5e-4) - (p - half)).abs() < 0.05 * half);
        assert!((at_most(found, trials, 5e-4) - (p + half)).abs() < 0.05 * half);
    }
}
