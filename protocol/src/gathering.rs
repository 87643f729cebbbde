//! Who takes part: READY, then one START that all of its members sign alike.
//!
//! A node signs exactly one START(S): (i) once it holds every member's READY; (ii) `join_ms` after its own READY, if it holds at least
//! `min_parties`; (iii) on a START(S) that names it, once it holds the READYs that S names. It begins only if it holds START(S) of the same
//! S from every member of S, and aborts `join_ms` after signing otherwise; nothing private has left by then.

use std::collections::BTreeSet;

use crate::flood::Flood;
use crate::message::{Incarnation, Notice, Seat};
use crate::mixing::Party;
use crate::time::Time;

/// What the machine wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sign and flood this.
    Say(Notice),
    /// Ask all public neighbours for the READYs that they hold.
    Call,
    /// Everybody of this set begins.
    Begin(BTreeSet<Party>),
    /// It is over, and nothing private has left.
    Abort(String),
}

/// The gathering phase of one node.
pub struct Gathering {
    me: Party,
    incarnation: Incarnation,
    parties: usize,
    min_parties: usize,
    join_ms: u64,
    opened: Time,
    signed: Option<(Time, Vec<Seat>)>,
    /// STARTs whose READYs were asked for, so that each is asked for once.
    called: BTreeSet<Party>,
}

impl Gathering {
    /// Begins when this node floods its READY.
    pub fn new(me: Party, incarnation: Incarnation, parties: usize, min_parties: usize, join_ms: u64, opened: Time) -> Self {
        Gathering { me, incarnation, parties, min_parties, join_ms, opened, signed: None, called: BTreeSet::new() }
    }

    /// Whether this node has signed its START.
    pub fn has_signed(&self) -> bool {
        self.signed.is_some()
    }

    /// When to step again although nothing happened.
    pub fn wake(&self) -> Time {
        self.signed.as_ref().map_or(self.opened, |(at, _)| *at).plus_millis(self.join_ms)
    }

    /// The next thing to do; call again until there is none.
    pub fn step(&mut self, now: Time, flood: &Flood) -> Option<Step> {
        let Some((at, seats)) = &self.signed else {
            return self.sign(now, flood);
        };
        if seats.iter().all(|seat| flood.start(seat.party) == Some(seats)) {
            return Some(Step::Begin(seats.iter().map(|seat| seat.party).collect()));
        }
        if now >= at.plus_millis(self.join_ms) {
            let lacking: Vec<Party> =
                seats.iter().map(|seat| seat.party).filter(|&party| flood.start(party) != Some(seats)).collect();
            return Some(Step::Abort(format!("no common START with parties {lacking:?} within join_ms = {}", self.join_ms)));
        }
        None
    }

    fn sign(&mut self, now: Time, flood: &Flood) -> Option<Step> {
        if let Some(seats) = self.joined(flood) {
            return Some(self.signed(now, seats));
        }
        let readies = flood.readies();
        if readies.len() == self.parties {
            return Some(self.signed(now, readies));
        }
        if now >= self.opened.plus_millis(self.join_ms) {
            return Some(if readies.len() >= self.min_parties {
                self.signed(now, readies)
            } else {
                let (found, needed) = (readies.len(), self.min_parties);
                Step::Abort(format!("{found} parties are ready after join_ms = {}, min_parties is {needed}", self.join_ms))
            });
        }
        let uncalled = (0..self.parties).find(|party| self.names_me(flood, *party) && !self.called.contains(party))?;
        self.called.insert(uncalled);
        Some(Step::Call)
    }

    fn signed(&mut self, now: Time, seats: Vec<Seat>) -> Step {
        self.signed = Some((now, seats.clone()));
        Step::Say(Notice::Start { seats })
    }

    fn names_me(&self, flood: &Flood, party: Party) -> bool {
        let me = Seat { party: self.me, incarnation: self.incarnation };
        flood.start(party).is_some_and(|seats| seats.len() >= self.min_parties && seats.contains(&me))
    }

    /// The START of somebody else to join: it names this start of this node, and every READY that it names is held and newest. If there are several,
    /// the one that most parties signed. Whoever signed one signs no other, so joining beats proposing.
    fn joined(&self, flood: &Flood) -> Option<Vec<Seat>> {
        let current = |seat: &Seat| flood.ready(seat.party) == Some(seat.incarnation);
        let authors = (0..self.parties).filter(|&party| self.names_me(flood, party));
        let candidates: Vec<&[Seat]> =
            authors.filter_map(|party| flood.start(party)).filter(|seats| seats.iter().all(current)).collect();
        let signers = |seats: &[Seat]| candidates.iter().filter(|other| **other == seats).count();
        candidates.iter().copied().rev().max_by_key(|seats| signers(seats)).map(<[Seat]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use libp2p_identity::Keypair;

    use super::*;
    use crate::message::{Members, Recipient, Signer};
    use crate::wire;

    const JOIN_MS: u64 = 1000;

    fn key(party: Party) -> Keypair {
        Keypair::ed25519_from_bytes([party as u8 + 1; 32]).expect("32 bytes")
    }

    struct Bench {
        flood: Flood,
        machine: Gathering,
    }

    impl Bench {
        /// Party 0 of four, three of which suffice; it has flooded its own READY.
        fn new() -> Self {
            let members = Members::new([1; 32], (0..4).map(|party| key(party).public()).collect());
            let mut bench =
                Bench { flood: Flood::new(0, members), machine: Gathering::new(0, [0; 16], 4, 3, JOIN_MS, Time::ZERO) };
            bench.own(Notice::Ready { incarnation: [0; 16] });
            bench
        }

        fn own(&mut self, notice: Notice) {
            let signed = Signer::new(0, [1; 32], key(0), 0).sign(Recipient::All, notice).expect("signs");
            self.flood.publish(signed);
        }

        fn hear(&mut self, party: Party, notice: Notice) {
            let signed = Signer::new(party, [1; 32], key(party), 0).sign(Recipient::All, notice).expect("signs");
            let frame: Arc<[u8]> = wire::notice_frame(&signed);
            self.flood.receive(&frame, signed, self.machine.has_signed()).expect("good");
        }

        fn ready(&mut self, party: Party) {
            self.hear(party, Notice::Ready { incarnation: [party as u8; 16] });
        }

        fn step(&mut self, ms: u64) -> Option<Step> {
            let step = self.machine.step(Time::from_millis(ms), &self.flood);
            if let Some(Step::Say(notice)) = &step {
                self.own(notice.clone());
            }
            step
        }
    }

    fn start(parties: &[Party]) -> Notice {
        Notice::Start { seats: parties.iter().map(|&party| Seat { party, incarnation: [party as u8; 16] }).collect() }
    }

    #[test]
    fn everybody_ready_starts_at_once_and_begins_when_all_say_so() {
        let mut bench = Bench::new();
        (1..4).for_each(|party| bench.ready(party));
        assert_eq!(bench.step(5), Some(Step::Say(start(&[0, 1, 2, 3]))));
        assert_eq!(bench.step(5), None);
        (1..3).for_each(|party| bench.hear(party, start(&[0, 1, 2, 3])));
        assert_eq!(bench.step(6), None);
        bench.hear(3, start(&[0, 1, 2, 3]));
        assert_eq!(bench.step(7), Some(Step::Begin((0..4).collect())));
    }

    #[test]
    fn enough_start_without_the_absent_after_the_deadline_and_too_few_abort() {
        let mut bench = Bench::new();
        bench.ready(1);
        assert_eq!(bench.step(JOIN_MS - 1), None);
        assert!(matches!(bench.step(JOIN_MS), Some(Step::Abort(_))));
        let mut bench = Bench::new();
        bench.ready(1);
        bench.ready(2);
        assert_eq!(bench.step(JOIN_MS - 1), None);
        assert_eq!(bench.step(JOIN_MS), Some(Step::Say(start(&[0, 1, 2]))));
        assert_eq!(bench.step(2 * JOIN_MS - 1), None);
        assert!(matches!(bench.step(2 * JOIN_MS), Some(Step::Abort(_))), "the others never said START");
    }

    #[test]
    fn a_start_that_names_me_is_joined_once_its_readies_are_here() {
        let mut bench = Bench::new();
        bench.ready(1);
        bench.hear(1, start(&[0, 1, 2]));
        assert_eq!(bench.step(1), Some(Step::Call));
        assert_eq!(bench.step(1), None, "asked once");
        bench.ready(2);
        bench.ready(3);
        assert_eq!(bench.step(2), Some(Step::Say(start(&[0, 1, 2]))), "joining beats proposing all four");
        assert_eq!(bench.step(2), None, "exactly one START, ever");
    }

    #[test]
    fn a_start_without_me_or_of_another_incarnation_or_too_small_is_not_joined() {
        let mut bench = Bench::new();
        (1..3).for_each(|party| bench.ready(party));
        bench.hear(1, start(&[1, 2, 3]));
        let Notice::Start { mut seats } = start(&[0, 1, 2]) else { unreachable!("it is one") };
        seats[0].incarnation = [9; 16];
        bench.hear(2, Notice::Start { seats });
        assert_eq!(bench.step(1), None);
        let mut bench = Bench::new();
        (1..3).for_each(|party| bench.ready(party));
        bench.hear(1, start(&[0, 1]));
        assert_eq!(bench.step(1), None);
    }
}
