//! Masks of pairs: what is corrected, what is told, and what a wrong mask does.

use super::*;
use crate::sealing::mask::MaskKey;

/// Just before this party holds every START: it has signed its own, and seals nothing.
fn before_sealing(plan: &Arc<Plan>, seed: u64, party: Party) -> Time {
    let report = simulate(plan, Conditions::new(seed));
    let begins =
        |(_, who, event): &&(Time, Party, Event)| *who == party && *event == Event::Phase(Phase::Mixing);
    let (at, ..) = report.events.iter().find(begins).expect("all begin");
    Time::from_nanos(at.as_nanos() - 1)
}

fn private_bytes(report: &Report) -> u64 {
    report.bytes.iter().map(|(private, _)| private).sum()
}

#[test]
fn nothing_travels_in_private() {
    let report = run(&plan(8, PAIRWISE, 4), 1, Vec::new());
    assert_eq!(private_bytes(&report), 0);
    let everybody: BTreeSet<Party> = (0..8).collect();
    assert_eq!(opened(&report, &everybody), Some(everybody));
}

/// With many parties each has masks with few others, who alone owe keys.
#[test]
fn of_many_only_the_neighbours_of_who_is_left_out_give_its_keys() {
    let plan = plan(40, PAIRWISE, 2);
    let graph = plan.mask_graph().expect("a graph");
    assert!((0..40).all(|party| graph.neighbours(party).len() == 3));
    let dead = 17;
    let report = run(&plan, 2, vec![kill(dead, before_sealing(&plan, 2, dead), true)]);
    let rest = others(&plan, &[dead]);
    assert_eq!(opened(&report, &rest), Some(rest.clone()));
}

/// A wrong mask of a member makes the sum a uniformly random vector. That shows, blames nobody, and
/// tells nothing.
#[test]
fn a_wrong_mask_makes_no_mean_and_blames_nobody() {
    let plan = plan_of(40, 8, PAIRWISE, 4);
    let mut wrong = inputs(&plan);
    let residues = wrong[5].residues_mut().expect("residues");
    MaskKey::once([7; 32]).add_to(residues).expect("short");
    let report = Simulation::new(plan.clone(), wrong, &class_gate, Conditions::new(3)).run();
    assert_eq!(report.violations, []);
    for party in 0..8 {
        let outcome = outcome(&report, party);
        assert_eq!(
            (&outcome.ending, outcome.sum.is_none()),
            (&Ending::Degraded, true)
        );
        assert_eq!(outcome.sealed, Some(SealedFinal::Opened));
    }
    let named = |(_, _, event): &&(Time, Party, Event)| matches!(event, Event::Offence { .. });
    assert_eq!(report.events.iter().find(named), None);
}

#[test]
fn a_correction_with_wrong_keys_makes_no_mean() {
    let plan = plan_of(40, 8, PAIRWISE, 4);
    let (liar, dead) = (4, 0);
    let at = before_sealing(&plan, 5, dead);
    let conditions = Conditions {
        equivocation: lies(liar, Stage::Correction(1), OtherVersion::Shifted),
        ..Conditions::new(5).with_faults(vec![kill(dead, at, true)])
    };
    let report = with_liar(&plan, conditions);
    for party in others(&plan, &[dead, liar]) {
        let outcome = outcome(&report, party);
        assert_eq!(outcome.included.len(), 7);
        assert_eq!(
            (&outcome.ending, outcome.sum.is_none()),
            (&Ending::Degraded, true)
        );
    }
}

#[test]
fn one_and_two_that_vanish_before_their_logs_are_taken_out() {
    let lines = format!("{PAIRWISE}\n[privacy]\ndropouts = 2");
    let plan = plan(9, &lines, 4);
    for dead in [&[3][..], &[3, 7]] {
        let faults = dead
            .iter()
            .map(|&party| kill(party, before_sealing(&plan, 5, party), true));
        let faults = faults.collect();
        let report = run(&plan, 5, faults);
        let rest = others(&plan, dead);
        assert_eq!(opened(&report, &rest), Some(rest.clone()));
    }
}
