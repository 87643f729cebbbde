//! Edges on which frames vanish, or are late, while nothing closes.

use super::*;

/// Both directions of an edge, on both graphs or on one, from a moment on.
fn black_hole(network: Option<Network>, (a, b): (Party, Party), at: Time, for_ms: u64) -> Vec<Fault> {
    let hole = |(from, to)| Fault::BlackHole {
        network,
        from,
        to,
        at,
        for_ms,
    };
    [(a, b), (b, a)].map(hole).to_vec()
}

#[test]
fn what_vanished_in_a_black_hole_arrives_once_it_is_gone() {
    let plan = plan(6, SEALED, 3);
    let at = Time::from_millis(1);
    for for_ms in [0, 150, 1_000] {
        let faults = black_hole(None, (0, 1), at, for_ms);
        let report = simulate(&plan, Conditions::new(1).with_faults(faults));
        assert_eq!(report.violations, []);
        for (outcome, finished) in report.outcomes.iter().zip(&report.finished_at) {
            let outcome = outcome.as_ref().expect("everybody finishes");
            assert_eq!((&outcome.ending, outcome.included.len()), (&Ending::Done, 6));
            // A share on that edge is waited for.
            let waited = *finished > Some(Time::from_millis(for_ms));
            assert!(waited, "{for_ms} ms of darkness");
        }
    }
}

#[test]
fn segments_that_are_lost_delay_what_is_behind_them() {
    let plan = plan(6, SEALED, 3);
    let report = |share| {
        let loss = Fault::Loss {
            from: None,
            to: 2,
            share,
            at: Time::ZERO,
            for_ms: u64::MAX,
        };
        let report = simulate(&plan, Conditions::new(3).with_faults(vec![loss]));
        assert_eq!(report.violations, [], "{share}");
        report.finished_at.into_iter().flatten().max()
    };
    let without = report(0.0);
    assert!(without < Some(Time::from_millis(100)));
    assert!(report(0.2) > Some(Time::from_millis(200)));
}
