use std::collections::BTreeSet;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::class::claim_error::MOST_RATIO;
use crate::losses::loss::{Noise, largest, squared_losses};
use crate::losses::view::View;
use crate::testing::{random_faults, random_injection, random_out, shuffle};

/// What the fast paths may differ from the careful one, where the noises are of ordinary sizes.
const AGREED: f64 = 1e-9;

/// A run with all that can happen in one: rounds that are skipped, fan-outs that differ, shares
/// that are late, return or are lost, parties that are rolled back, finals that nobody sees.
fn run(random: &mut ChaCha8Rng) -> Execution {
    let (parties, rounds) = (random.random_range(3..=9), random.random_range(1..=6u32));
    let out = random_out(parties, rounds, random, |random| random.random_range(0..=2));
    let run = Execution::fault_free(random_injection(rounds as usize, random), out).expect("a schedule");
    let mut loose: Vec<Party> = (0..parties).collect();
    shuffle(&mut loose, random);
    loose.truncate(random.random_range(0..=2));
    let loose: BTreeSet<Party> = loose.into_iter().collect();
    let mut online = vec![vec![true; parties]];
    for _ in 0..rounds {
        online.push(
            (0..parties)
                .map(|party| random.random_bool(if loose.contains(&party) { 0.6 } else { 0.95 }))
                .collect(),
        );
    }
    let run = run.with_online(online).expect("rows of everybody");
    let shares = random_faults(&run, &loose, random);
    let rolled_back: Vec<Party> = if random.random_bool(0.5) {
        loose.iter().copied().collect()
    } else {
        vec![]
    };
    let published: Vec<Party> = (0..parties)
        .filter(|party| !rolled_back.contains(party) && (random.random_bool(0.9) || !loose.contains(party)))
        .collect();
    let run = run
        .with_shares(shares)
        .expect("faults of shares that were sent")
        .with_published([])
        .expect("nobody");
    run.with_rolled_back(rolled_back)
        .and_then(|run| run.with_published(published))
        .expect("sets of parties")
}

fn coalition(parties: usize, random: &mut ChaCha8Rng) -> Vec<Party> {
    let mut all: Vec<Party> = (0..parties).collect();
    shuffle(&mut all, random);
    all.truncate(random.random_range(0..parties));
    all.sort_unstable();
    all
}

/// Losses that are nothing but rounding count as none.
fn apart(fast: f64, careful: f64) -> f64 {
    if fast == careful {
        0.0
    } else {
        (fast - careful).abs() / careful.max(1e-9)
    }
}

#[test]
fn what_a_coalition_loses_is_what_its_view_loses() {
    let mut random = ChaCha8Rng::seed_from_u64(20_262);
    let (mut compared, mut doubtful, mut largest) = (0, 0, 0.0f64);
    for index in 0..400 {
        let run = run(&mut random);
        let rows = Rows::of(&Trace::of(&run, &vec![1.0; run.parties()]), &run);
        let ratio = libm::pow(10.0, random.random_range(-2.0..4.0));
        let noise = Noise {
            independent_std: 1.0,
            correlated_std: ratio.sqrt(),
        };
        let (few, all) = (rows.at(ratio, 1, 0), rows.with_all_pairs(ratio));
        for _ in 0..3 {
            let coalition = coalition(run.parties(), &mut random);
            let against = run
                .clone()
                .with_corrupted(coalition.iter().copied())
                .expect("parties");
            let careful = squared_losses(&View::of(&against), noise);
            for at in [&few, &all] {
                let Some(fast) = at.squared_losses(&coalition) else {
                    doubtful += 1;
                    continue;
                };
                assert_eq!(fast.len(), careful.len());
                for (party, (&fast, &careful)) in
                    rows.honest(&coalition).iter().zip(fast.iter().zip(&careful))
                {
                    let apart = apart(fast, careful);
                    assert!(
                        apart <= AGREED,
                        "run {index}, party {party}, ratio {ratio}: {fast} fast, {careful} with care\n{}",
                        serde_json::to_string(&against).expect("JSON")
                    );
                    // Theorem: no view costs more than Δ/σ*.
                    assert!(
                        (0.0..=1.0 + AGREED).contains(&fast),
                        "run {index}, party {party}: {fast}"
                    );
                    (compared, largest) = (compared + 1, largest.max(apart));
                }
            }
        }
    }
    println!("{compared} losses compared, {doubtful} views in doubt, largest difference {largest:e}");
    assert!(
        compared > 5_000 && doubtful * 3 < compared / 4,
        "{compared} compared, {doubtful} left to the careful way"
    );
}

#[test]
fn noises_as_far_apart_as_a_plan_may_have_them_are_never_understated() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let (mut trusted, mut doubtful) = (0, 0);
    for index in 0..120 {
        let run = run(&mut random);
        let rows = Rows::of(&Trace::of(&run, &vec![1.0; run.parties()]), &run);
        let coalition = coalition(run.parties(), &mut random);
        let against = run
            .clone()
            .with_corrupted(coalition.iter().copied())
            .expect("parties");
        let honest = rows.honest(&coalition);
        for ratio in [1e-300, 1e-12, 1e6, MOST_RATIO] {
            let careful = squared_losses(
                &View::of(&against),
                Noise {
                    independent_std: 1.0,
                    correlated_std: ratio.sqrt(),
                },
            );
            for at in [rows.at(ratio, 1, 0), rows.with_all_pairs(ratio)] {
                let Some(fast) = at.squared_losses(&coalition) else {
                    doubtful += 1;
                    continue;
                };
                trusted += 1;
                // An infinite loss is the careful way's doubt here: no view costs more than 1.
                for ((&party, &fast), &careful) in honest
                    .iter()
                    .zip(&fast)
                    .zip(&careful)
                    .filter(|pair| pair.1.is_finite())
                {
                    // What is not a number counts as infinite.
                    let fast = largest(&[party], &[fast], &vec![1.0; run.parties()]).0;
                    assert!(
                        fast >= careful * (1.0 - SCREENED) - 1e-12,
                        "run {index}, party {party}, ratio {ratio:e}: {fast} fast, {careful} with care\n{}",
                        serde_json::to_string(&against).expect("JSON")
                    );
                }
            }
        }
    }
    println!("{trusted} trusted, {doubtful} in doubt");
    assert!(
        trusted > 200 && doubtful > 50,
        "{trusted} trusted, {doubtful} in doubt: else this tests nothing"
    );
}
