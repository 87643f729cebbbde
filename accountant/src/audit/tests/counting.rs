//! The counts of an attack: of which runs they are, whose noise these have, and the threshold that
//! other runs have chosen.

use super::*;

/// Aims, pairs and noise of an attack that is counted again by hand.
fn attacks() -> [Plan; 4] {
    [plan(5, SMALL), uniform(""), training(SMALL), plan(6, GOSSIPED[0])]
}

/// The share of the variance of one vector that the other explains, as a correlation.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let count = one.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (a, b) = (mean(one), mean(other));
    let products = one.iter().zip(other).map(|(x, y)| (x - a) * (y - b));
    let square = |values: &[f64], centre: f64| values.iter().map(|x| (x - centre).powi(2)).sum::<f64>();
    products.sum::<f64>() / (square(one, a) * square(other, b)).sqrt()
}

/// The counts are of the pairs that were asked for, all of them after those that have chosen the
/// threshold, which are a quarter as many, over all aims.
#[test]
fn counts_are_of_runs_that_have_chosen_nothing() {
    for plan in attacks() {
        let attack = Attack::of(&plan, 1).expect("a headline");
        let aims = attack.aims().len() as u64;
        for (pairs, scale, seed) in [(3 * BATCH + 100, 1.0, 5), (40 * BATCH, 0.7, 6), (77, 1.5, 7)] {
            let mut heard = vec![];
            let attacked = attack
                .run(pairs, scale, seed, &mut |done, all| heard.push((done, all)))
                .expect("in range");
            let before = pairs.div_ceil(4 * aims).div_ceil(BATCH);
            let all = aims * before + pairs.div_ceil(BATCH);
            assert!(
                heard.iter().all(|&(done, of)| of == all && done <= all),
                "{heard:?}"
            );
            assert!(
                heard.is_sorted() && heard.last() == Some(&(all, all)),
                "{heard:?}"
            );
            let aim = &attack.aims()[attacked.aim];
            let above = |changed: bool| {
                let batches = (0..pairs.div_ceil(BATCH))
                    .flat_map(|batch| attack.ratios(aim, changed, (scale, seed), before + batch));
                let counted = batches.take(pairs as usize);
                counted.filter(|&ratio| ratio > attacked.threshold).count() as u64
            };
            assert_eq!((attacked.mistaken, attacked.found), (above(false), above(true)));
            assert_eq!((attacked.pairs, attacked.delta), (pairs, aim.claim().delta));
            let bound = lower_bound(attacked.found, attacked.mistaken, pairs, attacked.delta);
            assert_eq!(attacked.epsilon_lower, bound);
        }
    }
}

/// Runs that shared noise would count as many and tell as much as one.
#[test]
fn no_two_batches_share_noise() {
    for plan in attacks() {
        let attack = Attack::of(&plan, 1).expect("a headline");
        let aim = &attack.aims()[0];
        let batches = (0..4).flat_map(|batch| [(false, batch), (true, batch)]);
        let ratios = batches.map(|(changed, batch)| {
            let ratios = attack.ratios(aim, changed, (1.0, 3), batch);
            assert_eq!(ratios.len(), BATCH as usize);
            ((changed, batch), ratios)
        });
        let ratios: Vec<_> = ratios.collect();
        // Five standard errors.
        let most = 5.0 / (BATCH as f64).sqrt();
        for (at, (one, first)) in ratios.iter().enumerate() {
            for (other, second) in &ratios[at + 1..] {
                let found = correlation(first, second);
                assert!(found.abs() < most, "{one:?} and {other:?}: {found}");
            }
            // Nor do two runs of a batch.
            let found = correlation(&first[1..], &first[..first.len() - 1]);
            assert!(found.abs() < most, "{one:?}: {found}");
        }
        let other = attack.ratios(aim, false, (1.0, 4), 0);
        assert!(correlation(&ratios[0].1, &other).abs() < most, "another seed");
    }
}

/// All noise is scaled, and nothing else: with next to none each run says how far off the victim's
/// value is.
#[test]
fn the_scale_is_that_of_all_noise_and_of_nothing_else() {
    for plan in attacks() {
        let attack = Attack::of(&plan, 1).expect("a headline");
        let aim = &attack.aims()[0];
        let square = aim.claim().mu.powi(2);
        let spread = |scale: f64| {
            let ratios = attack.ratios(aim, true, (scale, 3), 0);
            let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
            let squares = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>();
            (mean, (squares / ratios.len() as f64).sqrt())
        };
        let ((mean, whole), (_, half)) = (spread(1e-3), spread(5e-4));
        // What is left of a share that came back is in the view, and not in the claim.
        assert!((mean / (square / 2.0) - 1.0).abs() < 0.05, "{mean} {square}");
        assert!((whole / half - 2.0).abs() < 0.1, "{whole} {half}");
    }
}

/// No threshold would promise much more of two Gaussians like those of the runs that choose it.
#[test]
fn the_threshold_is_the_one_that_promises_most() {
    let plan = plan(5, SMALL);
    let attack = Attack::of(&plan, 1).expect("a headline");
    let aim = &attack.aims()[0];
    for (mu, pairs) in [(0.4_f64, 10_000), (1.0, 100_000), (3.0, 1_000_000)] {
        let (low, high) = (-mu * mu / 2.0, mu * mu / 2.0);
        let runs = 5_000.0;
        let squares = |mean: f64| runs * (mu * mu + mean * mean);
        let sums = [runs, runs * low, runs * high, squares(low), squares(high)];
        let (expected, threshold) = aim.threshold(&sums, pairs);
        let promises = |threshold: f64| {
            let count = |mean: f64| {
                let chance = 0.5 * libm::erfc((threshold - mean) / mu / std::f64::consts::SQRT_2);
                (chance * pairs as f64) as u64
            };
            lower_bound(count(high), count(low), pairs, aim.claim().delta)
        };
        assert!(
            (promises(threshold) - expected).abs() < 1e-9 * expected,
            "{threshold}"
        );
        let best = (-200..=1200).map(|at| promises(low + mu * f64::from(at) / 200.0));
        let best = best.fold(0.0, f64::max);
        assert!(expected > 0.0 && expected > 0.99 * best, "{expected} of {best}");
        // Errors of both counts grow relatively: the best threshold is above the middle.
        assert!(threshold > 0.0, "{threshold}");
    }
}

/// The chances that are bounded are ordered: more found says more, more mistaken less, and as many
/// of both nothing.
#[test]
fn the_bound_grows_with_what_is_found_and_falls_with_what_is_mistaken() {
    let (pairs, delta) = (10_000, 1e-5);
    let bound = |found, mistaken| lower_bound(found, mistaken, pairs, delta);
    assert_eq!(bound(500, 500), 0.0);
    assert_eq!(bound(500, 5_000), 0.0);
    assert_eq!(bound(0, 0), 0.0);
    assert!(bound(5_000, 500) > bound(4_000, 500));
    assert!(bound(5_000, 500) > bound(5_000, 600));
    // So much is allowed anyway.
    assert_eq!(lower_bound(100, 0, pairs, 0.01), 0.0);
    assert!(lower_bound(200, 0, pairs, 0.01) > 0.0);
    // Not of the counts themselves: confidence costs something, and little of large counts.
    let plain = libm::log(5_000.0 / 500.0);
    assert!(bound(5_000, 500) < plain && bound(5_000, 500) > plain - 0.3);
}

/// Noise of up to half as much again is within every plan's head-room.
#[test]
fn the_largest_scale_is_allowed_and_no_larger() {
    assert_eq!(LARGEST_SCALE, 1.5);
    let plan = plan(4, SMALL);
    let attack = Attack::of(&plan, 1).expect("a headline");
    let run = |scale: f64| attack.run(10, scale, 0, &mut |_, _| {});
    assert!(run(LARGEST_SCALE).is_ok() && run(1e-3).is_ok());
    let above = LARGEST_SCALE.next_up();
    assert_eq!(run(above), Err(AuditError::Scale { found: above }));
    assert_eq!(run(-0.0), Err(AuditError::Scale { found: -0.0 }));
}
