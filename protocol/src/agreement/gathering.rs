//! Who takes part: READY, then one START that all of its members sign alike.
//!
//! A node signs exactly one START(S): (i) once it holds every member's READY; (ii) `join_ms` after
//! its own READY, if it holds at least `min_parties`; (iii) on a START(S) that names it, once it
//! holds the READYs that S names. It begins only if it holds START(S) of the same S from every
//! member of S, and aborts `join_ms` after signing otherwise; nothing private has left by then.

use std::collections::BTreeSet;

use crate::agreement::flood::Flood;
use crate::messages::commitment::{self, Commitments, Nonce, commitment};
use crate::messages::notice::{Notice, Seat};
use crate::messages::signature::Digest;
use crate::time::Time;
use crate::topology::party::Party;

/// What gathering wants done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatheringStep {
    /// Sign this notice and flood it.
    Say(Notice),
    /// Ask all public neighbours for the READYs that they hold.
    Call,
    /// Everybody of this set begins, with the seed of the schedule where START draws it.
    Begin(BTreeSet<Party>, Option<u64>),
    /// The run is over for this node, and nothing private has left.
    Abort(String),
    /// The run is over, since this party revealed another nonce than it had committed to; nothing
    /// private has left.
    Liar(Party),
}

/// What a start needs where the schedule is drawn at START. It prints no nonce.
pub struct Draw {
    /// The digest of the plan.
    pub digest: Digest,
    /// The nonce of this start; secret until START.
    pub nonce: Nonce,
}

/// What a party's START says, as it is held.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HeldStart<'a> {
    seats: &'a [Seat],
    commitments: Option<&'a Commitments>,
}

impl<'a> HeldStart<'a> {
    fn of(flood: &'a Flood, party: Party) -> Option<Self> {
        Some(HeldStart {
            seats: flood.start(party)?,
            commitments: flood.reveal(party).map(|(commitments, _)| commitments),
        })
    }

    fn is(&self, signed: &Signed) -> bool {
        self.seats == signed.seats && self.commitments == signed.commitments.as_ref()
    }
}

/// What was signed: whom START names, and the hash of their commitments where it draws the
/// schedule.
struct Signed {
    seats: Vec<Seat>,
    commitments: Option<Commitments>,
}

/// What the plan says about who must come, and by when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attendance {
    /// The number of members n.
    pub parties: usize,
    /// So many are enough to start.
    pub min_parties: usize,
    /// How long READYs are waited for, and then STARTs.
    pub join_ms: u64,
}

/// The gathering phase of one node.
pub struct Gathering {
    /// The party of this node, with the incarnation of this start.
    me: Seat,
    attendance: Attendance,
    opened: Time,
    draw: Option<Draw>,
    signed: Option<(Time, Signed)>,
    /// STARTs whose READYs were asked for, so that each is asked for once.
    called: BTreeSet<Party>,
}

impl Gathering {
    /// Begins when this node floods its READY. `draw`: what START draws the schedule with, if it
    /// does.
    pub fn new(me: Seat, attendance: Attendance, opened: Time, draw: Option<Draw>) -> Self {
        Gathering {
            me,
            attendance,
            opened,
            draw,
            signed: None,
            called: BTreeSet::new(),
        }
    }

    /// The READY to flood.
    pub fn ready(&self) -> Notice {
        let incarnation = self.me.incarnation;
        match &self.draw {
            None => Notice::Ready { incarnation },
            Some(draw) => Notice::Commit {
                incarnation,
                commitment: commitment(&draw.digest, self.me.party, &draw.nonce),
            },
        }
    }

    /// Whether this node has signed its START.
    pub fn has_signed(&self) -> bool {
        self.signed.is_some()
    }

    /// When to step again although nothing happened.
    pub fn wake(&self) -> Time {
        self.signed
            .as_ref()
            .map_or(self.opened, |(at, _)| *at)
            .plus_millis(self.attendance.join_ms)
    }

    /// The next thing to do; call again until there is none.
    pub fn step(&mut self, now: Time, flood: &Flood) -> Option<GatheringStep> {
        let Some((at, signed)) = &self.signed else {
            return self.sign(now, flood);
        };
        let members = || signed.seats.iter().map(|seat| seat.party);
        let said = |party: &Party| HeldStart::of(flood, *party).is_some_and(|said| said.is(signed));
        let (all, late) = (
            members().all(|party| said(&party)),
            now >= at.plus_millis(self.attendance.join_ms),
        );
        if !(all || late) {
            return None;
        }
        if let Some(liar) = members().filter(said).find(|&party| self.lies(flood, party)) {
            return Some(GatheringStep::Liar(liar));
        }
        if all {
            return Some(GatheringStep::Begin(
                members().collect(),
                self.seed(flood, &signed.seats),
            ));
        }
        let lacking: Vec<Party> = members().filter(|party| !said(party)).collect();
        Some(GatheringStep::Abort(format!(
            "no common START with parties {lacking:?} within join_ms = {}",
            self.attendance.join_ms
        )))
    }

    /// Whether a party's nonce is not the one that it committed to. Its READY is the one that its
    /// START names: none is replaced once this node has signed.
    fn lies(&self, flood: &Flood, party: Party) -> bool {
        let Some(Draw { digest, .. }) = &self.draw else {
            return false;
        };
        let fits = |(_, nonce): (&Commitments, &Nonce)| {
            flood.commitment(party) == Some(&commitment(digest, party, nonce))
        };
        !flood.reveal(party).is_some_and(fits)
    }

    /// The schedule's seed, once every START is here.
    fn seed(&self, flood: &Flood, seats: &[Seat]) -> Option<u64> {
        let nonces = seats
            .iter()
            .filter_map(|seat| Some((seat.party, flood.reveal(seat.party)?.1)));
        self.draw
            .as_ref()
            .map(|draw| commitment::seed(&draw.digest, nonces))
    }

    /// The hash of the commitments of these seats, as their READYs here have them.
    fn commitments(&self, flood: &Flood, seats: &[Seat]) -> Option<Commitments> {
        let held = seats
            .iter()
            .filter_map(|seat| Some((seat.party, flood.commitment(seat.party)?)));
        self.draw
            .as_ref()
            .map(|draw| commitment::commitments(&draw.digest, held))
    }

    fn sign(&mut self, now: Time, flood: &Flood) -> Option<GatheringStep> {
        if let Some(seats) = self.joined(flood) {
            return Some(self.signed(now, flood, seats));
        }
        let readies = flood.readies();
        if readies.len() == self.attendance.parties {
            return Some(self.signed(now, flood, readies));
        }
        if now >= self.opened.plus_millis(self.attendance.join_ms) {
            return Some(if readies.len() >= self.attendance.min_parties {
                self.signed(now, flood, readies)
            } else {
                let (found, needed) = (readies.len(), self.attendance.min_parties);
                GatheringStep::Abort(format!(
                    "{found} parties are ready after join_ms = {}, min_parties is {needed}",
                    self.attendance.join_ms
                ))
            });
        }
        let uncalled = (0..self.attendance.parties)
            .find(|party| self.names_me(flood, *party) && !self.called.contains(party))?;
        self.called.insert(uncalled);
        Some(GatheringStep::Call)
    }

    fn signed(&mut self, now: Time, flood: &Flood, seats: Vec<Seat>) -> GatheringStep {
        let commitments = self.commitments(flood, &seats);
        self.signed = Some((
            now,
            Signed {
                seats: seats.clone(),
                commitments,
            },
        ));
        GatheringStep::Say(match (&self.draw, commitments) {
            (Some(draw), Some(commitments)) => Notice::Reveal {
                seats,
                commitments,
                nonce: draw.nonce,
            },
            _ => Notice::Start { seats },
        })
    }

    fn names_me(&self, flood: &Flood, party: Party) -> bool {
        flood
            .start(party)
            .is_some_and(|seats| seats.len() >= self.attendance.min_parties && seats.contains(&self.me))
    }

    /// The START of somebody else to join: it names this start of this node, and every READY that
    /// it names is held and newest. If there are several, the one that most parties signed. Whoever
    /// signed one signs no other, so joining beats proposing.
    fn joined(&self, flood: &Flood) -> Option<Vec<Seat>> {
        let current = |seat: &Seat| flood.ready(seat.party) == Some(seat.incarnation);
        let authors = (0..self.attendance.parties).filter(|&party| self.names_me(flood, party));
        let same = |said: &HeldStart<'_>| said.commitments.copied() == self.commitments(flood, said.seats);
        let candidates: Vec<HeldStart<'_>> = authors
            .filter_map(|party| HeldStart::of(flood, party))
            .filter(|said| said.seats.iter().all(current) && same(said))
            .collect();
        let signers = |said: &HeldStart<'_>| candidates.iter().filter(|other| *other == said).count();
        candidates
            .iter()
            .rev()
            .max_by_key(|said| signers(said))
            .map(|said| said.seats.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use libp2p_identity::Keypair;

    use super::*;
    use crate::messages::notice::Recipient;
    use crate::messages::signing::{Members, Signer};
    use crate::messages::wire;

    const JOIN_MS: u64 = 1000;

    fn key(party: Party) -> Keypair {
        Keypair::ed25519_from_bytes([party as u8 + 1; 32]).expect("32 bytes")
    }

    /// Party 0 of four, three of which suffice.
    fn machine(draw: Option<Draw>) -> Gathering {
        let me = Seat {
            party: 0,
            incarnation: [0; 16],
        };
        let attendance = Attendance {
            parties: 4,
            min_parties: 3,
            join_ms: JOIN_MS,
        };
        Gathering::new(me, attendance, Time::ZERO, draw)
    }

    struct Bench {
        flood: Flood,
        machine: Gathering,
        said: u64,
    }

    impl Bench {
        /// A machine that has flooded its own READY.
        fn new() -> Self {
            let members = Members::new([1; 32], (0..4).map(|party| key(party).public()).collect());
            let mut bench = Bench {
                flood: Flood::new(0, members),
                machine: machine(None),
                said: 0,
            };
            bench.own(Notice::Ready { incarnation: [0; 16] });
            bench
        }

        fn own(&mut self, notice: Notice) {
            let signed = Signer::new(0, [1; 32], key(0), 0)
                .sign(Recipient::All, notice)
                .expect("signs");
            self.flood.publish(signed);
        }

        fn hear(&mut self, party: Party, notice: Notice) {
            let epoch = self.said;
            self.said += 1;
            let signed = Signer::new(party, [1; 32], key(party), epoch)
                .sign(Recipient::All, notice)
                .expect("signs");
            let frame: Arc<[u8]> = wire::notice_frame(&signed);
            self.flood
                .receive(&frame, signed, self.machine.has_signed())
                .expect("good");
        }

        fn ready(&mut self, party: Party) {
            self.hear(
                party,
                Notice::Ready {
                    incarnation: [party as u8; 16],
                },
            );
        }

        fn step(&mut self, ms: u64) -> Option<GatheringStep> {
            let step = self.machine.step(Time::from_millis(ms), &self.flood);
            if let Some(GatheringStep::Say(notice)) = &step {
                self.own(notice.clone());
            }
            step
        }
    }

    fn start(parties: &[Party]) -> Notice {
        Notice::Start {
            seats: parties
                .iter()
                .map(|&party| Seat {
                    party,
                    incarnation: [party as u8; 16],
                })
                .collect(),
        }
    }

    #[test]
    fn everybody_ready_starts_at_once_and_begins_when_all_say_so() {
        let mut bench = Bench::new();
        (1..4).for_each(|party| bench.ready(party));
        assert_eq!(bench.step(5), Some(GatheringStep::Say(start(&[0, 1, 2, 3]))));
        assert_eq!(bench.step(5), None);
        (1..3).for_each(|party| bench.hear(party, start(&[0, 1, 2, 3])));
        assert_eq!(bench.step(6), None);
        bench.hear(3, start(&[0, 1, 2, 3]));
        assert_eq!(bench.step(7), Some(GatheringStep::Begin((0..4).collect(), None)));
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
        assert_eq!(bench.step(JOIN_MS), Some(GatheringStep::Say(start(&[0, 1, 2]))));
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
        bench.hear(1, start(&[0, 1, 2]));
        assert_eq!(bench.step(1), Some(GatheringStep::Call));
        assert_eq!(bench.step(1), None, "asked once");
        bench.ready(2);
        bench.ready(3);
        assert_eq!(
            bench.step(2),
            Some(GatheringStep::Say(start(&[0, 1, 2]))),
            "joining beats proposing all four"
        );
        assert_eq!(bench.step(2), None, "exactly one START, ever");
    }

    #[test]
    fn a_start_without_me_or_of_another_incarnation_or_too_small_is_not_joined() {
        let mut bench = Bench::new();
        (1..3).for_each(|party| bench.ready(party));
        bench.hear(1, start(&[1, 2, 3]));
        let Notice::Start { mut seats } = start(&[0, 1, 2]) else {
            unreachable!("it is one")
        };
        seats[0].incarnation = [9; 16];
        bench.hear(2, Notice::Start { seats });
        assert_eq!(bench.step(1), None);
        let mut bench = Bench::new();
        (1..3).for_each(|party| bench.ready(party));
        bench.hear(1, start(&[0, 1]));
        assert_eq!(bench.step(1), None);
    }

    fn nonce(party: Party) -> Nonce {
        [party as u8 + 40; 32]
    }

    fn committed(party: Party) -> Notice {
        Notice::Commit {
            incarnation: [party as u8; 16],
            commitment: commitment(&[1; 32], party, &nonce(party)),
        }
    }

    fn reveal(parties: &[Party], nonce: Nonce) -> Notice {
        let Notice::Start { seats } = start(parties) else {
            unreachable!("it is one")
        };
        let each: Vec<_> = parties
            .iter()
            .map(|&party| (party, commitment(&[1; 32], party, &self::nonce(party))))
            .collect();
        let commitments = commitment::commitments(
            &[1; 32],
            each.iter().map(|(party, commitment)| (*party, commitment)),
        );
        Notice::Reveal {
            seats,
            commitments,
            nonce,
        }
    }

    /// Party 0 of four in a plan whose schedule START draws.
    fn drawing() -> Bench {
        let members = Members::new([1; 32], (0..4).map(|party| key(party).public()).collect());
        let machine = machine(Some(Draw {
            digest: [1; 32],
            nonce: nonce(0),
        }));
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
            Some(GatheringStep::Say(reveal(&[0, 1, 2, 3], nonce(0))))
        );
        (1..4).for_each(|party| bench.hear(party, reveal(&[0, 1, 2, 3], nonce(party))));
        let nonces: Vec<_> = (0..4).map(|party| (party, nonce(party))).collect();
        let seed = commitment::seed(&[1; 32], nonces.iter().map(|(party, nonce)| (*party, nonce)));
        assert_eq!(
            bench.step(6),
            Some(GatheringStep::Begin((0..4).collect(), Some(seed)))
        );
    }

    #[test]
    fn another_nonce_than_the_committed_one_names_its_party() {
        let mut bench = drawing();
        (1..4).for_each(|party| bench.hear(party, committed(party)));
        bench.step(5);
        for party in [1, 3] {
            bench.hear(party, reveal(&[0, 1, 2, 3], nonce(party)));
        }
        bench.hear(2, reveal(&[0, 1, 2, 3], [0; 32]));
        assert_eq!(bench.step(6), Some(GatheringStep::Liar(2)));
    }

    #[test]
    fn a_start_over_other_commitments_is_another_start() {
        let mut bench = drawing();
        (1..3).for_each(|party| bench.hear(party, committed(party)));
        let Notice::Reveal { seats, nonce, .. } = reveal(&[0, 1, 2], nonce(1)) else {
            unreachable!("it is one")
        };
        bench.hear(
            1,
            Notice::Reveal {
                seats,
                commitments: [7; 32],
                nonce,
            },
        );
        assert_eq!(
            bench.step(1),
            Some(GatheringStep::Call),
            "its READYs are not those that are here"
        );
        assert_eq!(bench.step(1), None);
        bench.hear(1, reveal(&[0, 1, 2], self::nonce(1)));
        assert_eq!(
            bench.step(2),
            Some(GatheringStep::Say(reveal(&[0, 1, 2], self::nonce(0))))
        );
        // What others replace afterwards changes nothing here.
        bench.hear(
            2,
            Notice::Commit {
                incarnation: [9; 16],
                commitment: [9; 32],
            },
        );
        assert_eq!(bench.flood.ready(2), Some([2; 16]));
    }
}
