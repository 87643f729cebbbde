//! Clocks that jump, and liars that are late or seal what is no body.

use super::sealed::SEALED;
use super::*;

const PARTIES: usize = 6;

fn has_sum(report: &Report, party: Party) -> bool {
    report.outcomes[party].as_ref().is_some_and(|it| it.sum.is_some())
}

#[test]
fn clock_that_jumps_past_every_deadline_ends_one_run_at_once_and_no_other() {
    let plan = plan(PARTIES, SEALED, 3);
    let (mixing, ..) = milestones(&plan);
    let at = Time::from_nanos(mixing);
    let by_ms = 3_600_000;
    let jump = Fault::ClockJump { party: 2, at, by_ms };
    let report = simulate(&plan, Conditions::new(0).with_faults(vec![jump]));
    assert_eq!(report.violations, []);
    for party in others(&plan, &[2]) {
        assert!(has_sum(&report, party), "party {party}");
    }
    let ended = report.finished_at[2].expect("it ends");
    assert!(
        ended < at.plus_millis(60_000),
        "by its own clock an hour later: {ended:?}"
    );
}

/// A liar that tells its secret late, or seals what is no body, costs nobody else the result.
#[test]
fn liar_with_a_late_key_is_in_the_sum_and_one_that_seals_no_body_is_not() {
    let plan = plan(PARTIES, SEALED, 3);
    let everybody = others(&plan, &[]);
    for liar in 0..PARTIES {
        let honest = others(&plan, &[liar]);
        let late = Conditions {
            revealing: Some((liar, Revealing::Late(5000))),
            ..Conditions::new(7)
        };
        let garbage = Conditions {
            equivocation: Some(Equivocation {
                party: liar,
                stage: Stage::Sealed,
                fooled: everybody.clone(),
                version: OtherVersion::Garbage,
            }),
            ..Conditions::new(7)
        };
        for (conditions, included) in [(late, &everybody), (garbage, &honest)] {
            let report = simulate(&plan, conditions);
            assert_eq!(report.violations, [], "{liar}");
            for &party in &honest {
                let outcome = report.outcomes[party].as_ref().expect("ends");
                assert!(outcome.sum.is_some(), "{liar}: party {party}: {outcome:?}");
                assert_eq!(&outcome.included, included, "{liar}: party {party}");
            }
        }
    }
}
