//! Sealed finals that travel in slices: keepers, authors and hops that vanish or lie.

mod liars;

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

/// START is passed on by others, and so an edge may come up after it. No clock has to run down for
/// the slices that go over it.
#[test]
fn slices_wait_for_an_edge_that_comes_up_after_start() {
    let plan = sliced(8, PAIRWISE, 4);
    let ended = |faults: Vec<Fault>| {
        let report = run(&plan, 4, faults);
        assert_eq!(opened(&report, &others(&plan, &[])), Some(others(&plan, &[])));
        report
            .finished_at
            .iter()
            .flatten()
            .max()
            .copied()
            .expect("they end")
    };
    let undisturbed = ended(vec![]);
    let late = Fault::Cut {
        network: Network::Public,
        ends: (0, 1),
        at: Time::ZERO,
        for_ms: undisturbed.as_millis() / 2,
    };
    let quarter = plan.draft().run.settle_ms / 4;
    let after = ended(vec![late]).as_millis() - undisturbed.as_millis();
    assert!(after < quarter / 2, "{after} ms later, a quarter is {quarter} ms");
}

#[test]
fn who_vanishes_after_its_slices_have_left_is_in_the_mean() {
    for (lines, rounds) in MECHANISMS {
        let plan = sliced(8, lines, rounds);
        let counts = [true, false].map(|loud| kills_after_sealed(&plan, 6, loud));
        assert_eq!(counts, [6, 6], "{lines}");
    }
}

#[test]
fn whoever_vanishes_whenever_all_others_hold_one_exact_sum_of_slices_or_nothing_is_opened() {
    for (lines, rounds) in MECHANISMS {
        for lines in [lines.to_string(), format!("{lines}\n{SPARSE}")] {
            let plan = sliced(8, &lines, rounds);
            let means = kills_at_any_moment(&plan, 8, 1);
            assert!(means >= 7, "{means} of 8: {lines}");
        }
    }
    let two = "[privacy]\ndropouts = 2\n";
    let plan = sliced(10, &format!("{two}{PAIRWISE}"), 5);
    let means = kills_at_any_moment(&plan, 8, 2);
    assert!(means >= 7, "{means} of 8 with two");
}

/// As the test before, more often, and with other numbers of parties. For a command of its own.
#[test]
#[ignore = "a soak of some minutes"]
fn soak_of_kills_while_slices_travel() {
    for (lines, rounds) in MECHANISMS {
        for parties in [6, 8, 12, 16, 30] {
            let rounds = if lines == PAIRWISE {
                parties as u32 / 2
            } else {
                rounds
            };
            for lines in [lines.to_string(), format!("{lines}\n{SPARSE}")] {
                let plan = sliced(parties, &lines, rounds);
                let means = kills_at_any_moment(&plan, 200, 1);
                println!("{parties} parties, {means} of 200 have a mean: {lines}");
                assert!(means >= 196, "{means} of 200, {parties} parties: {lines}");
            }
        }
    }
}
