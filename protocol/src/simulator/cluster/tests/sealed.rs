//! Sealed finals under kills, liars and partitions: what is opened, and what it costs.

use super::*;
use crate::run::outcome::SealedFinal;

/// When each party told that its sealed final has left, and when the first one finished, in a run
/// without faults of this seed.
fn windows(plan: &Arc<Plan>, seed: u64) -> (BTreeMap<Party, Time>, Time) {
    let report = simulate(plan, Conditions::new(seed));
    let sealed = report.events.iter().filter_map(|(at, party, event)| match event {
        Event::Sealed(_) => Some((*party, *at)),
        _ => None,
    });
    let sealed = sealed.collect();
    let finished = report.finished_at.iter().flatten().min();
    (sealed, *finished.expect("everybody finishes"))
}

/// Whether all of these hold the exact sum over `included`.
fn all_hold(report: &Report, these: &BTreeSet<Party>, included: &BTreeSet<Party>) -> bool {
    let exact = report.sum_over(included);
    these.iter().all(|&party| {
        report.outcomes[party].as_ref().is_some_and(|outcome| {
            outcome.agreed
                && outcome.included == *included
                && outcome.sum.as_ref().map(|sum| &sum.value) == exact.as_ref()
        })
    })
}

/// Kills one party at a random moment between its `sealed` event and the first result. In how many
/// of `runs` do all others hold the sum of all eight?
fn kills_after_sealed(plan: &Arc<Plan>, runs: u64, loud: bool) -> u64 {
    let everybody: BTreeSet<Party> = (0..plan.parties()).collect();
    let mut whole = 0;
    for seed in 0..runs {
        let (sealed, finished) = windows(plan, seed);
        let mut rng = stream(seed, "kill", 1);
        let party = rng.random_range(0..plan.parties());
        let window = sealed[&party].as_nanos()..finished.as_nanos().max(sealed[&party].as_nanos() + 1);
        let at = Time::from_nanos(rng.random_range(window));
        let fault = if loud {
            Fault::Crash { party, at }
        } else {
            Fault::Silence { party, at }
        };
        let report = simulate(plan, Conditions::new(seed).with_faults(vec![fault]));
        assert_eq!(report.violations, [], "seed {seed}");
        let survivors = others(plan, &[party]);
        let opened = all_hold(&report, &survivors, &everybody);
        whole += u64::from(opened);
        if opened {
            let ending = |party: &Party| report.outcomes[*party].as_ref().map(|it| it.ending.clone());
            assert!(survivors.iter().all(|it| ending(it) == Some(Ending::Done)));
        }
    }
    whole
}

#[test]
fn who_vanishes_after_its_sealed_final_has_left_is_in_the_mean() {
    for plan in [plan(8, SEALED, 3), plan(8, SEALED_PPSC, 14)] {
        let counts = [true, false].map(|loud| kills_after_sealed(&plan, 40, loud));
        assert_eq!(counts, [40, 40]);
    }
}
