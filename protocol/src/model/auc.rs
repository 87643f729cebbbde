//! The area under the curve of true over false positives.

/// The chance that a random positive scores above a random negative, one half where they tie: the
/// mean rank of the positives (Mann and Whitney 1947). `None` where one of the two kinds is
/// missing. Scores that are no numbers are above all others, by [`f64::total_cmp`].
pub fn area_under_curve(scored: impl IntoIterator<Item = (f64, bool)>) -> Option<f64> {
    let mut scored: Vec<(f64, bool)> = scored.into_iter().collect();
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    let positives = scored.iter().filter(|(_, positive)| *positive).count() as f64;
    let negatives = scored.len() as f64 - positives;
    let (mut below, mut pairs) = (0.0, 0.0);
    for tied in scored.chunk_by(|a, b| a.0 == b.0) {
        let here = tied.iter().filter(|(_, positive)| *positive).count() as f64;
        let others = tied.len() as f64 - here;
        pairs += here * (below + others / 2.0);
        below += others;
    }
    (positives > 0.0 && negatives > 0.0).then(|| pairs / (positives * negatives))
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn it_is_the_share_of_pairs_in_the_right_order() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for _ in 0..50 {
            // Few values, so that many tie.
            let scored: Vec<(f64, bool)> = (0..40)
                .map(|_| (f64::from(rng.random_range(-4i32..5)), rng.random_bool(0.3)))
                .collect();
            let of = |kind| scored.iter().filter(move |(_, positive)| *positive == kind);
            let mut right = 0.0;
            for (positive, _) in of(true) {
                for (negative, _) in of(false) {
                    right += match positive.total_cmp(negative) {
                        std::cmp::Ordering::Greater => 1.0,
                        std::cmp::Ordering::Equal => 0.5,
                        std::cmp::Ordering::Less => 0.0,
                    };
                }
            }
            let share = right / (of(true).count() * of(false).count()) as f64;
            let found = area_under_curve(scored.iter().copied()).expect("both kinds");
            assert!((found - share).abs() < 1e-12, "{found}, {share}");
        }
        assert_eq!(area_under_curve([(1.0, true), (2.0, true)]), None);
        assert_eq!(area_under_curve([]), None);
        assert!(area_under_curve([(f64::NAN, true), (0.0, false)]).is_some());
    }
}
