//! STARTs after the first: given up, and signed again without those who did not sign.

use super::*;

/// Longer than two silence limits, so that silence decides.
const PATIENT_MS: u64 = 60_000;
/// Two silence limits of a party with so few neighbours.
const PATIENCE_MS: u64 = 7000;

/// Party 0 of five, four of which suffice; all are ready, and it has signed START(0) over all at
/// 5 ms.
fn signed(numbers: u8) -> Bench {
    let mut bench = Bench::of(5);
    bench.flood = bench.flood.with_numbers(numbers);
    bench.machine.attendance.numbers = numbers;
    bench.machine.attendance.join_ms = PATIENT_MS;
    (1..5).for_each(|party| bench.ready(party));
    assert_eq!(bench.step(5), signs(&[0, 1, 2, 3, 4]));
    bench
}

fn numbered(number: u8, author: Party, parties: &[Party]) -> Notice {
    Notice::Start {
        number,
        incarnation: started(author as u8),
        seats: wire::set_hash(&Set::Seats(seats(parties))),
    }
}

fn gives_up(number: u8, author: Party) -> Notice {
    Notice::GiveUp {
        number,
        incarnation: started(author as u8),
        next: None,
    }
}

fn signs_next(number: u8, parties: &[Party]) -> Option<GatheringStep> {
    let (seats, notice) = (seats(parties), numbered(number, 0, parties));
    Some(GatheringStep::Start { seats, notice })
}

fn gave_up(number: u8, lacking: &[Party]) -> Option<GatheringStep> {
    let (notice, lacking) = (gives_up(number, 0), lacking.to_vec());
    Some(GatheringStep::GiveUp { notice, lacking })
}

impl Bench {
    /// A step, and the flood of the give-up that it may say.
    fn act(&mut self, ms: u64) -> Option<GatheringStep> {
        let step = self.step(ms);
        if let Some(GatheringStep::GiveUp { notice, .. }) = &step {
            self.own(notice.clone());
        }
        step
    }

    /// When silence decides about the START that was signed last.
    fn deadline(&self) -> u64 {
        let signed = self.machine.signed.as_ref().expect("it has signed");
        self.machine.signed_deadline(signed).as_millis()
    }

    fn hear_all(&mut self, number: u8, parties: &[Party], over: &[Party]) {
        for &party in parties {
            self.hear(party, numbered(number, party, over));
            self.flood.take_set(Set::Seats(seats(over))).expect("a set");
        }
    }
}

#[test]
fn silent_member_is_left_out_of_the_next_start() {
    let mut bench = signed(2);
    let all = [0, 1, 2, 3, 4];
    bench.hear_all(0, &[1, 2, 3], &all);
    assert_eq!(bench.act(10), None);
    assert_eq!(bench.deadline(), 10 + PATIENCE_MS);
    assert_eq!(bench.act(9 + PATIENCE_MS), None);
    assert_eq!(bench.act(10 + PATIENCE_MS), gave_up(0, &[4]));
    for party in 1..4 {
        assert_eq!(bench.act(8000), None, "others have not given up yet");
        bench.hear(party, gives_up(0, party));
    }
    assert_eq!(bench.act(8001), signs_next(1, &[0, 1, 2, 3]));
    bench.hear_all(1, &[1, 2, 3], &[0, 1, 2, 3]);
    let parties = (0..4).collect();
    let begins = GatheringStep::Begin {
        number: 1,
        parties,
        seed: None,
    };
    assert_eq!(bench.act(8002), Some(begins));
}

#[test]
fn each_start_of_a_member_renews_the_patience_and_a_give_up_does_not() {
    let mut bench = signed(2);
    let all = [0, 1, 2, 3, 4];
    bench.hear_all(0, &[1], &all);
    assert_eq!(bench.act(6000), None);
    bench.hear_all(0, &[2], &all);
    assert_eq!(bench.act(12_000), None);
    // The same words again are no news, and a node that waited longer for who gives up could begin
    // without it.
    bench.hear_all(0, &[1], &all);
    bench.hear(2, gives_up(0, 2));
    assert_eq!(bench.act(12_000 + PATIENCE_MS - 1), None);
    assert_eq!(bench.act(12_000 + PATIENCE_MS), gave_up(0, &[3, 4]));
    // However many come, a START has join_ms.
    let mut bench = signed(2);
    bench.machine.attendance.join_ms = 10_000;
    bench.hear_all(0, &[1], &all);
    assert_eq!(bench.act(6000), None);
    assert_eq!(bench.deadline(), 5 + 10_000);
}

#[test]
fn more_give_ups_than_colluders_are_followed_at_once() {
    let mut bench = signed(2);
    let all = [0, 1, 2, 3, 4];
    bench.hear(1, gives_up(0, 1));
    assert_eq!(bench.act(10), None, "one may be a liar");
    bench.hear_all(0, &[1, 2, 3, 4], &all);
    bench.hear(2, gives_up(0, 2));
    assert_eq!(
        bench.act(11),
        gave_up(0, &[]),
        "though all have signed: one of the two is honest, and never begins"
    );
    // A give-up of another start of a node counts for nothing.
    let mut bench = signed(2);
    bench.hear(1, gives_up(0, 1));
    let incarnation = started(9);
    bench.hear(
        2,
        Notice::GiveUp {
            number: 0,
            incarnation,
            next: None,
        },
    );
    assert_eq!(bench.act(10), None);
}

#[test]
fn node_that_has_given_up_never_begins_with_that_start() {
    let mut bench = signed(2);
    let all = [0, 1, 2, 3, 4];
    bench.hear_all(0, &[1, 2, 3], &all);
    assert_eq!(bench.act(10), None);
    assert_eq!(bench.act(10 + PATIENCE_MS), gave_up(0, &[4]));
    bench.hear_all(0, &[4], &all);
    for ms in [8000, 9000, 10 + 2 * PATIENCE_MS - 1] {
        assert_eq!(bench.act(ms), None);
    }
    let reason = Unstarted::NotCommon {
        silent: vec![],
        other: vec![],
        two: vec![],
        kept: vec![1, 2, 3, 4],
    };
    assert_eq!(
        bench.act(10 + 2 * PATIENCE_MS),
        Some(GatheringStep::Abort(reason)),
        "nobody else has given up: too few for the next"
    );
}

#[test]
fn members_that_never_give_up_are_waited_for_and_then_left_out() {
    let mut bench = signed(2);
    let all = [0, 1, 2, 3, 4];
    bench.hear_all(0, &[1, 2, 3, 4], &all);
    for party in 1..4 {
        bench.hear(party, gives_up(0, party));
    }
    assert_eq!(bench.act(10), gave_up(0, &[]));
    assert_eq!(bench.act(11), None, "party 4 has signed, and may have begun");
    assert_eq!(bench.deadline(), 10 + PATIENCE_MS);
    assert_eq!(bench.act(10 + PATIENCE_MS), signs_next(1, &[0, 1, 2, 3]));
}

#[test]
fn next_start_of_others_is_joined_after_giving_up_and_only_within_the_set() {
    let mut bench = signed(2);
    let all = [0, 1, 2, 3, 4];
    bench.hear_all(0, &[1, 2, 3], &all);
    bench.hear_all(1, &[1], &[0, 1, 2, 3]);
    assert_eq!(bench.act(10), None, "this node has not given up");
    bench.hear(1, gives_up(0, 1));
    bench.hear(2, gives_up(0, 2));
    assert_eq!(bench.act(11), gave_up(0, &[4]));
    assert_eq!(
        bench.act(12),
        None,
        "party 3 has not given up: it may have begun, or chooses its nonce last"
    );
    bench.hear(3, gives_up(0, 3));
    assert_eq!(bench.act(13), signs_next(1, &[0, 1, 2, 3]), "joined");
    // A START over somebody outside of the set before, or over too few, is none to join.
    for over in [&[0, 1, 2, 3, 5][..], &[0, 1, 2]] {
        let mut bench = Bench::of(6);
        bench.flood = bench.flood.with_numbers(2);
        (
            bench.machine.attendance.numbers,
            bench.machine.attendance.min_parties,
        ) = (2, 4);
        bench.machine.attendance.join_ms = PATIENT_MS;
        (1..6).for_each(|party| bench.ready(party));
        bench.hear_all(0, &[1], &all);
        assert_eq!(bench.step(5), signs(&all));
        bench.hear_all(1, &[1], over);
        bench.hear(1, gives_up(0, 1));
        bench.hear(2, gives_up(0, 2));
        assert!(matches!(bench.act(6), Some(GatheringStep::GiveUp { .. })));
        assert_eq!(bench.act(7), None, "{over:?}");
    }
}

#[test]
fn node_that_others_leave_out_ends_at_once_and_names_them() {
    let mut bench = signed(2);
    bench.hear_all(1, &[1, 2], &[1, 2, 3, 4]);
    assert_eq!(bench.act(10), None);
    bench.hear(1, gives_up(0, 1));
    bench.hear(2, gives_up(0, 2));
    assert_eq!(bench.act(11), gave_up(0, &[1, 2, 3, 4]));
    let left_out = Unstarted::LeftOut { by: vec![1, 2] };
    assert_eq!(bench.act(12), Some(GatheringStep::Abort(left_out)));
    // One alone may be a liar.
    let mut bench = Bench::of(5);
    (1..4).for_each(|party| bench.ready(party));
    bench.hear_all(0, &[1], &[1, 2, 3, 4]);
    assert_eq!(bench.act(10), None);
    bench.hear_all(0, &[2], &[1, 2, 3, 4]);
    let left_out = Unstarted::LeftOut { by: vec![1, 2] };
    assert_eq!(bench.act(11), Some(GatheringStep::Abort(left_out)));
}

#[test]
fn node_whose_start_cannot_begin_since_others_signed_one_without_it_ends_at_once() {
    for numbers in [1, 2] {
        let mut bench = signed(numbers);
        bench.hear_all(0, &[1], &[1, 2, 3, 4]);
        assert_eq!(bench.act(10), None, "one may be a liar");
        bench.hear_all(0, &[2], &[1, 2, 3, 4]);
        let left_out = Unstarted::LeftOut { by: vec![1, 2] };
        assert_eq!(bench.act(11), Some(GatheringStep::Abort(left_out)));
    }
    // Where enough are left, they go on without those two.
    let mut bench = Bench::of(6);
    bench.flood = bench.flood.with_numbers(3);
    let attendance = &mut bench.machine.attendance;
    (attendance.numbers, attendance.min_parties, attendance.join_ms) = (3, 4, PATIENT_MS);
    (1..6).for_each(|party| bench.ready(party));
    assert_eq!(bench.step(5), signs(&[0, 1, 2, 3, 4, 5]));
    bench.hear_all(0, &[1, 2], &[1, 2, 3, 4, 5]);
    assert_eq!(bench.act(10), None);
    bench.hear_all(0, &[3, 4, 5], &[0, 1, 2, 3, 4, 5]);
    assert_eq!(bench.act(11), None);
    assert_eq!(bench.act(11 + PATIENCE_MS), gave_up(0, &[1, 2]));
    (3..6).for_each(|party| bench.hear(party, gives_up(0, party)));
    assert_eq!(bench.act(8000), signs_next(1, &[0, 3, 4, 5]));
}

/// Party 0 of seven, six of which suffice, signs over all; to 3, 4 and 5 party 6 has said the READY
/// of another start.
fn split() -> Bench {
    let mut bench = Bench::of(7);
    bench.flood = bench.flood.with_numbers(2);
    let attendance = &mut bench.machine.attendance;
    (attendance.numbers, attendance.join_ms) = (2, PATIENT_MS);
    (1..7).for_each(|party| bench.ready(party));
    let all = [0, 1, 2, 3, 4, 5, 6];
    assert_eq!(bench.step(5), signs(&all));
    bench.hear_all(0, &[1, 2, 6], &all);
    bench
}

/// The seats of all seven, where party 6 started anew.
fn with_another_start() -> Vec<Seat> {
    let mut other = seats(&[0, 1, 2, 3, 4, 5, 6]);
    other[6].incarnation = started(16);
    other
}

#[test]
fn halves_that_signed_over_two_starts_of_a_party_go_on_together_without_it() {
    let mut bench = split();
    for party in 3..6 {
        bench.hear_start(party, &with_another_start());
    }
    assert_eq!(bench.act(10), None);
    assert_eq!(bench.act(10 + PATIENCE_MS), gave_up(0, &[3, 4, 5]));
    (1..7).for_each(|party| bench.hear(party, gives_up(0, party)));
    let deadline = 10 + 2 * PATIENCE_MS;
    // It would have those join who know it by this start, and nobody else.
    bench.hear_all(1, &[6], &[0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(bench.act(deadline - 1), None, "others may hear of more");
    assert_eq!(bench.act(deadline), signs_next(1, &[0, 1, 2, 3, 4, 5]));
}

#[test]
fn one_member_alone_has_nobody_left_out_by_naming_another_start_of_it() {
    let mut bench = split();
    bench.hear_start(3, &with_another_start());
    bench.hear_all(0, &[4], &[0, 1, 2, 3, 4, 5]);
    assert_eq!(bench.act(10), None);
    assert_eq!(bench.act(10 + PATIENCE_MS), gave_up(0, &[3, 4, 5]));
    for party in [1, 2, 3, 4, 6] {
        bench.hear(party, gives_up(0, party));
    }
    assert_eq!(
        bench.act(10 + 2 * PATIENCE_MS),
        signs_next(1, &[0, 1, 2, 3, 4, 6])
    );
}

#[test]
fn last_start_is_not_given_up_and_ends_the_run_at_its_deadline() {
    let mut bench = signed(1);
    let all = [0, 1, 2, 3, 4];
    bench.hear_all(0, &[1, 2, 3], &all);
    assert_eq!(bench.act(5 + PATIENT_MS - 1), None);
    let reason = Unstarted::NotCommon {
        silent: vec![4],
        other: vec![],
        two: vec![],
        kept: vec![],
    };
    assert_eq!(bench.act(5 + PATIENT_MS), Some(GatheringStep::Abort(reason)));
    // Notices of numbers that the plan does not have are not taken.
    for notice in [numbered(1, 1, &all), gives_up(0, 1)] {
        let signed = Signer::new(1, [1; 32], key(1), 999)
            .sign(Recipient::All, notice)
            .expect("signs");
        let frame = wire::notice_frame(&signed);
        assert!(bench.flood.receive(&frame, signed, true).is_err());
    }
}

/// A liar names itself in START(1) before it has committed to a nonce for it: whoever joined would
/// show its own nonce, and the liar could choose the seed.
#[test]
fn no_nonce_is_shown_to_a_member_that_has_not_committed_to_its_own() {
    let mut bench = drawing();
    bench.flood = bench.flood.with_numbers(2);
    bench.machine.attendance.numbers = 2;
    (1..4).for_each(|party| bench.hear(party, committed(party)));
    bench.act(5);
    (1..4).for_each(|party| {
        if party != 3 {
            bench.hear(party, reveal(party, &[0, 1, 2, 3], nonce(party)));
        }
    });
    let next = |party: Party| commitment::nonce(&nonce_secret(party), 1);
    let commits = |party: Party| Notice::GiveUp {
        number: 0,
        incarnation: started(party as u8),
        next: Some(commitment(&[1; 32], party, &next(party))),
    };
    assert!(matches!(
        bench.act(5 + JOIN_MS),
        Some(GatheringStep::GiveUp { .. })
    ));
    bench.hear(1, commits(1));
    // Party 2 has not given up. Its START(1) is over the commitments of the others alone.
    let known: Vec<_> = (0..2)
        .map(|party| (party, commitment(&[1; 32], party, &next(party))))
        .collect();
    let commitments = commitment::commitments(&[1; 32], known.iter().map(|(party, it)| (*party, it)));
    let over = seats(&[0, 1, 2]);
    bench.hear(
        2,
        Notice::Reveal {
            number: 1,
            incarnation: started(2),
            seats: wire::set_hash(&Set::Seats(over.clone())),
            commitments,
            nonce: [9; 32],
        },
    );
    bench.flood.take_set(Set::Seats(over)).expect("a set");
    assert_eq!(bench.act(6 + JOIN_MS), None);
}

/// To some it commits to one nonce of the next START, and to others to another one.
#[test]
fn member_that_gives_up_with_two_commitments_is_left_out_of_the_next_start() {
    let mut bench = drawing();
    bench.flood = bench.flood.with_numbers(3);
    bench.machine.attendance.numbers = 3;
    (1..4).for_each(|party| bench.hear(party, committed(party)));
    bench.act(5);
    for party in [1, 3] {
        bench.hear(party, reveal(party, &[0, 1, 2, 3], nonce(party)));
    }
    assert!(matches!(
        bench.act(5 + JOIN_MS),
        Some(GatheringStep::GiveUp { .. })
    ));
    let commits = |party: Party, byte: u8| Notice::GiveUp {
        number: 0,
        incarnation: started(party as u8),
        next: Some([byte; 32]),
    };
    for party in 1..4 {
        bench.hear(party, commits(party, party as u8));
    }
    let twice = bench.received(3, commits(3, 33));
    assert!(matches!(twice, Err(FloodError::Two { author: 3, .. })));
    let step = bench.act(5 + 2 * JOIN_MS);
    let Some(GatheringStep::Start { seats: named, .. }) = step else {
        panic!("{step:?}");
    };
    assert_eq!(named, seats(&[0, 1, 2]));
}

#[test]
fn next_draw_has_nonces_that_were_committed_to_when_the_last_one_was_given_up() {
    let mut bench = drawing();
    bench.flood = bench.flood.with_numbers(2);
    bench.machine.attendance.numbers = 2;
    (1..4).for_each(|party| bench.hear(party, committed(party)));
    bench.act(5);
    for party in [1, 2] {
        bench.hear(party, reveal(party, &[0, 1, 2, 3], nonce(party)));
    }
    // It reveals another nonce than it has committed to: nobody waits longer for it than for
    // others.
    bench.hear(3, reveal(3, &[0, 1, 2, 3], [0; 32]));
    let next = |party: Party| commitment::nonce(&nonce_secret(party), 1);
    let commits = |party: Party| Notice::GiveUp {
        number: 0,
        incarnation: started(party as u8),
        next: Some(commitment(&[1; 32], party, &next(party))),
    };
    let step = bench.act(5 + JOIN_MS);
    let (notice, lacking) = (commits(0), vec![3]);
    assert_eq!(step, Some(GatheringStep::GiveUp { notice, lacking }));
    (1..4).for_each(|party| bench.hear(party, commits(party)));
    let each: Vec<_> = (0..3)
        .map(|party| (party, commitment(&[1; 32], party, &next(party))))
        .collect();
    let commitments = commitment::commitments(&[1; 32], each.iter().map(|(party, it)| (*party, it)));
    let reveals = |author: Party| Notice::Reveal {
        number: 1,
        incarnation: started(author as u8),
        seats: wire::set_hash(&Set::Seats(seats(&[0, 1, 2]))),
        commitments,
        nonce: next(author),
    };
    let (seats, notice) = (seats(&[0, 1, 2]), reveals(0));
    assert_eq!(bench.act(2000), Some(GatheringStep::Start { seats, notice }));
    (1..3).for_each(|party| bench.hear(party, reveals(party)));
    let nonces: Vec<_> = (0..3).map(|party| (party, next(party))).collect();
    let seed = commitment::seed(&[1; 32], nonces.iter().map(|(party, nonce)| (*party, nonce)));
    let begins = GatheringStep::Begin {
        number: 1,
        parties: (0..3).collect(),
        seed: Some(seed),
    };
    assert_eq!(bench.act(2001), Some(begins));
    assert_ne!(next(0), nonce(0), "no nonce is used twice");
}
