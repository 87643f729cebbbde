//! The parties that take part: READY, then one START that all of its members sign alike.
//!
//! STARTs have numbers a = 0, 1, …, at most `dropouts` + 1 of them, and three where START draws the
//! schedule. A node signs one START(a, S) of each number:
//!
//! - of number 0 (i) once it holds every member's READY, each of a party that is there
//!   ([`presence`](crate::agreement::presence)); (ii) `grace_ms` after all who can be reached were
//!   ready, or `join_ms` after its own READY, over those who are ready and there, if they are at
//!   least `min_parties`; (iii) on a START(0, S) that names it, once it holds the READYs that S
//!   names;
//! - of number a + 1 once it has given up a: over those of S whose START(a, S) *and* whose give-up
//!   of a are here, when these are all whose START(a, S) is here, or after two silence limits, if
//!   they are at least `min_parties`; if they are fewer then, over all of S whose give-ups are here
//!   (`reunited`); or on a START(a + 1, S′) of others that names it, S′
//!   within S.
//!
//! It begins once it holds START(a, S) of the same S from every member of S, unless it has given a
//! up; a node that has begun never gives up. It gives a up, never to begin with a or a lower
//! number, (i) if for two silence limits no START of a member of S has come that it lacked, or
//! `join_ms` after it signed, or (ii) as soon as more than `colluding` members of S have given up.
//! So honest ones give up within about the time of one flood, and a party that hangs, or a liar
//! that signs none or another one, ends no run that can do without it. Why no node begins twice is
//! proved in `signed`. The last number is never given up: the run ends `join_ms` after it was
//! signed. Nothing private has left by then.

mod grace;
mod held_back;
mod proposals;
mod revealing;
mod signed;

use std::collections::BTreeSet;

use crate::agreement::flood::Flood;
use crate::agreement::gathering::signed::{HeldStart, Signed};
use crate::agreement::presence::{Presence, Standing};
use crate::messages::commitment::{self, Commitment, Commitments, commitment};
use crate::messages::notice::{Notice, Seat, Unreached};
use crate::messages::set::Set;
use crate::messages::signature::Digest;
use crate::messages::wire;
use crate::sealing::run_key::{PairKey, RunKey, incarnation};
use crate::time::Time;
use crate::topology::party::Party;
use zeroize::Zeroizing;

/// The most awaited parties whose changes are reported at once: many come together, and each report
/// names all who are missing. Our choice.
const FEW: usize = 16;
const TELL_MS: u64 = 1000;

/// A plan of more parties than this has many. Our choice.
const MANY: usize = 32;

/// The number of parties per millisecond between two looks at presence, where there are many: a
/// look goes through all reports about all parties. Our choice.
const STANDINGS_PER_MS: u64 = 10;

/// The share of `join_ms` in which a large run reports no party that never came, since parties come
/// up one after another. Our choice.
const COMING_UP: u64 = 8;

/// The next step that gathering asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatheringStep {
    /// Sign this notice and flood it.
    Say(Notice),
    /// This node's nonce is about to leave with its START: have that counted, durably, and call
    /// [`Gathering::revealed`] then.
    Reveal,
    /// Sign START over these, which it names by their hash, and flood it.
    Start {
        /// The parties that take part, ascending.
        seats: Vec<Seat>,
        /// The START.
        notice: Notice,
    },
    /// Ask all public neighbours for the READYs that they hold.
    Call,
    /// Everybody of this set begins.
    Begin {
        /// The number of its START.
        number: u8,
        /// Its members.
        parties: BTreeSet<Party>,
        /// The seed of the schedule, where START draws it.
        seed: Option<u64>,
    },
    /// Sign this notice and flood it: the START of this node is given up, since these have not
    /// signed it.
    GiveUp {
        /// The notice.
        notice: Notice,
        /// Members without a START like this node's, ascending.
        lacking: Vec<Party>,
    },
    /// Tell all public neighbours that this node is here.
    Pulse,
    /// The parties that are waited for now.
    Await(Vec<Party>),
    /// The run is over for this node, and nothing private has left.
    Abort(Unstarted),
    /// The run is over, since this party revealed another nonce than it had committed to; nothing
    /// private has left.
    Liar(Party),
}

/// A reason why a run does not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unstarted {
    /// The parties that are ready, and there, are too few.
    TooFew {
        /// The number of ready parties.
        ready: usize,
        /// All others, and where they stand.
        missing: Vec<(Party, Standing)>,
    },
    /// Others have signed a START without this party: more of them than may lie.
    LeftOut {
        /// Parties that have signed it, ascending.
        by: Vec<Party>,
    },
    /// This node did not run for a while, and nobody told it what it missed.
    Unanswered,
    /// Not all of START have signed the same.
    NotCommon {
        /// Parties that have signed no START.
        silent: Vec<Party>,
        /// Parties that have signed another START.
        other: Vec<Party>,
        /// Parties that have signed two STARTs.
        two: Vec<Party>,
        /// Parties that have signed the same START, and did not give it up with this node.
        kept: Vec<Party>,
    },
}

/// The draw of the schedule at START: what this start adds to it. It prints no secret.
pub struct Draw {
    /// The digest of the plan.
    pub digest: Digest,
    /// The secret of this start that its nonces are made of, one for each number.
    pub secret: Zeroizing<[u8; 32]>,
}

/// The party that gathers, with the key of this start of its node.
pub struct Entrant {
    /// The party of this node.
    pub party: Party,
    /// The run key that letters to this node are encrypted to, drawn for this start.
    pub key: RunKey,
    /// The key that its pairwise masks are derived from, drawn for this start, if it has any.
    pub pair: Option<PairKey>,
    /// The number of records that the party brings, where its plan has only a bound of it.
    pub records: Option<u32>,
}

/// The plan's rules about who must come, and by when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attendance {
    /// The number of members n.
    pub parties: usize,
    /// The number of parties that is enough to start.
    pub min_parties: usize,
    /// The time for which READYs are waited for, and then STARTs.
    pub join_ms: u64,
    /// The time for which unreachable parties are waited for once all others are ready.
    pub grace_ms: u64,
    /// The most parties that may lie.
    pub colluding: usize,
    /// The most STARTs of a run, at least 1.
    pub numbers: u8,
}

/// The gathering phase of one node.
pub struct Gathering {
    /// The party of this node, with the incarnation of this start.
    me: Seat,
    /// The keys and the record count that this node's incarnation is computed from.
    entrant: Entrant,
    attendance: Attendance,
    opened: Time,
    draw: Option<Draw>,
    /// The START that was signed last.
    signed: Option<Signed>,
    /// That START, until it is counted that this node's nonce leaves with it.
    unsaid: Option<Notice>,
    /// STARTs whose READYs were asked for, so that each is asked for once.
    called: BTreeSet<Party>,
    /// The presence of parties.
    pub presence: Presence,
    /// The moment to say again that this node is here.
    pulse: Time,
    /// The latest statement about neighbours that are not reached.
    unreached: Vec<Unreached>,
    /// When something else of them may be said: while all come up, much changes within a moment.
    next_word: Time,
    /// The latest standing of every party with its moment, and whether something has come since.
    stood: Option<(Time, Vec<Standing>)>,
    stale: bool,
    /// The parties that the last step waited for, and the moment it was reported.
    awaited: Option<Vec<Party>>,
    reported: Time,
    /// The moment since when all reachable parties are ready, and their seats.
    complete: Option<(Time, Vec<Seat>)>,
    /// The end of its holding back, unless it hears earlier what it may have missed.
    held_back: Option<Time>,
    /// Parties not ready and there when START was signed first, ascending, with their standings.
    without: Vec<(Party, Standing)>,
}

impl Gathering {
    /// The run key, once everybody begins, and the pair key: letters are written and read with the
    /// one, masks of pairs made of the other.
    pub fn into_keys(self) -> (RunKey, Option<PairKey>) {
        (self.entrant.key, self.entrant.pair)
    }

    /// Begins when this node floods its READY. `draw`: what START draws the schedule with, if it
    /// does.
    pub fn new(
        entrant: Entrant,
        attendance: Attendance,
        presence: Presence,
        opened: Time,
        draw: Option<Draw>,
    ) -> Self {
        let pair = entrant.pair.as_ref().map(PairKey::public);
        let incarnation = incarnation(entrant.key.public(), pair, entrant.records);
        let party = entrant.party;
        Gathering {
            me: Seat { party, incarnation },
            entrant,
            attendance,
            opened,
            draw,
            signed: None,
            unsaid: None,
            called: BTreeSet::new(),
            pulse: opened.plus_millis(presence.pulse_ms()),
            presence,
            unreached: Vec::new(),
            next_word: opened,
            stood: None,
            stale: false,
            awaited: None,
            reported: Time::ZERO,
            complete: None,
            held_back: None,
            without: Vec::new(),
        }
    }

    /// The READY to flood.
    pub fn ready(&self) -> Notice {
        let Entrant {
            key, pair, records, ..
        } = &self.entrant;
        let (key, records) = (*key.public(), *records);
        let pair = pair.as_ref().map(|pair| *pair.public());
        match &self.draw {
            None => Notice::Ready { key, pair, records },
            Some(draw) => Notice::Commit {
                key,
                pair,
                records,
                commitment: self.own_commitment(draw, 0),
            },
        }
    }

    fn own_commitment(&self, draw: &Draw, number: u8) -> Commitment {
        let nonce = commitment::nonce(&draw.secret, number);
        commitment(&draw.digest, self.me.party, &nonce)
    }

    /// Whether this node has signed a START.
    pub fn has_signed(&self) -> bool {
        self.signed.is_some()
    }

    /// Returns the moment to step again although nothing happened.
    pub fn wake(&self, now: Time) -> Time {
        if self.is_revealing() {
            return Time::FAR;
        }
        let grace = |(since, _): &(Time, Vec<Seat>)| since.plus_millis(self.attendance.grace_ms);
        let before = |deadline: Time| {
            // Once it is over, others' words or another look at where they stand decide.
            let grace = self.complete.as_ref().map(grace).filter(|&at| at > now);
            let grace = grace.unwrap_or(Time::FAR);
            deadline.min(grace).min(self.presence.wake(now))
        };
        let deadline = |from: Time| from.plus_millis(self.attendance.join_ms);
        let phase = match &self.signed {
            _ if self.is_held_back() => self.held_back.unwrap_or(Time::FAR),
            Some(signed) => self.signed_deadline(signed),
            None => before(deadline(self.opened)),
        };
        let reported = self
            .awaited
            .as_ref()
            .map_or(Time::FAR, |awaited| match awaited.len() > FEW {
                true => self.reported.plus_millis(TELL_MS).max(now.plus_millis(1)),
                false => Time::FAR,
            });
        let word = if self.next_word > now {
            self.next_word
        } else {
            Time::FAR
        };
        let stand = match &self.stood {
            Some((at, _)) if self.stale && !self.has_signed() => {
                self.stands_again(*at).max(now.plus_millis(1))
            }
            _ => Time::FAR,
        };
        phase.min(self.pulse).min(reported).min(word).min(stand)
    }

    /// Returns when the START signed last is given up, or what came after it, or the run ends.
    fn signed_deadline(&self, signed: &Signed) -> Time {
        let patience = self.patience_ms(&signed.seats);
        let until = signed.at.plus_millis(self.attendance.join_ms);
        match signed.given_up {
            Some(since) => since.plus_millis(patience),
            None if self.is_last(signed) => until,
            None => until.min(signed.known_news().plus_millis(patience)),
        }
    }

    /// Returns the longest wait for news of these: twice the largest of their silence limits. So a
    /// node that is stopped for one of them is not yet left out.
    fn patience_ms(&self, seats: &[Seat]) -> u64 {
        let limits = seats.iter().map(|seat| self.presence.silent_ms(seat.party));
        let patience = limits.max().unwrap_or(0).saturating_mul(2);
        patience.min(self.attendance.join_ms)
    }

    fn is_last(&self, signed: &Signed) -> bool {
        signed.number.saturating_add(1) >= self.attendance.numbers
    }

    fn stands_again(&self, stood: Time) -> Time {
        stood.plus_millis(self.attendance.parties as u64 / STANDINGS_PER_MS)
    }

    /// Returns the standing of every party; `None` if a large run has looked a moment ago.
    fn standings(&mut self, now: Time, flood: &Flood) -> Option<Vec<Standing>> {
        let late = now >= self.opened.plus_millis(self.attendance.join_ms);
        if let Some((at, stood)) = &self.stood
            && !late
            && self.attendance.parties > MANY
            && now < self.stands_again(*at)
        {
            self.stale = true;
            // A step that follows another one at once sees what that one saw.
            return (now == *at).then(|| stood.clone());
        }
        let standings = self.presence.standings(flood, now);
        (self.stood, self.stale) = (Some((now, standings.clone())), false);
        Some(standings)
    }

    /// The next thing to do; call again until there is none.
    pub fn step(&mut self, now: Time, flood: &Flood) -> Option<GatheringStep> {
        if self.is_revealing() {
            return None;
        }
        let standings = match self.signed {
            None => self.standings(now, flood),
            Some(_) => None,
        };
        self.tell(now, flood, standings.as_deref())
            .or_else(|| match &self.signed {
                _ if self.is_held_back() => self.step_held_back(now, flood),
                None => self.sign(now, flood, standings.as_deref()),
                Some(signed) if signed.given_up.is_some() => self.sign_next(now, flood),
                Some(_) => self.begin(now, flood),
            })
    }

    /// Returns the next report for neighbours or people, if one is due.
    fn tell(&mut self, now: Time, flood: &Flood, standings: Option<&[Standing]>) -> Option<GatheringStep> {
        if now >= self.pulse {
            self.pulse = now.plus_millis(self.presence.pulse_ms());
            return Some(GatheringStep::Pulse);
        }
        if self.signed.is_none() && now >= self.next_word {
            let coming_up = self.opened.plus_millis(self.attendance.join_ms / COMING_UP);
            let early = self.attendance.parties > MANY && now < coming_up;
            let unreached = self.presence.unreached(flood, now, early);
            if unreached != self.unreached {
                self.unreached.clone_from(&unreached);
                self.next_word = now.plus_millis(self.presence.pulse_ms());
                return Some(GatheringStep::Say(Notice::Unreached { parties: unreached }));
            }
        }
        let patient = now < self.reported.plus_millis(TELL_MS);
        let awaited: Vec<Party> = if self.has_signed() {
            self.lacking(flood, if patient { FEW + 1 } else { usize::MAX })
        } else {
            let waits = |(_, standing): &(Party, &Standing)| **standing != Standing::Ready;
            let waits = standings?.iter().enumerate().filter(waits);
            waits.map(|(party, _)| party).collect()
        };
        if (patient && awaited.len() > FEW) || self.awaited.as_ref() == Some(&awaited) {
            return None;
        }
        self.reported = now;
        self.awaited = Some(awaited.clone());
        Some(GatheringStep::Await(awaited))
    }

    /// Returns up to `most` members of the START signed last that have not signed it, ascending.
    fn lacking(&mut self, flood: &Flood, most: usize) -> Vec<Party> {
        self.signed
            .as_mut()
            .map_or_else(Vec::new, |signed| signed.lacking(flood, most))
    }

    fn begin(&mut self, now: Time, flood: &Flood) -> Option<GatheringStep> {
        let signed = self.signed.as_mut()?;
        signed.last_news(flood, now);
        if let Some(by) = self.excluded(flood) {
            return Some(GatheringStep::Abort(Unstarted::LeftOut { by }));
        }
        let signed = self.signed.as_ref()?;
        let (is_over, is_last) = (now >= self.signed_deadline(signed), self.is_last(signed));
        // An honest one among them never begins with this set: this node is of use in the next.
        let gave_up = signed
            .seats
            .iter()
            .filter(|seat| signed.has_given_up(flood, seat));
        let is_given_up = !is_last && gave_up.count() > self.attendance.colluding;
        let lacking = self.lacking(flood, if is_over || is_given_up { usize::MAX } else { 1 });
        let signed = self.signed.as_mut()?;
        if is_given_up || (is_over && !is_last && !lacking.is_empty()) {
            signed.given_up = Some(now);
            return Some(self.give_up(lacking));
        }
        if lacking.is_empty() {
            let parties = signed.seats.iter().map(|seat| seat.party).collect();
            let (number, seats) = (signed.number, signed.seats.clone());
            let seed = self.seed(flood, number, &seats);
            return Some(GatheringStep::Begin {
                number,
                parties,
                seed,
            });
        }
        if is_over {
            let same = |party: &&Party| {
                HeldStart::of(flood, signed.number, **party).is_some_and(|said| signed.is(&said))
            };
            return Some(match lacking.iter().find(same) {
                Some(liar) => GatheringStep::Liar(*liar),
                None => self.not_common(flood, lacking, vec![]),
            });
        }
        // Among the STARTs that were refused before this node signed may be one that it lacks now.
        let refused = !signed.recalled
            && flood
                .passed_over(signed.number)
                .any(|party| signed.lacks(flood, party));
        signed.recalled |= refused;
        refused.then_some(GatheringStep::Call)
    }

    fn give_up(&self, lacking: Vec<Party>) -> GatheringStep {
        let number = self.signed.as_ref().map_or(0, |signed| signed.number);
        let next = self
            .draw
            .as_ref()
            .map(|draw| self.own_commitment(draw, number + 1));
        let notice = Notice::GiveUp {
            number,
            incarnation: self.me.incarnation,
            next,
        };
        GatheringStep::GiveUp { notice, lacking }
    }

    /// The START after one that this node has given up.
    fn sign_next(&mut self, now: Time, flood: &Flood) -> Option<GatheringStep> {
        let signed = self.signed.as_ref()?;
        let next = signed.number + 1;
        if let Some(seats) = self.joined(flood, next) {
            return Some(self.signed(now, flood, next, seats));
        }
        if let Some(by) = self.left_out(flood, next).or_else(|| self.excluded(flood)) {
            return Some(GatheringStep::Abort(Unstarted::LeftOut { by }));
        }
        let is_over = now >= self.signed_deadline(signed);
        let (survivors, starters) = signed.survivors(flood);
        let is_enough = |seats: &[Seat]| seats.len() >= self.attendance.min_parties;
        if is_enough(&survivors) && (is_over || survivors.len() == starters) {
            return Some(self.signed(now, flood, next, survivors));
        }
        let reunited = if is_over { self.reunited(flood) } else { vec![] };
        if is_enough(&reunited) {
            return Some(self.signed(now, flood, next, reunited));
        }
        is_over.then(|| {
            let lacking = self.lacking(flood, usize::MAX);
            let signed = self.signed.as_ref();
            let kept = signed.map_or_else(Vec::new, |signed| signed.kept(flood, self.me.party));
            self.not_common(flood, lacking, kept)
        })
    }

    /// The schedule's seed, once every START of this number is here.
    fn seed(&self, flood: &Flood, number: u8, seats: &[Seat]) -> Option<u64> {
        let nonces = seats
            .iter()
            .filter_map(|seat| Some((seat.party, flood.reveal(number, seat.party)?.1)));
        self.draw
            .as_ref()
            .map(|draw| commitment::seed(&draw.digest, nonces))
    }

    /// The hash of the commitments of these seats for a START of this number, as they are here;
    /// `None` if one is not. A commitment that came after others' nonces would be a choice of the
    /// seed.
    fn commitments(&self, flood: &Flood, number: u8, seats: &[Seat]) -> Option<Commitments> {
        let held = |seat: &Seat| Some((seat.party, flood.commitment(number, seat.party)?));
        let held: Vec<(Party, &Commitment)> = seats.iter().map(held).collect::<Option<_>>()?;
        self.draw
            .as_ref()
            .map(|draw| commitment::commitments(&draw.digest, held))
    }

    fn sign(&mut self, now: Time, flood: &Flood, standings: Option<&[Standing]>) -> Option<GatheringStep> {
        if let Some(standings) = standings {
            let missing = |(_, standing): &(Party, Standing)| *standing != Standing::Ready;
            self.without = standings.iter().copied().enumerate().filter(missing).collect();
        }
        if let Some(seats) = self.joined(flood, 0) {
            return Some(self.signed(now, flood, 0, seats));
        }
        if let Some(by) = self.left_out(flood, 0) {
            return Some(GatheringStep::Abort(Unstarted::LeftOut { by }));
        }
        let standings = standings?;
        let late = now >= self.opened.plus_millis(self.attendance.join_ms);
        let counts =
            |standing: Standing| standing == Standing::Ready || (late && standing == Standing::Apart);
        let there = |seat: &Seat| counts(standings[seat.party]);
        let ready: Vec<Seat> = flood.readies().into_iter().filter(there).collect();
        let enough = ready.len() >= self.attendance.min_parties;
        if ready.len() == self.attendance.parties || (enough && self.is_grace_over(now, &ready, standings)) {
            return Some(self.signed(now, flood, 0, ready));
        }
        if late {
            let missing = self.without.iter().copied();
            let missing = missing.filter(|(_, standing)| !counts(*standing));
            return Some(if enough {
                self.signed(now, flood, 0, ready)
            } else {
                GatheringStep::Abort(Unstarted::TooFew {
                    ready: ready.len(),
                    missing: missing.collect(),
                })
            });
        }
        let uncalled = flood
            .starters(0)
            .find(|party| self.proposal(flood, 0, *party).is_some() && !self.called.contains(party))?;
        self.called.insert(uncalled);
        Some(GatheringStep::Call)
    }

    fn signed(&mut self, now: Time, flood: &Flood, number: u8, seats: Vec<Seat>) -> GatheringStep {
        let commitments = self.commitments(flood, number, &seats);
        let hash = wire::set_hash(&Set::Seats(seats.clone()));
        let incarnation = self.me.incarnation;
        let draws = self.draw.as_ref().map(|draw| draw.digest);
        let named = (seats.clone(), hash);
        self.signed = Some(Signed::new(number, named, commitments, draws, now));
        if let (Some(draw), Some(commitments)) = (&self.draw, commitments) {
            self.unsaid = Some(Notice::Reveal {
                number,
                incarnation,
                seats: hash,
                commitments,
                nonce: commitment::nonce(&draw.secret, number),
            });
            return GatheringStep::Reveal;
        }
        let notice = Notice::Start {
            number,
            incarnation,
            seats: hash,
        };
        GatheringStep::Start { seats, notice }
    }
}

#[cfg(test)]
mod tests;
