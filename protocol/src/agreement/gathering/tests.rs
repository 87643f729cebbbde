use std::sync::Arc;

use libp2p_identity::Keypair;

use super::*;
use crate::agreement::agreeing::Electorate;
use crate::agreement::flood::slot::Slot;
use crate::agreement::flood::{FloodError, Receipt};
use crate::messages::commitment::Nonce;
use crate::messages::notice::{Network, Recipient};
use crate::messages::set::Set;
use crate::messages::signing::{Members, Signer};
use crate::messages::testing::{ready, run_key, started};
use crate::messages::wire;
use crate::topology::graph::Graph;

const JOIN_MS: u64 = 1000;
const GRACE_MS: u64 = 100;

fn key(party: Party) -> Keypair {
    Keypair::ed25519_from_bytes([party as u8 + 1; 32]).expect("32 bytes")
}

/// Party 0 of so many, all but one of which suffice, and all connected.
fn machine(parties: usize, draw: Option<Draw>) -> Gathering {
    let me = Entrant {
        party: 0,
        key: run_key(0),
        pair: None,
        records: None,
    };
    let attendance = Attendance {
        parties,
        min_parties: parties - 1,
        join_ms: JOIN_MS,
        grace_ms: GRACE_MS,
        colluding: 1,
        numbers: 1,
    };
    let electorate = Electorate {
        me: 0,
        parties,
        colluding: 1,
        quorum: parties,
        min_parties: 0,
        private: Arc::new(Graph::complete(parties)),
        public: Arc::new(Graph::complete(parties)),
    };
    let mut presence = Presence::new(electorate);
    (1..parties).for_each(|peer| presence.connected(Network::Public, peer, Time::ZERO));
    Gathering::new(me, attendance, presence, Time::ZERO, draw)
}

struct Bench {
    flood: Flood,
    machine: Gathering,
    said: u64,
}

impl Bench {
    fn new() -> Self {
        Bench::of(4)
    }

    /// A machine among so many that has flooded its own READY.
    fn of(parties: usize) -> Self {
        let members = Members::new([1; 32], (0..parties).map(|party| key(party).public()).collect());
        let mut bench = Bench {
            flood: Flood::new(0, members),
            machine: machine(parties, None),
            said: 0,
        };
        bench.own(ready(0));
        bench
    }

    fn own(&mut self, notice: Notice) {
        let signed = Signer::new(0, [1; 32], key(0), 0)
            .sign(Recipient::All, notice)
            .expect("signs");
        self.flood.publish(signed);
    }

    fn hear(&mut self, party: Party, notice: Notice) {
        let slot = Slot::of(party, &notice);
        self.received(party, notice).expect("good");
        let said = self
            .flood
            .ready(party)
            .filter(|_| slot == Some(Slot::Ready(party)));
        self.machine.presence.heard(party, Time::ZERO, said);
    }

    fn received(&mut self, party: Party, notice: Notice) -> Result<Receipt, FloodError> {
        let epoch = self.said;
        self.said += 1;
        let signed = Signer::new(party, [1; 32], key(party), epoch)
            .sign(Recipient::All, notice)
            .expect("signs");
        let frame: Arc<[u8]> = wire::notice_frame(&signed);
        self.flood.receive(&frame, signed, self.machine.has_signed())
    }

    /// A party's START over these, and the set that it names.
    fn hear_start(&mut self, party: Party, seats: &[Seat]) {
        self.hear(party, start_of(party, seats));
        self.flood.take_set(Set::Seats(seats.to_vec())).expect("a set");
    }

    fn without(&self, ms: u64) -> Vec<(Party, Standing)> {
        self.machine.without(&self.flood, Time::from_millis(ms))
    }

    fn ready(&mut self, party: Party) {
        self.hear(party, ready(party as u8));
    }

    /// Returns the step that the machine takes at this moment. A machine that does nothing has a
    /// later moment to wake up at: who wakes up at once again never rests.
    fn step(&mut self, ms: u64) -> Option<GatheringStep> {
        let reported = |step: &Option<GatheringStep>| {
            matches!(step, Some(GatheringStep::Pulse | GatheringStep::Await(_)))
        };
        let mut step = self.machine.step(Time::from_millis(ms), &self.flood);
        while reported(&step) {
            step = self.machine.step(Time::from_millis(ms), &self.flood);
        }
        if step == Some(GatheringStep::Reveal) {
            // It waits to be counted, and nothing is said until then.
            let again = self.machine.step(Time::from_millis(ms), &self.flood);
            assert!(again.is_none_or(|step| matches!(step, GatheringStep::Await(_) | GatheringStep::Pulse)));
            assert!(self.machine.is_revealing());
            step = self.machine.revealed();
            assert!(!self.machine.is_revealing() && self.machine.withdrawal().is_none());
            assert_eq!(self.machine.revealed(), None, "it is said once");
        }
        match &step {
            Some(GatheringStep::Say(notice)) => self.own(notice.clone()),
            Some(GatheringStep::Start { seats, notice }) => {
                self.flood.keep_set(Set::Seats(seats.clone()));
                self.own(notice.clone());
            }
            Some(_) => {}
            None => assert!(self.wake(ms) > ms, "it wakes up at {ms} ms again"),
        }
        step
    }

    /// When it wakes up next if nothing happens, in whole milliseconds.
    fn wake(&self, ms: u64) -> u64 {
        self.machine.wake(Time::from_millis(ms)).as_millis()
    }
}

fn seats(parties: &[Party]) -> Vec<Seat> {
    let seat = |&party: &Party| Seat {
        party,
        incarnation: started(party as u8),
    };
    parties.iter().map(seat).collect()
}

/// The START of a party over these.
fn start_of(author: Party, seats: &[Seat]) -> Notice {
    Notice::Start {
        number: 0,
        incarnation: started(author as u8),
        seats: wire::set_hash(&Set::Seats(seats.to_vec())),
    }
}

/// Party 0 signs START over these.
fn signs(parties: &[Party]) -> Option<GatheringStep> {
    let seats = seats(parties);
    let notice = start_of(0, &seats);
    Some(GatheringStep::Start { seats, notice })
}

#[test]
fn everybody_ready_starts_at_once_and_begins_when_all_say_so() {
    let mut bench = Bench::new();
    (1..4).for_each(|party| bench.ready(party));
    assert_eq!(bench.step(5), signs(&[0, 1, 2, 3]));
    assert_eq!(bench.step(5), None);
    (1..3).for_each(|party| bench.hear_start(party, &seats(&[0, 1, 2, 3])));
    assert_eq!(bench.step(6), None);
    bench.hear_start(3, &seats(&[0, 1, 2, 3]));
    assert_eq!(
        bench.step(7),
        Some(GatheringStep::Begin {
            number: 0,
            parties: (0..4).collect(),
            seed: None,
        })
    );
}

#[test]
fn enough_start_without_the_absent_after_the_deadline_and_too_few_abort() {
    let mut bench = Bench::new();
    bench.ready(1);
    assert_eq!(bench.step(JOIN_MS - 1), None);
    assert!(matches!(bench.step(JOIN_MS), Some(GatheringStep::Abort(_))));
    let mut bench = Bench::new();
    bench.ready(1);
    bench.ready(2);
    assert_eq!(bench.step(JOIN_MS - 1), None);
    assert_eq!(bench.step(JOIN_MS), signs(&[0, 1, 2]));
    assert_eq!(bench.step(2 * JOIN_MS - 1), None);
    assert!(
        matches!(bench.step(2 * JOIN_MS), Some(GatheringStep::Abort(_))),
        "the others never said START"
    );
}

#[test]
fn a_start_that_names_me_is_joined_once_its_readies_are_here() {
    let mut bench = Bench::new();
    bench.ready(1);
    bench.hear_start(1, &seats(&[0, 1, 2]));
    assert_eq!(bench.step(1), Some(GatheringStep::Call));
    assert_eq!(bench.step(1), None, "asked once");
    bench.ready(2);
    bench.ready(3);
    assert_eq!(
        bench.step(2),
        signs(&[0, 1, 2]),
        "joining beats proposing all four"
    );
    assert_eq!(bench.step(2), None, "exactly one START, ever");
}

#[test]
fn a_start_without_me_or_of_another_incarnation_or_too_small_is_not_joined() {
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.ready(party));
    bench.hear_start(1, &seats(&[1, 2, 3]));
    let mut other = seats(&[0, 1, 2]);
    other[0].incarnation = started(9);
    assert_eq!(bench.step(1), None);
    // Of two, one is honest: it begins without this start of this node, if at all.
    bench.hear_start(2, &other);
    assert_eq!(
        bench.step(1),
        Some(GatheringStep::Abort(Unstarted::LeftOut { by: vec![1, 2] }))
    );
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.ready(party));
    bench.hear_start(1, &seats(&[0, 1]));
    assert_eq!(bench.step(1), None);
}

fn nonce_secret(party: Party) -> [u8; 32] {
    [party as u8 + 40; 32]
}

fn nonce(party: Party) -> Nonce {
    commitment::nonce(&nonce_secret(party), 0)
}

fn committed(party: Party) -> Notice {
    Notice::Commit {
        key: *run_key(party as u8).public(),
        pair: None,
        records: None,
        commitment: commitment(&[1; 32], party, &nonce(party)),
    }
}

fn reveal(author: Party, parties: &[Party], nonce: Nonce) -> Notice {
    let each: Vec<_> = parties
        .iter()
        .map(|&party| (party, commitment(&[1; 32], party, &self::nonce(party))))
        .collect();
    let commitments = commitment::commitments(
        &[1; 32],
        each.iter().map(|(party, commitment)| (*party, commitment)),
    );
    Notice::Reveal {
        number: 0,
        incarnation: started(author as u8),
        seats: wire::set_hash(&Set::Seats(seats(parties))),
        commitments,
        nonce,
    }
}

/// Party 0 of four in a plan whose schedule START draws.
fn drawing() -> Bench {
    let members = Members::new([1; 32], (0..4).map(|party| key(party).public()).collect());
    let machine = machine(
        4,
        Some(Draw {
            digest: [1; 32],
            secret: Zeroizing::new(nonce_secret(0)),
        }),
    );
    let mut bench = Bench {
        flood: Flood::new(0, members).committing(true),
        machine,
        said: 0,
    };
    let ready = bench.machine.ready();
    assert_eq!(ready, committed(0));
    bench.own(ready);
    bench
}

#[test]
fn nonces_are_shown_once_all_commitments_are_fixed_and_give_the_seed() {
    let mut bench = drawing();
    (1..4).for_each(|party| bench.hear(party, committed(party)));
    assert_eq!(
        bench.step(5),
        Some(GatheringStep::Start {
            seats: seats(&[0, 1, 2, 3]),
            notice: reveal(0, &[0, 1, 2, 3], nonce(0)),
        })
    );
    (1..4).for_each(|party| bench.hear(party, reveal(party, &[0, 1, 2, 3], nonce(party))));
    let nonces: Vec<_> = (0..4).map(|party| (party, nonce(party))).collect();
    let seed = commitment::seed(&[1; 32], nonces.iter().map(|(party, nonce)| (*party, nonce)));
    assert_eq!(
        bench.step(6),
        Some(GatheringStep::Begin {
            number: 0,
            parties: (0..4).collect(),
            seed: Some(seed),
        })
    );
}

#[test]
fn another_nonce_than_the_committed_one_names_its_party() {
    let mut bench = drawing();
    (1..4).for_each(|party| bench.hear(party, committed(party)));
    bench.step(5);
    for party in [1, 3] {
        bench.hear(party, reveal(party, &[0, 1, 2, 3], nonce(party)));
    }
    bench.hear(2, reveal(2, &[0, 1, 2, 3], [0; 32]));
    // The one that was committed to may still come.
    assert_eq!(bench.step(JOIN_MS + 4), None);
    assert_eq!(bench.step(JOIN_MS + 5), Some(GatheringStep::Liar(2)));
}

#[test]
fn a_start_over_other_commitments_is_another_start() {
    let mut bench = drawing();
    (1..3).for_each(|party| bench.hear(party, committed(party)));
    let mut other = reveal(1, &[0, 1, 2], nonce(1));
    if let Notice::Reveal { commitments, .. } = &mut other {
        *commitments = [7; 32];
    }
    bench.hear(1, other);
    bench
        .flood
        .take_set(Set::Seats(seats(&[0, 1, 2])))
        .expect("a set");
    assert_eq!(
        bench.step(1),
        Some(GatheringStep::Call),
        "its READYs are not those that are here"
    );
    assert_eq!(bench.step(1), None);
    bench.hear(2, reveal(2, &[0, 1, 2], nonce(2)));
    assert_eq!(
        bench.step(2),
        Some(GatheringStep::Start {
            seats: seats(&[0, 1, 2]),
            notice: reveal(0, &[0, 1, 2], nonce(0)),
        })
    );
    // What others replace afterwards changes nothing here.
    bench.hear(
        2,
        Notice::Commit {
            key: *run_key(9).public(),
            pair: None,
            records: None,
            commitment: [9; 32],
        },
    );
    assert_eq!(bench.flood.ready(2), Some(started(2)));
}

#[test]
fn too_few_do_not_start_however_many_refuse() {
    let mut bench = Bench::new();
    bench.ready(1);
    (2..4).for_each(|party| bench.machine.presence.refused(party, None));
    assert_eq!(bench.step(JOIN_MS - 1), None);
    let missing = vec![(2, Standing::Unreachable), (3, Standing::Unreachable)];
    assert_eq!(
        bench.step(JOIN_MS),
        Some(GatheringStep::Abort(Unstarted::TooFew { ready: 2, missing }))
    );
}

#[test]
fn a_withdrawal_voids_the_ready_before_it_and_no_later_one() {
    let mut bench = Bench::new();
    (1..4).for_each(|party| bench.ready(party));
    bench.hear(
        3,
        Notice::Withdraw {
            incarnation: started(3),
        },
    );
    assert_eq!(bench.step(5), None);
    assert!(bench.flood.has_withdrawn(3));
    bench.hear(3, ready(9));
    let Some(GatheringStep::Start { seats, .. }) = bench.step(6) else {
        panic!("all are ready")
    };
    assert_eq!(seats[3].incarnation, started(9));
    // Whoever signs over it takes nothing back any more.
    bench.hear(
        3,
        Notice::Withdraw {
            incarnation: started(9),
        },
    );
    assert_eq!(bench.flood.ready(3), Some(started(9)));
}

#[test]
fn who_refused_a_start_before_it_signed_the_same_asks_for_it_once() {
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.ready(party));
    bench.hear_start(2, &seats(&[1, 2, 3]));
    let second = Signer::new(2, [1; 32], key(2), 99)
        .sign(Recipient::All, start_of(2, &seats(&[0, 1, 2, 3])))
        .expect("signs");
    let frame = wire::notice_frame(&second);
    assert!(bench.flood.receive(&frame, second.clone(), false).is_err());
    bench.ready(3);
    assert!(matches!(bench.step(1), Some(GatheringStep::Start { .. })));
    assert_eq!(bench.step(2), Some(GatheringStep::Call));
    assert_eq!(bench.step(3), None, "once");
    assert!(bench.flood.receive(&frame, second, true).is_ok());
    bench.hear_start(1, &seats(&[0, 1, 2, 3]));
    bench.hear_start(3, &seats(&[0, 1, 2, 3]));
    assert!(matches!(bench.step(4), Some(GatheringStep::Begin { .. })));
}

#[test]
fn a_start_that_does_not_name_its_author_is_none() {
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.ready(party));
    bench.hear_start(1, &seats(&[0, 2, 3]));
    bench.ready(3);
    let all = [0, 1, 2, 3];
    assert_eq!(bench.step(1), signs(&all), "it is not joined");
    // Nor does one count by another start of its author's node than the one that it names.
    (2..4).for_each(|party| bench.hear_start(party, &seats(&all)));
    bench.hear(1, {
        let seats = wire::set_hash(&Set::Seats(seats(&all)));
        Notice::Start {
            number: 0,
            incarnation: started(9),
            seats,
        }
    });
    assert_eq!(bench.step(2), Some(GatheringStep::Call));
    assert_eq!(bench.step(3), None);
}

#[test]
fn a_start_is_joined_once_the_set_that_it_names_is_known() {
    let mut bench = Bench::new();
    (1..4).for_each(|party| bench.ready(party));
    bench.machine.presence.disconnected(3);
    let three = seats(&[0, 1, 2]);
    bench.hear(1, start_of(1, &three));
    assert_eq!(bench.step(1), None, "nobody knows over whom it is");
    assert_eq!(bench.flood.take_set(Set::Seats(three.clone())), Ok(true));
    assert_eq!(
        bench.flood.take_set(Set::Seats(three)),
        Ok(false),
        "not wanted twice"
    );
    assert_eq!(bench.step(2), signs(&[0, 1, 2]));
}

#[test]
fn who_withdraws_within_the_grace_has_nobody_wake_up_without_pause() {
    let mut bench = Bench::new();
    (1..3).for_each(|party| bench.ready(party));
    bench.machine.presence.refused(3, None);
    assert_eq!(bench.step(20), None);
    let incarnation = started(2);
    bench.hear(2, Notice::Withdraw { incarnation });
    for ms in [30, 20 + GRACE_MS, 21 + GRACE_MS, JOIN_MS - 1] {
        assert_eq!(bench.step(ms), None);
    }
    assert_eq!(
        bench.step(JOIN_MS),
        Some(GatheringStep::Abort(Unstarted::TooFew {
            ready: 2,
            missing: vec![(2, Standing::Unreachable), (3, Standing::Unreachable)],
        }))
    );
}

const MANY_PARTIES: usize = 40;
/// The time for which such a node does not look again at presence.
const LOOK_MS: u64 = MANY_PARTIES as u64 / STANDINGS_PER_MS;

#[test]
fn many_start_at_the_very_look_that_finds_all_of_them_ready() {
    let all: Vec<Party> = (0..MANY_PARTIES).collect();
    let mut bench = Bench::of(MANY_PARTIES);
    (1..MANY_PARTIES - 1).for_each(|party| bench.ready(party));
    assert_eq!(bench.step(10), None);
    bench.ready(MANY_PARTIES - 1);
    assert_eq!(bench.step(10 + LOOK_MS), signs(&all));
    // A word that comes right after a look is looked at one pause later.
    let mut bench = Bench::of(MANY_PARTIES);
    (1..MANY_PARTIES - 1).for_each(|party| bench.ready(party));
    assert_eq!(bench.step(10), None);
    assert_eq!(bench.step(20), None);
    assert!(bench.wake(20) > 20 + LOOK_MS, "nothing is to be looked at");
    bench.ready(MANY_PARTIES - 1);
    assert_eq!(bench.step(21), None);
    assert_eq!(bench.wake(21), 20 + LOOK_MS);
    assert_eq!(bench.step(20 + LOOK_MS), signs(&all));
}

#[test]
fn many_who_have_signed_look_no_more_who_is_there() {
    let all: Vec<Party> = (0..MANY_PARTIES).collect();
    let mut bench = Bench::of(MANY_PARTIES);
    (1..MANY_PARTIES - 1).for_each(|party| bench.ready(party));
    assert_eq!(bench.step(10), None);
    assert_eq!(bench.step(11), None, "a look is put off");
    bench.ready(MANY_PARTIES - 1);
    bench.hear_start(1, &seats(&all));
    assert_eq!(bench.step(11), signs(&all), "START needs no look to be joined");
    assert_eq!(bench.step(12), None);
    assert_eq!(bench.wake(12), 11 + JOIN_MS);
}

mod grace;
mod numbers;
