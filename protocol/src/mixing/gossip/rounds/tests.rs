use std::sync::Arc;

use super::*;
use crate::simulator::cluster::tests::{integers, plan};

const ROUNDS: u32 = 3;

fn stream() -> Arc<Plan> {
    let lines = "releases = 3\n[mechanism]\nsums = \"open\"\n[run]\nround_ms = 1000\npace_ms = 10\n";
    plan(4, lines, ROUNDS)
}

fn begun(plan: &Plan) -> GossipRounds {
    let mut rounds = GossipRounds::of(plan, 0, integers(plan, &[100, -100]));
    rounds.begin(Time::ZERO, std::iter::empty());
    rounds
}

const WHOLE: LatticeWeight = LatticeWeight(1 << 64);

fn id(round: u32, from: Party, to: Party) -> ShareId {
    ShareId { round, from, to }
}

fn values(plan: &Plan, steps: &[i128]) -> Bytes {
    let mut bytes = vec![0; steps.len() * plan.lattice().wire_bytes as usize];
    let vector = integers(plan, steps);
    plan.lattice()
        .write_share(&vector, ROUNDS, &mut bytes)
        .expect("within its bound");
    bytes.into()
}

#[test]
fn a_message_that_is_not_due_is_reported_and_changes_nothing() {
    let plan = stream();
    let mut rounds = begun(&plan);
    let good = values(&plan, &[8, 8]);
    for (round, from, to, said_by) in [
        (1, 2, 0, 1),
        (1, 1, 2, 1),
        (0, 1, 0, 1),
        (4, 1, 0, 1),
        (1, 0, 0, 0),
        (1, 9, 0, 9),
    ] {
        let refused = rounds.receive(said_by, id(round, from, to), WHOLE, good.clone());
        assert_eq!(refused, Err(GossipOffence::NotDue(id(round, from, to))));
    }
    for weight in [0, -1, (1 << 64) - 1, (1 << 64) + 1, i128::MIN] {
        let refused = rounds.receive(1, id(1, 1, 0), LatticeWeight(weight), good.clone());
        assert_eq!(refused, Err(GossipOffence::Weight { round: 1 }));
    }
    let bound = plan.lattice().share_bound(1);
    let over = plan.lattice().vector([bound + 1, 0].into_iter());
    let mut bytes = vec![0; 2 * plan.lattice().wire_bytes as usize];
    plan.lattice()
        .write_share(&over, ROUNDS, &mut bytes)
        .expect("fits a later round");
    let long = [&good[..], &[0]].concat();
    for bad in [
        Bytes::from(bytes.clone()),
        long.into(),
        good.slice(1..),
        Bytes::new(),
    ] {
        let refused = rounds.receive(1, id(1, 1, 0), WHOLE, bad);
        assert!(
            matches!(refused, Err(GossipOffence::Values { round: 1, .. })),
            "{refused:?}"
        );
    }
    // What is beyond the bound of round 1 is not of round 2.
    assert_eq!(rounds.receive(1, id(2, 1, 0), WHOLE, bytes.into()), Ok(()));
    assert!(rounds.waits_for().eq([1, 2, 3]), "nothing of round 1 has come");
    // The first of what is due counts, and no other.
    assert_eq!(
        rounds.receive(1, id(1, 1, 0), WHOLE, values(&plan, &[40, 0])),
        Ok(())
    );
    assert_eq!(
        rounds.receive(1, id(1, 1, 0), WHOLE, values(&plan, &[80, 0])),
        Ok(())
    );
    for party in [2, 3] {
        rounds
            .receive(party, id(1, party, 0), WHOLE, values(&plan, &[0, 0]))
            .expect("due");
    }
    assert_eq!(rounds.speak().map(|message| message.round), Some(1));
    assert!(!rounds.end_round(Time::from_millis(9)), "its pace");
    assert!(rounds.end_round(Time::from_millis(10)));
    let step = plan.lattice().step();
    assert_eq!(rounds.latest(), [35.0 * step, -25.0 * step]);
    // Of a round that is over nothing counts.
    assert_eq!(rounds.receive(2, id(1, 2, 0), WHOLE, good), Ok(()));
    assert!(rounds.missed().is_empty());
}

#[test]
fn a_round_without_anybody_keeps_what_there_is() {
    let plan = stream();
    let mut rounds = begun(&plan);
    assert_eq!(rounds.lacks_release(), None, "the first is here");
    rounds.speak().expect("round 1");
    assert!(rounds.speak().is_none(), "once");
    assert_eq!(rounds.wake(), Time::from_millis(1000));
    rounds.lost(1);
    assert!(rounds.waits_for().eq([2, 3]));
    assert!(rounds.end_round(Time::from_millis(1000)));
    let step = plan.lattice().step();
    assert_eq!(
        rounds.latest(),
        [100.0 * step, -100.0 * step],
        "divided by its weight"
    );
    assert_eq!(rounds.missed().len(), 3);
    // Nobody is waited for any more, until it is heard of.
    assert_eq!((rounds.lacks_release(), rounds.wake()), (Some(2), Time::FAR));
    rounds.contribute(integers(&plan, &[4, 4]));
    rounds.speak().expect("round 2");
    assert_eq!(rounds.wake(), Time::from_millis(20));
    rounds
        .receive(3, id(2, 3, 0), WHOLE, values(&plan, &[0, 0]))
        .expect("due");
    rounds
        .receive(2, id(3, 2, 0), WHOLE, values(&plan, &[0, 0]))
        .expect("due later");
    assert!(rounds.waits_for().eq([2]), "heard of again: waited for again");
    assert_eq!((rounds.spent(), rounds.done()), (2, 1));
}

#[test]
fn states_are_divided_by_any_weight() {
    for (steps, weight, expected) in [
        (100, 1i128 << 63, 200),
        (-100, 1 << 62, -400),
        (1, 3 << 62, 1),
        (-1, 3 << 62, -1),
        (3, 3 << 62, 4),
        (i128::from(i64::MAX), 1 << 48, i128::from(i64::MAX) << 16),
        (i128::from(i64::MIN), 1 << 50, i128::from(i64::MIN) << 14),
    ] {
        assert_eq!(divided(steps, weight), expected, "{steps} {weight}");
    }
}
