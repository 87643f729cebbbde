//! Sealed finals that travel in slices: keepers, authors and hops that vanish or lie.

use super::*;
use crate::simulator::scenario::Purpose;

/// The settings of mechanisms whose finals travel in slices, with the rounds of each.
const MECHANISMS: [(&str, u32); 3] = [(SEALED, 3), (SEALED_PPSC, 14), (PAIRWISE, 4)];

const SPARSE: &str = "[topology]\npublic = { kind = \"random-regular\", degree = 4 }";

/// A plan of so many parties whose finals travel in slices, several of them.
fn sliced(parties: usize, lines: &str, rounds: u32) -> Arc<Plan> {
    let lines = lines.replace("sealed = true", "sealed = true\ndissemination = \"slices\"");
    let plan = plan_of(4000, parties, &lines, rounds);
    assert!(plan.slices().is_some_and(|slices| slices.count() >= 3));
    plan
}

#[test]
fn everybody_adds_up_slices_to_the_exact_sum() {
    for (lines, rounds) in MECHANISMS {
        for lines in [lines.to_string(), format!("{lines}\n{SPARSE}")] {
            everybody_holds_the_exact_sum(&sliced(8, &lines, rounds));
        }
    }
    let many = sliced(20, &format!("{PAIRWISE}\n{SPARSE}"), 10);
    let report = run(&many, 3, vec![]);
    assert_eq!(opened(&report, &others(&many, &[])), Some(others(&many, &[])));
}

#[test]
fn slices_send_less_than_a_flood() {
    let public = |plan: &Arc<Plan>| -> u64 {
        let report = run(plan, 1, vec![]);
        report.purposes[&Purpose::Finals]
    };
    let flood = |parties| plan_of(20_000, parties, PAIRWISE, parties as u32 / 2);
    let slices = |parties| {
        let lines = PAIRWISE.replace("sealed = true", "sealed = true\ndissemination = \"slices\"");
        plan_of(20_000, parties, &lines, parties as u32 / 2)
    };
    for (parties, most) in [(8, 0.6), (16, 0.3)] {
        let (flooded, sliced) = (public(&flood(parties)), public(&slices(parties)));
        let ratio = sliced as f64 / flooded as f64;
        println!("{parties} parties: {sliced} of {flooded} bytes");
        assert!(ratio < most, "{parties} parties: {ratio}");
    }
}

#[test]
fn who_vanishes_after_its_slices_have_left_is_in_the_mean() {
    for (lines, rounds) in MECHANISMS {
        let plan = sliced(8, lines, rounds);
        let counts = [true, false].map(|loud| kills_after_sealed(&plan, 12, loud));
        assert_eq!(counts, [12, 12], "{lines}");
    }
}

#[test]
fn whoever_vanishes_whenever_all_others_hold_one_exact_sum_of_slices_or_nothing_is_opened() {
    for (lines, rounds) in MECHANISMS {
        for lines in [lines.to_string(), format!("{lines}\n{SPARSE}")] {
            let plan = sliced(8, &lines, rounds);
            let means = kills_at_any_moment(&plan, 24, 1);
            assert!(means >= 23, "{means} of 24: {lines}");
        }
    }
    let two = "[privacy]\ndropouts = 2\n";
    let plan = sliced(10, &format!("{two}{PAIRWISE}"), 5);
    let means = kills_at_any_moment(&plan, 24, 2);
    assert!(means >= 23, "{means} of 24 with two");
}

#[test]
fn debug_kills() {
    let plan = sliced(8, SEALED, 3);
    for seed in 0..6 {
        let (started, _, finished) = milestones_of(&plan, seed);
        let mut rng = stream(seed, "kill", 2);
        let first = rng.random_range(0..plan.parties());
        let at = moment(&mut rng, started, finished);
        let fault = kill(first, at, rng.random_bool(0.5));
        println!("seed {seed}: {fault:?} of {started:?} to {finished:?}");
        let report = run(&plan, seed, vec![fault]);
        for party in others(&plan, &[first]) {
            let outcome = outcome(&report, party);
            println!("  {party}: {:?} {:?} sum {}", outcome.ending, outcome.included, outcome.sum.is_some());
        }
        for (at, party, event) in &report.events {
            if matches!(event, Event::Fault(_) | Event::Offence { .. } | Event::Phase(_) | Event::Sealed(_)) && *party == (first + 1) % 8 {
                println!("    {at:?} {party} {event:?}");
            }
        }
    }
}
