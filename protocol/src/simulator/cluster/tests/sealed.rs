//! Sealed finals under kills, liars and partitions: what is opened, and what it costs.

mod holders;
mod pairwise;
mod slices;
mod waking;

use super::*;
use crate::run::outcome::SealedFinal;

/// Uniform noise and sealed finals.
pub(super) const SEALED: &str = "[run]\nsealed = true\n[mechanism]\ncorrelated = \"uniform\"";
pub(super) const SEALED_PPSC: &str =
    "[run]\nsealed = true\n[mechanism]\ncorrelated = \"uniform\"\nkind = \"ppsc\"";

/// Masks of pairs, which of 8 parties everybody has with everybody.
pub(super) const PAIRWISE: &str = "[run]\nsealed = true\n[mechanism]\nkind = \"pairwise\"";

/// When each party told that its sealed final has left, and when the first one finished, in a run
/// without faults of this seed.
fn windows(plan: &Arc<Plan>, seed: u64) -> (BTreeMap<Party, Time>, Time) {
    let (_, sealed, finished) = milestones_of(plan, seed);
    (sealed, finished)
}

/// When the last one had every START, and what [`windows`] says.
fn milestones_of(plan: &Arc<Plan>, seed: u64) -> (Time, BTreeMap<Party, Time>, Time) {
    let report = simulate(plan, Conditions::new(seed));
    let mixing =
        |(at, _, event): &(Time, Party, Event)| (*event == Event::Phase(Phase::Mixing)).then_some(*at);
    let started = report.events.iter().filter_map(mixing).max();
    let sealed = report.events.iter().filter_map(|(at, party, event)| match event {
        Event::Sealed(_) => Some((*party, *at)),
        _ => None,
    });
    let sealed = sealed.collect();
    let finished = report.finished_at.iter().flatten().min();
    let finished = *finished.expect("everybody finishes");
    (started.expect("all begin"), sealed, finished)
}

/// A moment from `from` to `to`.
fn moment(rng: &mut ChaCha8Rng, from: Time, to: Time) -> Time {
    let (from, to) = (from.as_nanos(), to.as_nanos());
    Time::from_nanos(rng.random_range(from..to.max(from + 1)))
}

fn kill(party: Party, at: Time, loud: bool) -> Fault {
    if loud {
        Fault::Crash { party, at }
    } else {
        Fault::Silence { party, at }
    }
}

fn run(plan: &Arc<Plan>, seed: u64, faults: Vec<Fault>) -> Report {
    let conditions = Conditions::new(seed).with_faults(faults);
    let report = Simulation::new(plan.clone(), inputs(plan), &class_gate, conditions).run();
    assert_eq!(report.violations, [], "seed {seed}");
    report
}

fn outcome(report: &Report, party: Party) -> &Outcome {
    report.outcomes[party].as_ref().expect("no violation of liveness")
}

/// The set whose exact sum all of these hold; `None` if none of them has a sum, and nothing was
/// opened. Anything between is a failure.
fn opened(report: &Report, these: &BTreeSet<Party>) -> Option<BTreeSet<Party>> {
    let sums: Vec<_> = these.iter().map(|&party| outcome(report, party)).collect();
    if sums.iter().all(|outcome| outcome.sum.is_none()) {
        assert!(!sums.iter().any(|it| it.sealed == Some(SealedFinal::Opened)));
        return None;
    }
    let included = sums[0].included.clone();
    let exact = report.sum_over(&included);
    for outcome in sums {
        assert_eq!((&outcome.included, outcome.agreed), (&included, true));
        assert_eq!(outcome.sum.as_ref().map(|sum| &sum.value), exact.as_ref());
        assert_eq!(outcome.sealed, Some(SealedFinal::Opened));
    }
    Some(included)
}

/// Kills one party at a random moment between its `sealed` event and the first result. In how many
/// of `runs` do all others hold the sum of everybody, and say that they are done?
fn kills_after_sealed(plan: &Arc<Plan>, runs: u64, loud: bool) -> u64 {
    let mut whole = 0;
    for seed in 0..runs {
        let (sealed, finished) = windows(plan, seed);
        let mut rng = stream(seed, "kill", 1);
        // Whoever sees everybody's final open first is never told that its own has left.
        let reported: Vec<Party> = sealed.keys().copied().collect();
        let party = reported[rng.random_range(0..reported.len())];
        let at = moment(&mut rng, sealed[&party], finished);
        let report = run(plan, seed, vec![kill(party, at, loud)]);
        let survivors = others(plan, &[party]);
        let all = opened(&report, &survivors).is_some_and(|set| set.len() == plan.parties());
        let done = |party: &Party| outcome(&report, *party).ending == Ending::Done;
        whole += u64::from(all && survivors.iter().all(done));
    }
    whole
}

#[test]
fn who_vanishes_after_its_sealed_final_has_left_is_in_the_mean() {
    for plan in [plan(8, SEALED, 3), plan(8, SEALED_PPSC, 14), plan(8, PAIRWISE, 4)] {
        let counts = [true, false].map(|loud| kills_after_sealed(&plan, 12, loud));
        assert_eq!(counts, [12, 12]);
    }
}

/// Kills so many parties at random moments from START on: before it nothing private leaves. In how
/// many of `runs` is there a mean? All others hold the same exact sum, or nothing was opened.
fn kills_at_any_moment(plan: &Arc<Plan>, runs: u64, kills: usize) -> u64 {
    let mut means = 0;
    for seed in 0..runs {
        let (started, _, finished) = milestones_of(plan, seed);
        let mut rng = stream(seed, "kill", 2);
        let first = rng.random_range(0..plan.parties());
        let dead: Vec<Party> = (0..kills).map(|kill| (first + kill) % plan.parties()).collect();
        let faults = dead.iter().map(|&party| {
            let at = moment(&mut rng, started, finished);
            kill(party, at, rng.random_bool(0.5))
        });
        let report = run(plan, seed, faults.collect());
        let set = opened(&report, &others(plan, &dead));
        means += u64::from(set.is_some());
    }
    means
}

#[test]
fn whoever_vanishes_whenever_all_others_hold_one_exact_sum_or_nothing_is_opened() {
    for plan in [plan(8, SEALED, 3), plan(8, PAIRWISE, 4)] {
        let means = kills_at_any_moment(&plan, 24, 1);
        assert!(means >= 23, "{means} of 24");
        let two = kills_at_any_moment(&plan, 24, 2);
        // Where nothing is mixed, logs leave with START.
        let most = if plan.mixes() { 23 } else { 24 };
        assert!(
            (1..=most).contains(&two),
            "two before their logs leave no mean: {two}"
        );
    }
}

/// `cargo test --release -p undertone-protocol --lib -- --ignored --nocapture sealed`
#[test]
#[ignore = "minutes; the figures of node/guide/performance.md"]
fn a_thousand_kills() {
    for (name, plan) in [("inca", plan(8, SEALED, 3)), ("pairwise", plan(8, PAIRWISE, 4))] {
        let after = [true, false].map(|loud| kills_after_sealed(&plan, 1000, loud));
        println!("{name}: after sealed, loud and silent: {after:?}");
        let any = [1, 2].map(|kills| kills_at_any_moment(&plan, 1000, kills));
        println!("{name}: one and two, any moment: {any:?} means");
    }
}

#[test]
fn who_vanishes_in_mixing_is_corrected_for_while_all_is_sealed() {
    for plan in [plan(8, SEALED, 3), plan(8, SEALED_PPSC, 14)] {
        assert_eq!(kills::kills(&plan, 15, true).0, 15);
        assert_eq!(kills::kills(&plan, 6, false).0, 6, "silently");
    }
}

#[test]
fn two_that_vanish_before_their_logs_leave_no_mean_and_cost_nothing() {
    let plan = plan(8, SEALED, 3);
    let (sealed, _) = windows(&plan, 1);
    let start = *sealed.values().min().expect("all seal");
    let mixing = Time::from_nanos(start.as_nanos() / 2);
    let report = run(&plan, 1, vec![kill(1, mixing, true), kill(5, mixing, true)]);
    let rest = others(&plan, &[1, 5]);
    assert_eq!(opened(&report, &rest), None);
    for &party in &rest {
        let outcome = outcome(&report, party);
        assert!(matches!(outcome.ending, Ending::Withheld { .. }));
        assert_eq!(outcome.sealed, Some(SealedFinal::Closed));
    }
}

/// One vanishes in mixing, another while the corrections of that are out: it is in the mean if it
/// has given its own, and else corrected for in turn.
#[test]
fn who_vanishes_while_corrections_are_out_is_in_the_mean_or_corrected_for_in_turn() {
    for (lines, rounds) in [(SEALED, 4), (PAIRWISE, 4)] {
        let lines = format!("{lines}\n[privacy]\ndropouts = 2");
        one_while_corrections_are_out(&plan(9, &lines, rounds));
    }
}

fn one_while_corrections_are_out(plan: &Arc<Plan>) {
    let mut sizes = BTreeMap::new();
    for seed in 0..16 {
        let (sealed, _) = windows(plan, seed);
        let start = *sealed.values().min().expect("all seal");
        let first = kill(0, Time::from_nanos(start.as_nanos() / 2), true);
        let one = run(plan, seed, vec![first.clone()]);
        let ends = *one.finished_at.iter().flatten().min().expect("it ends");
        let mut rng = stream(seed, "kill", 3);
        let second = rng.random_range(1..9);
        let has_left =
            |(_, party, event): &&(Time, Party, Event)| *party == second && matches!(event, Event::Sealed(_));
        let begins = one.events.iter().find(has_left).expect("it seals").0;
        let at = moment(&mut rng, begins, ends);
        let report = run(plan, seed, vec![first, kill(second, at, seed % 2 == 0)]);
        let set = opened(&report, &others(plan, &[0, second]));
        *sizes.entry(set.map_or(0, |set| set.len())).or_insert(0) += 1;
    }
    assert!(sizes.keys().all(|size| [7, 8].contains(size)), "{sizes:?}");
    assert_eq!(sizes.len(), 2, "{sizes:?}");
}

#[test]
fn who_is_cut_off_after_its_log_does_not_know_what_others_read() {
    let plan = plan(8, SEALED, 3);
    let (sealed, _) = windows(&plan, 4);
    let party = 2;
    let fault = Fault::Partition {
        group: BTreeSet::from([party]),
        at: sealed[&party],
        for_ms: 60_000,
    };
    let report = run(&plan, 4, vec![fault]);
    let rest = others(&plan, &[party]);
    assert_eq!(opened(&report, &rest).map(|set| set.len()), Some(8));
    assert!(
        rest.iter()
            .all(|&party| outcome(&report, party).opened_for == [2])
    );
    let alone = outcome(&report, party);
    assert!(matches!(alone.ending, Ending::Withheld { .. }), "{alone:?}");
    assert_eq!(
        (alone.sealed, alone.sum.is_none()),
        (Some(SealedFinal::Unknown), true)
    );
}

fn with_liar(plan: &Arc<Plan>, conditions: Conditions) -> Report {
    let report = Simulation::new(plan.clone(), inputs(plan), &class_gate, conditions).run();
    assert_eq!(report.violations, []);
    report
}

fn lies(party: Party, stage: Stage, version: OtherVersion) -> Option<Equivocation> {
    let fooled = (0..8).filter(|&other| other != party).collect();
    Some(Equivocation {
        party,
        stage,
        fooled,
        version,
    })
}

/// The liar's own machine knows nothing of its lie, and does not see that its log is agreed.
#[test]
fn letters_that_nobody_can_read_and_a_secret_that_is_kept_leave_no_mean_at_the_plans_cost() {
    let plan = plan(8, SEALED, 3);
    let liar = 3;
    let conditions = Conditions {
        equivocation: lies(liar, Stage::Settling, OtherVersion::Letters),
        ..Conditions::new(6)
    };
    let report = with_liar(&plan, conditions);
    let reported = report.events.iter().filter(|(_, _, event)| {
        let Event::Fault(text) = event else { return false };
        text.starts_with("party-3 dealt this node no share")
    });
    assert_eq!(reported.count(), 4, "each of its holders");
    let rest = others(&plan, &[liar]);
    assert_eq!(opened(&report, &rest), None);
    for &party in &rest {
        let outcome = outcome(&report, party);
        let lacking = outcome.unopened.iter().map(|it| (it.party, it.shares, it.needed));
        let lacking: Vec<_> = lacking.collect();
        assert_eq!(
            (&outcome.ending, &lacking[..]),
            (&Ending::Degraded, &[(3, 0, 3)][..])
        );
        assert_eq!(outcome.sealed, Some(SealedFinal::Unknown));
    }
}

#[test]
fn neither_silence_nor_wrong_shares_of_one_holder_keep_a_secret() {
    let plan = plan(8, SEALED, 3);
    for revealing in [Revealing::Nothing, Revealing::WrongShares] {
        for dead in 0..8 {
            let (sealed, finished) = windows(&plan, 7);
            let liar = (dead + 1) % 8;
            let conditions = Conditions {
                revealing: Some((liar, revealing)),
                ..Conditions::new(7)
            };
            let at = Time::from_nanos((sealed[&dead].as_nanos() + finished.as_nanos()) / 2);
            let faults = vec![kill(dead, at, true)];
            let report = with_liar(&plan, conditions.with_faults(faults));
            let rest = others(&plan, &[dead, liar]);
            assert_eq!(
                opened(&report, &rest).map(|set| set.len()),
                Some(8),
                "{revealing:?}"
            );
            let by_others = outcome(&report, *rest.first().expect("six")).opened_for.clone();
            assert_eq!(by_others.contains(&liar), revealing == Revealing::Nothing);
        }
    }
}

/// A correction with something else in it, such as a share between members of the set, or one that
/// is no difference to an earlier one: the sum is uniformly random, which shows.
#[test]
fn a_correction_of_something_else_makes_no_mean() {
    let plan = plan(8, SEALED, 3);
    let (liar, mut corrupted) = (4, 0);
    for seed in 0..6 {
        let (started, sealed, _) = milestones_of(&plan, seed);
        let first = sealed.values().min().expect("all seal").as_nanos();
        let mixing = Time::from_nanos((2 * started.as_nanos() + first) / 3);
        let conditions = Conditions {
            equivocation: lies(liar, Stage::Correction(1), OtherVersion::Shifted),
            ..Conditions::new(seed).with_faults(vec![kill(0, mixing, true)])
        };
        let report = with_liar(&plan, conditions);
        for party in others(&plan, &[0, liar]) {
            let outcome = outcome(&report, party);
            assert_eq!((outcome.included.len(), &outcome.ending), (7, &Ending::Degraded));
            assert_eq!(outcome.sealed, Some(SealedFinal::Opened));
            let exact = report.sum_over(&outcome.included);
            // The liar may owe none, and what it gives all the same is none.
            match &outcome.sum {
                Some(sum) => assert_eq!(Some(&sum.value), exact.as_ref()),
                None => corrupted += 1,
            }
        }
    }
    assert!(corrupted > 12, "{corrupted} of 36");
}

/// Once anything was told that opens something, whoever still owes a correction gives none, and is
/// in no set: a coalition could otherwise read what it has sealed as it was, and as it is.
#[test]
fn nobody_corrects_anything_after_a_secret_was_revealed() {
    let plan = plan(8, SEALED, 3);
    let liar = 6;
    let mut refused = 0;
    for seed in 0..12 {
        let (started, ..) = milestones_of(&plan, seed);
        let conditions = Conditions {
            revealing: Some((liar, Revealing::TooEarly)),
            ..Conditions::new(seed).with_faults(vec![kill(1, started, true)])
        };
        let report = with_liar(&plan, conditions);
        let rest = others(&plan, &[1, liar]);
        let set = opened(&report, &rest);
        let withheld = report.events.iter().filter_map(|(_, party, event)| match event {
            Event::Fault(text) if text.contains("have begun to open") => Some(*party),
            _ => None,
        });
        for party in withheld.filter(|party| *party != liar) {
            refused += 1;
            assert!(set.as_ref().is_none_or(|set| !set.contains(&party)));
            assert!(matches!(outcome(&report, party).ending, Ending::Withheld { .. }));
        }
    }
    assert!(refused > 0);
}
