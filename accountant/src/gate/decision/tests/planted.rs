//! Tests of the gate's decision on faults planted in the logs, to the share, the party and the last
//! digit of a budget.

use undertone_protocol::plan::claim::{Claim, Established, Faults};

use super::*;
use crate::audit::Attack;
use crate::execution::share::ShareFault;

/// Each fault of a share is read from the logs as what it was.
#[test]
fn the_execution_that_is_judged_has_the_fault_that_happened_and_no_other() {
    let plan = plan(5, FIVE);
    let setting = Setting::of_plan(&plan).expect("a plan");
    let whole = logs(&plan, &[0, 1, 2, 3, 4]);
    assert_eq!(gate(&plan, &whole).audit.execution.shares(), []);
    let mut looked_at = BTreeSet::new();
    for fault in faults::single_shares(&setting) {
        // What was left over is given back when all is settled, in the last round.
        let never_left = fault.fate == Fate::Returned && fault.applied == Some(fault.round);
        let applied = match fault.fate {
            Fate::Returned if !never_left => Some(plan.rounds()),
            _ => fault.applied,
        };
        let happened = ShareFault {
            applied,
            seen: !never_left,
            ..fault
        };
        let verdict = gate(&plan, &with_fault(&whole, &fault));
        assert_eq!(verdict.publish, Some((0..5).collect()), "{}", verdict.reason);
        assert_eq!(verdict.audit.execution.shares(), [happened]);
        looked_at.insert((fault.fate, never_left));
    }
    assert_eq!(looked_at.len(), 3, "late, never sent, never answered");
}

#[test]
fn a_loss_just_above_the_budget_is_too_much_and_one_just_below_is_not() {
    let plan = plan(5, FIVE);
    let logs = logs(&plan, &[0, 1, 2, 3, 4]);
    let everybody: BTreeSet<Party> = (0..5).collect();
    let mut gate = Gate::of(&plan).expect("a plan");
    let found = gate.largest(&logs, &everybody).expect("a loss").mu;
    gate.budget = found * (1.0 + 1e-6);
    let within = gate.judge(&logs).expect("logs of the schedule");
    assert_eq!(within.publish, Some(everybody.clone()));
    assert_eq!(within.audit.mu, found);
    gate.budget = found * (1.0 - 1e-6);
    let above = gate.judge(&logs).expect("logs of the schedule");
    assert_ne!(above.publish, Some(everybody));
}

/// Weights 2, 1, 1, 1, 0.5: a change of the first party's value moves the sum four times as far as
/// one of the last's.
const UNEVEN: &str = "weights = { party-0 = 2.0, party-4 = 0.5 }\n[mechanism]\nrounds = 4";

#[test]
fn the_party_with_the_largest_weight_sets_what_is_proved_and_is_attacked() {
    let plan = plan(5, UNEVEN);
    let of = |faults: Faults| -> &Claim {
        let mut claims = plan.calibration().claims.iter();
        let found = claims.find(|claim| claim.faults == faults && claim.established == Established::Theorem);
        found.expect("a theorem for each")
    };
    // Δ = 2 · 2 for the first party.
    let local = 4.0 / plan.calibration().independent_std;
    assert!((of(Faults::Any).mu / local - 1.0).abs() < 1e-9);
    let gate = Gate::of(&plan).expect("a plan");
    let before = |party: Party| gate.bound_before_publishing(party).expect("a bound");
    assert!((of(Faults::BeforePublishing).mu / before(0) - 1.0).abs() < 1e-9);
    assert!((before(0) / before(4) - 4.0).abs() < 1e-9 && (before(0) / before(1) - 2.0).abs() < 1e-9);
    assert!((withheld(&plan, "late").mu / before(0) - 1.0).abs() < 1e-9);
    let attack = Attack::of(&plan, 1).expect("a headline");
    assert!(attack.aims().iter().all(|aim| aim.victim() == 0));
}

#[test]
fn a_departed_partys_own_loss_is_stated_where_it_is_the_largest() {
    let plan = plan(5, UNEVEN);
    let members = [1, 2, 3, 4];
    let verdict = gate(&plan, &logs(&plan, &members));
    assert_eq!(
        verdict.publish,
        Some(members.into_iter().collect()),
        "{}",
        verdict.reason
    );
    let gate = Gate::of(&plan).expect("a plan");
    let own = gate.bound_before_publishing(0).expect("a bound");
    assert_eq!(verdict.audit.basis, Basis::BeforePublishing);
    assert_eq!(verdict.audit.mu, own);
    // Whoever stays loses less.
    assert!(accounted(&plan, &verdict.audit) < own * (1.0 - 1e-6));
    assert_audit(&plan, &verdict.audit);
}

#[test]
fn who_denies_a_share_that_it_signed_for_is_left_out_and_the_rest_publishes() {
    let plan = plan(8, "[mechanism]\nrounds = 4");
    let mut logs = logs(&plan, &[0, 1, 2, 3, 4, 5, 6, 7]);
    // All that was sent to party 3 was signed for, and its log has none of it.
    for log in logs.values_mut() {
        for entry in log.sent.iter_mut().filter(|entry| entry.to == 3) {
            entry.answer = Some(Answer {
                verdict: Answered::Accepted { applied: entry.round },
                signature: Signature([0; 64]),
            });
        }
    }
    let honest = gate(&plan, &logs);
    assert_eq!(honest.publish, Some((0..8).collect()), "{}", honest.reason);
    logs.get_mut(&3).expect("a member").received.clear();
    let verdict = gate(&plan, &logs);
    let others: BTreeSet<Party> = (0..8).filter(|&party| party != 3).collect();
    assert_eq!(verdict.publish, Some(others), "{}", verdict.reason);
    assert!(verdict.reason.contains("party-3 denied"), "{}", verdict.reason);
    assert!(
        verdict
            .audit
            .faults
            .iter()
            .any(|fault| fault.contains("party-3 was left out")),
        "{:?}",
        verdict.audit.faults
    );
    assert_audit(&plan, &verdict.audit);
    // Two liars are more than may depart.
    let entry = logs[&0].sent[0].clone();
    let (to, applied) = (entry.to, entry.round);
    logs.get_mut(&0).expect("a member").sent[0].answer = Some(Answer {
        verdict: Answered::Accepted { applied },
        signature: Signature([0; 64]),
    });
    let received = &mut logs.get_mut(&to).expect("a member").received;
    received.retain(|entry| (entry.round, entry.from) != (applied, 0));
    if to != 3 {
        let verdict = gate(&plan, &logs);
        assert_eq!(verdict.publish, None);
        assert!(verdict.reason.contains("denied"), "{}", verdict.reason);
    }
}

/// All, then all but one, then all but two: those with most faulted shares first, then in plan
/// order; nobody is left out below the fewest parties.
#[test]
fn sets_are_looked_at_in_an_order_that_everybody_finds() {
    let plan = plan(5, FIVE);
    let gate = Gate::of(&plan).expect("a plan");
    let mut logs = logs(&plan, &[0, 1, 2, 3, 4]);
    let astray = [(1, 3), (2, 3)];
    astray
        .iter()
        .for_each(|&(round, from)| unanswered(&plan, &mut logs, round, from));
    let mut faulted = [0; 5];
    for (round, from) in astray {
        faulted[from] += 1;
        faulted[plan.schedule().sends_to(round, from)[0]] += 1;
    }
    let mut order: Vec<Party> = (0..5).collect();
    order.sort_by_key(|&party| (5 - faulted[party], party));
    let everybody: BTreeSet<Party> = (0..5).collect();
    let without = |left_out: &[Party]| -> BTreeSet<Party> {
        everybody
            .iter()
            .copied()
            .filter(|party| !left_out.contains(party))
            .collect()
    };
    let ones: Vec<_> = order.iter().map(|&one| without(&[one])).collect();
    let twos = (0..5).flat_map(|a| (a + 1..5).map(move |b| (a, b)));
    let twos: Vec<_> = twos.map(|(a, b)| without(&[order[a], order[b]])).collect();
    let all = |least: usize| gate.sets(&logs, least).collect::<Vec<_>>();
    assert_eq!(all(5), std::slice::from_ref(&everybody));
    assert_eq!(all(4), [&[everybody.clone()][..], &ones].concat());
    assert_eq!(all(3), [&[everybody.clone()][..], &ones, &twos].concat());
}
