//! Schedules that START draws: what is stated where the draw covers what happened, and what stops a
//! run.

use super::*;

const STATIC: &str = "[privacy]\ncoalitions = \"static\"\ncolluding = 2\ndropouts = 2\n\
                      [mechanism]\ncorrelated = \"uniform\"\n[run]\nsealed = true\n";

fn drawn() -> Plan {
    plan(24, STATIC).with_draw(77)
}

/// Two members whose share of this round goes to none of these.
fn senders(plan: &Plan, round: u32, not_to: &[Party]) -> Vec<Party> {
    let sends = |party: &Party| {
        let to = plan.schedule().sends_to(round, *party);
        to.first().is_some_and(|to| !not_to.contains(to))
    };
    (2..24).filter(sends).take(2).collect()
}

#[test]
fn what_happened_among_those_who_stay_is_stated_with_their_number() {
    let plan = drawn();
    let everybody: Vec<Party> = (0..24).collect();
    let whole = gate(&plan, &logs(&plan, &everybody));
    assert_eq!(whole.publish.map(|set| set.len()), Some(24));
    assert_eq!((whole.audit.basis, whole.audit.among), (Basis::Draw, Some(22)));
    let claimed = plan.epsilon_claimed().expect("a headline");
    let two = gate(&plan, &logs(&plan, &everybody[2..]));
    assert_eq!((two.audit.basis, two.audit.among), (Basis::Draw, Some(20)));
    assert!(whole.audit.epsilon < two.audit.epsilon && two.audit.epsilon <= claimed);
    assert_eq!(two.publish.map(|set| set.len()), Some(22));
    let three = gate(&plan, &logs(&plan, &everybody[3..]));
    assert_eq!(three.publish, None, "one more than the plan tolerates");
    assert_eq!(three.audit.epsilon, 0.0, "nothing was opened");
}

/// One share between members may go astray; with two, somebody is left out, if that is possible.
#[test]
fn more_shares_that_went_astray_than_the_draw_is_for_stop_a_run() {
    let plan = drawn();
    let members: Vec<Party> = (2..24).collect();
    let mut astray = logs(&plan, &members);
    let [one, other] = senders(&plan, 2, &[0, 1])[..] else {
        panic!("two")
    };
    unanswered(&plan, &mut astray, 2, one);
    let verdict = gate(&plan, &astray);
    assert_eq!(verdict.publish.map(|set| set.len()), Some(22));
    unanswered(&plan, &mut astray, 2, other);
    let verdict = gate(&plan, &astray);
    assert_eq!(verdict.publish, None, "nobody more may depart");
    let mut whole = logs(&plan, &(0..24).collect::<Vec<_>>());
    for from in senders(&plan, 2, &[]) {
        unanswered(&plan, &mut whole, 2, from);
    }
    let verdict = gate(&plan, &whole);
    assert_eq!(verdict.publish.map(|set| set.len()), Some(23), "one is left out");
}

/// Departures that were chosen by the schedule, all that met one party, part it from the others.
#[test]
fn departures_that_part_those_who_stay_stop_a_run() {
    let lines = STATIC.replace("colluding = 2\ndropouts = 2", "colluding = 0\ndropouts = 11");
    let lines = lines.replace("[run]", "rounds = 40\n[run]");
    let plan = plan(24, &lines);
    // Few rounds, that so many departures part: no plan has so few.
    let mut few = Gate::of(&plan).expect("a plan");
    let victim = 3;
    few.setting.out.truncate(4);
    let out = few.setting.out.clone();
    few.base = few
        .setting
        .fault_free()
        .expect("rounds")
        .with_sensitivity(vec![1.0; 24])
        .expect("24");
    let meets = |party: &Party| {
        out.iter()
            .any(|round| round[*party].contains(&victim) || round[victim].contains(party))
    };
    let contacts: Vec<Party> = (0..24).filter(meets).collect();
    assert!(contacts.len() <= 8);
    let publish: BTreeSet<Party> = (0..24).filter(|party| !contacts.contains(party)).collect();
    let none = AgreedLogs::new();
    let found = few.by_draw(&none, &publish).expect("sane");
    assert_eq!(found.basis, Basis::Theorem, "the victim is alone");
    let others: BTreeSet<Party> = (0..24)
        .filter(|&party| !(10..10 + contacts.len()).contains(&party))
        .collect();
    assert!(others.contains(&victim));
    let found = few.by_draw(&none, &others).expect("sane");
    assert_eq!((found.basis, found.among), (Basis::Draw, Some(others.len())));
}

/// A thousandth of δ is left to the draw: a noise that had all of δ would spend that twice.
#[test]
fn the_noise_of_a_drawn_plan_has_delta_without_the_draws_part() {
    use crate::gate::plan_facts::{budget_of_release, delta_of};
    use crate::losses::gaussian;
    let (drawn, fixed) = (plan(24, STATIC), plan(5, FIVE));
    let delta = drawn.draft().privacy.delta;
    assert!((delta_of(&drawn) / (0.999 * delta) - 1.0).abs() < 1e-12);
    assert_eq!(delta_of(&fixed), fixed.draft().privacy.delta);
    let of = |delta: f64| gaussian::mu(drawn.draft().privacy.epsilon, delta).expect("in range");
    let budget = budget_of_release(&drawn);
    assert!((budget / of(0.999 * delta) - 1.0).abs() < 1e-9);
    assert!(budget < of(delta) * (1.0 - 1e-6));
}

/// A draw is judged by who departed, and by which shares between those who stay went astray.
#[test]
fn a_draw_is_for_as_many_departures_as_the_plan_has_and_for_shares_among_those_who_stay() {
    let plan = drawn();
    let found = |logs: &AgreedLogs, publish: &[Party]| {
        let gate = Gate::of(&plan).expect("a plan");
        let publish = publish.iter().copied().collect();
        let found = gate.by_draw(logs, &publish).expect("sane");
        (found.basis, found.among)
    };
    for (departed, expected) in [(2, (Basis::Draw, Some(20))), (3, (Basis::Theorem, None))] {
        let members: Vec<Party> = (departed..24).collect();
        assert_eq!(
            found(&logs(&plan, &members), &members),
            expected,
            "{departed} departed"
        );
    }
    let everybody: Vec<Party> = (0..24).collect();
    let mut astray = logs(&plan, &everybody);
    let receiver = 5;
    for round in 1..=3 {
        let from = plan.schedule().receives_from(round, receiver)[0];
        unanswered(&plan, &mut astray, round, from);
    }
    assert_eq!(
        found(&astray, &everybody),
        (Basis::Theorem, None),
        "three of them"
    );
    let others: Vec<Party> = (0..24).filter(|party| *party != receiver).collect();
    assert_eq!(
        found(&astray, &others),
        (Basis::Draw, Some(21)),
        "none among the others"
    );
}
