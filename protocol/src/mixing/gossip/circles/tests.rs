use super::*;
use crate::messages::signature::Signature;

const ROUNDS: u32 = 7;

/// Party 0 with readers 1, 2 and 4, of whom 4 was not in the set before; a coordinate of one byte.
fn round() -> CircleRound {
    let frame = |byte: u8| Arc::from([byte; 2]);
    CircleRound::new(CircleStart {
        me: 0,
        ring: Ring::even(1).expect("a width"),
        dimension: 2,
        expected: BTreeSet::from([1, 2]),
        row: vec![(1, 100), (2, 200), (4, 400)],
        own: OwnTerm {
            steps: Zeroizing::new(vec![0, 0]),
            factor: 1000,
        },
        deal: Deal {
            commitments: vec![],
            letters: vec![],
        },
        frames: [(1, frame(1)), (2, frame(2))].into(),
        deadline: Time::from_millis(500),
    })
}

fn to_me(from: Party) -> ShareId {
    let (round, to) = (ROUNDS, 0);
    ShareId { round, from, to }
}

fn values(bytes: [u8; 2]) -> Bytes {
    Bytes::copy_from_slice(&bytes)
}

fn answer(verdict: Verdict) -> Answer {
    let signature = Signature([0; 64]);
    Answer { verdict, signature }
}

const ACCEPTED: Verdict = Verdict::Accepted { applied: LOGGED };

fn answered(to: Party) -> ShareId {
    let round = LOGGED;
    ShareId { round, from: 0, to }
}

fn log() -> Log {
    Log {
        party: 0,
        sent: vec![],
        received: vec![],
        unreachable: vec![],
        sealed: None,
    }
}

#[test]
fn nothing_is_taken_or_sent_once_the_log_is_made() {
    let mut round = round();
    assert_eq!(round.receive(1, to_me(1), values([3, 4])), Ok(true));
    assert!(round.due_to(1).is_some());
    let mut log = log();
    round.close(&mut log);
    assert_eq!(round.receive(2, to_me(2), values([5, 6])), Ok(false), "too late");
    assert_eq!(
        round.receive(1, to_me(1), values([9, 9])),
        Ok(true),
        "its answer may be lost"
    );
    assert!(round.due_to(1).is_none() && round.due_to(2).is_none());
    // The log and the sum say the same.
    let received: Vec<Party> = log.received.iter().map(|entry| entry.from).collect();
    assert_eq!(received, [1]);
    let sum = |members: &[Party]| round.sealed_sum(&members.iter().copied().collect());
    assert!(sum(&[0, 1, 2]).is_none(), "what came too late is lacking");
    let (of, sum) = sum(&[0, 1, 3]).expect("1 is here, and 3 is no neighbour");
    assert_eq!((of, sum.to_bytes()), (vec![1], vec![3, 4]), "the first that came");
}

#[test]
fn a_vector_is_taken_from_who_is_due_and_of_the_length_that_is_due() {
    let strays = [
        (1, ShareId { from: 2, ..to_me(1) }),
        (1, ShareId { to: 3, ..to_me(1) }),
        (3, to_me(3)),
        // In the plan's row, and not in the set before.
        (4, to_me(4)),
    ];
    for (from, id) in strays {
        let refused = round().receive(from, id, values([1, 1]));
        assert_eq!(refused, Err(CircleOffence::NotDue(id)));
    }
    for length in [0, 1, 3] {
        let refused = round().receive(1, to_me(1), Bytes::from(vec![1; length]));
        assert_eq!(refused, Err(CircleOffence::Shape), "{length} bytes");
    }
}

/// An answer counts once, if its author was sent a vector that has left, and it says accepted.
#[test]
fn an_answer_counts_of_who_was_sent_a_vector() {
    let accepted = || answer(ACCEPTED);
    let mut round = round();
    assert_eq!(
        round.answer(1, answered(1), accepted()),
        Err(CircleOffence::NotSent),
        "it has not left"
    );
    assert!(round.due_to(1).is_some() && round.due_to(2).is_some());
    assert!(round.due_to(1).is_some(), "again, while nobody has answered");
    for (from, id, said) in [
        (1, answered(2), accepted()),
        (
            1,
            ShareId {
                round: 2,
                ..answered(1)
            },
            accepted(),
        ),
        (1, answered(1), answer(Verdict::Refused)),
        (1, answered(1), answer(Verdict::Accepted { applied: 2 })),
        (4, answered(4), accepted()),
    ] {
        assert_eq!(
            round.answer(from, id, said),
            Err(CircleOffence::NotSent),
            "{id:?}"
        );
    }
    assert_eq!(round.answer(1, answered(1), accepted()), Ok(()));
    assert_eq!(round.answer(1, answered(1), accepted()), Ok(()), "said twice");
    assert!(round.due_to(1).is_none() && round.due_to(2).is_some());
    let mut log = log();
    round.close(&mut log);
    let sent: Vec<(Party, bool, bool)> = log
        .sent
        .iter()
        .map(|it| (it.to, it.left, it.answer.is_some()))
        .collect();
    assert_eq!(sent, [(1, true, true), (2, true, false), (4, false, false)]);
    assert_eq!(held(&log).answered, BTreeSet::from([1]));
}

#[test]
fn it_waits_for_vectors_and_answers_of_all_but_the_gone_until_its_deadline() {
    let nobody = |_: Party| false;
    let (before, at) = (Time::from_nanos(499_999_999), Time::from_millis(500));
    let mut round = round();
    assert_eq!(round.wake(), at);
    assert!(!round.is_quiet(before, nobody) && round.is_quiet(at, nobody));
    for peer in [1, 2] {
        assert!(round.is_owed_by(peer) && round.due_to(peer).is_some());
        assert_eq!(round.receive(peer, to_me(peer), values([0, 1])), Ok(true));
        assert!(
            !round.is_owed_by(peer) && !round.is_quiet(before, nobody),
            "no answer"
        );
        assert!(
            !round.is_quiet(before, |party| party == peer),
            "the other one is there"
        );
    }
    assert_eq!(round.answer(1, answered(1), answer(ACCEPTED)), Ok(()));
    assert!(round.is_quiet(before, |party| party == 2));
    assert_eq!(round.answer(2, answered(2), answer(ACCEPTED)), Ok(()));
    assert!(round.is_quiet(before, nobody));
    assert!(!round.is_owed_by(4), "who is not in the set before owes nothing");
}

#[test]
fn sums_and_weights_are_of_the_members_in_the_plans_row() {
    let mut round = round();
    for (peer, bytes) in [(1, [250, 1]), (2, [10, 2])] {
        assert_eq!(round.receive(peer, to_me(peer), values(bytes)), Ok(true));
    }
    for (members, of, sum, weight) in [
        (vec![0, 1, 2], vec![1, 2], [4, 3], 1300),
        (vec![0, 2, 7], vec![2], [10, 2], 1200),
        (vec![0], vec![], [0, 0], 1000),
    ] {
        let members = members.into_iter().collect();
        let (who, total) = round.sealed_sum(&members).expect("all are here");
        assert_eq!((who, total.to_bytes()), (of, sum.to_vec()));
        assert_eq!(round.weight_of(&members), weight);
    }
}
