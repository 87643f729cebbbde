//! Many releases under one budget.
//!
//! Each release may be chosen after all earlier ones were seen: losses of Gaussian releases add up
//! in squares all the same (Dong, Roth, Su 2022, Corollary 3.3, for adaptive releases; Smith,
//! Thakurta 2022, for losses that are bounded along every path).

use undertone_protocol::plan::draft::Draft;

use super::gaussian::{GaussianError, SLACK, mu};

/// The share of the squared budget that is not given to any release, so that rounding of a sum of
/// squares never exceeds it. Our choice.
const LEFT: f64 = 1e-6;

/// The loss that each of `releases` may have, so that all of them together stay within a loss of
/// `total`: √((1 − 10⁻⁶)/K)·μ. A single release may have all of it.
pub fn each(total: f64, releases: u64) -> f64 {
    match releases {
        0 | 1 => total,
        releases => total * ((1.0 - LEFT) / releases as f64).sqrt(),
    }
}

/// [`each`], where a release whose shares have left costs `before_over_published` of its loss even
/// if it is withheld: only the last one can be.
pub fn each_with_shares(total: f64, releases: u64, before_over_published: f64) -> f64 {
    let last = (before_over_published * before_over_published).max(1.0);
    let count = releases.saturating_sub(1) as f64 + last;
    total * ((1.0 - LEFT) / count).sqrt()
}

/// The loss of releases of which so many have this one each; never below the true one.
pub fn together(loss: f64, releases: u64) -> f64 {
    match releases {
        0 => 0.0,
        1 => loss,
        releases => loss * (releases as f64).sqrt() * (1.0 + SLACK),
    }
}

/// The loss that one release of a draft may have: of a training each iteration's; of a stream of
/// which one release may change, all of it.
///
/// # Errors
/// The draft's ε or δ is out of range.
pub fn budget(draft: &Draft) -> Result<f64, GaussianError> {
    let privacy = &draft.privacy;
    Ok(each(
        mu(privacy.epsilon, privacy.delta)?,
        draft.protected_releases(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_releases_together_stay_within_the_budget() {
        for releases in [1, 2, 3, 50, 307, 10_000] {
            let loss = each(0.7, releases);
            assert!(together(loss, releases) <= 0.7);
            assert!(together(loss, releases) >= 0.7 * (1.0 - 1e-6));
        }
        assert_eq!(together(0.3, 0), 0.0);
    }

    #[test]
    fn what_is_withheld_after_its_shares_left_costs_too() {
        let loss = each_with_shares(0.7, 20, 2.5);
        let all = (19.0 * loss * loss + (2.5 * loss).powi(2)).sqrt();
        assert!(all <= 0.7 && all > 0.7 * (1.0 - 1e-6));
        assert!((each_with_shares(0.7, 20, 0.5) - each(0.7, 20)).abs() < 1e-15);
    }
}
