//! Who takes part: READY, then one START that all of its members sign alike.
//!
//! A node signs exactly one START(S): (i) once it holds every member's READY, each of a party that
//! is there ([`presence`](crate::agreement::presence)); (ii) `grace_ms` after all who can be
//! reached were ready, or `join_ms` after its own READY, over those who are ready and there, if
//! they are at least `min_parties`; (iii) on a START(S) that names it, once it holds the READYs
//! that S names. It begins only if it holds START(S) of the same S from every member of S, and
//! aborts `join_ms` after signing otherwise; nothing private has left by then.
//!
//! Whoever signed over a party that left at that very moment can only abort: a second START would
//! let one node begin with a set that the others have given up. So a START over somebody who is not
//! there is avoided beforehand.

use std::collections::{BTreeMap, BTreeSet};

use crate::agreement::flood::Flood;
use crate::agreement::presence::{Presence, Standing};
use crate::messages::commitment::{self, Commitments, Nonce, commitment};
use crate::messages::notice::{Incarnation, Notice, Seat, SetHash, Unreached};
use crate::messages::set::Set;
use crate::messages::signature::Digest;
use crate::messages::wire;
use crate::sealing::run_key::{PairKey, RunKey, incarnation};
use crate::time::Time;
use crate::topology::party::Party;

/// Whom a node waits for is told as it changes while these are few, and else so often: many come at
/// once, and everybody's log names all who are missing. Our choice.
const FEW: usize = 16;
const TELL_MS: u64 = 1000;

/// A plan of more parties than this has many. Our choice.
const MANY: usize = 32;

/// Where there are many, a node looks who is there once a millisecond for so many parties, not at
/// each word: it goes through what everybody says of everybody. Our choice.
const STANDINGS_PER_MS: u64 = 10;

/// Where there are many, a node says nothing of those who never came for this share of `join_ms`:
/// parties come up one after another, and each would name all who are still to come. Our choice.
const COMING_UP: u64 = 8;

/// What gathering wants done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatheringStep {
    /// Sign this notice and flood it.
    Say(Notice),
    /// Sign START over these, which it names by their hash, and flood it.
    Start {
        /// Who takes part, ascending by party.
        seats: Vec<Seat>,
        /// The START.
        notice: Notice,
    },
    /// Ask all public neighbours for the READYs that they hold.
    Call,
    /// Everybody of this set begins, with the seed of the schedule where START draws it.
    Begin(BTreeSet<Party>, Option<u64>),
    /// Tell all public neighbours that this node is here.
    Pulse,
    /// These are waited for now.
    Await(Vec<Party>),
    /// The run is over for this node, and nothing private has left.
    Abort(Unstarted),
    /// The run is over, since this party revealed another nonce than it had committed to; nothing
    /// private has left.
    Liar(Party),
}

/// Why a run does not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unstarted {
    /// Too few are ready, and there.
    TooFew {
        /// So many are.
        ready: usize,
        /// All others, and where they stand.
        missing: Vec<(Party, Standing)>,
    },
    /// Not all of START have signed the same.
    NotCommon {
        /// They have signed none.
        silent: Vec<Party>,
        /// They have signed another one.
        other: Vec<Party>,
        /// They have signed two.
        two: Vec<Party>,
    },
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
    seats: SetHash,
    commitments: Option<&'a Commitments>,
}

impl<'a> HeldStart<'a> {
    fn of(flood: &'a Flood, party: Party) -> Option<Self> {
        Some(HeldStart {
            seats: flood.start(party)?.0,
            commitments: flood.reveal(party).map(|(commitments, _)| commitments),
        })
    }

    fn is(&self, signed: &Signed) -> bool {
        self.seats == signed.hash && self.commitments == signed.commitments.as_ref()
    }
}

/// What was signed: whom START names, and the hash of their commitments where it draws the
/// schedule.
struct Signed {
    seats: Vec<Seat>,
    hash: SetHash,
    commitments: Option<Commitments>,
}

/// Who gathers: a party, with the key of this start of its node.
pub struct Entrant {
    /// The party of this node.
    pub party: Party,
    /// What letters to it are written to, drawn for this start.
    pub key: RunKey,
    /// What its masks with others follow from, drawn for this start; none where there are none.
    pub pair: Option<PairKey>,
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
    /// How long those who cannot be reached are waited for once all others are ready.
    pub grace_ms: u64,
}

/// The gathering phase of one node.
pub struct Gathering {
    /// The party of this node, with the incarnation of this start.
    me: Seat,
    /// What the incarnation is made of.
    key: RunKey,
    pair: Option<PairKey>,
    attendance: Attendance,
    opened: Time,
    draw: Option<Draw>,
    signed: Option<(Time, Signed)>,
    /// Whom START names and who was not seen yet to have signed it: once somebody has, that stays
    /// ([`flood`](crate::agreement::flood)).
    pending: BTreeMap<Party, Incarnation>,
    /// STARTs whose READYs were asked for, so that each is asked for once.
    called: BTreeSet<Party>,
    /// Refused STARTs were asked for again.
    recalled: bool,
    /// Who is there.
    pub presence: Presence,
    /// When to say again that this node is here.
    pulse: Time,
    /// What was said last of neighbours that are not reached.
    unreached: Vec<Unreached>,
    /// When something else of them may be said: while all come up, much changes within a moment.
    next_word: Time,
    /// Where everybody stood, and when; and whether something has come since.
    stood: Option<(Time, Vec<Standing>)>,
    stale: bool,
    /// Whom the last step waited for, and when that was told.
    awaited: Option<Vec<Party>>,
    told: Time,
    /// Since when all who can be reached are ready, and who these are.
    complete: Option<(Time, Vec<Seat>)>,
}

impl Gathering {
    /// The run key, once everybody begins, and the pair key: letters are written and read with the
    /// one, masks of pairs made of the other.
    pub fn into_keys(self) -> (RunKey, Option<PairKey>) {
        (self.key, self.pair)
    }

    /// Begins when this node floods its READY. `draw`: what START draws the schedule with, if it
    /// does.
    pub fn new(
        Entrant { party, key, pair }: Entrant,
        attendance: Attendance,
        presence: Presence,
        opened: Time,
        draw: Option<Draw>,
    ) -> Self {
        let incarnation = incarnation(key.public(), pair.as_ref().map(PairKey::public));
        Gathering {
            me: Seat { party, incarnation },
            key,
            pair,
            attendance,
            opened,
            draw,
            signed: None,
            pending: BTreeMap::new(),
            called: BTreeSet::new(),
            recalled: false,
            pulse: opened.plus_millis(presence.pulse_ms()),
            presence,
            unreached: Vec::new(),
            next_word: opened,
            stood: None,
            stale: false,
            awaited: None,
            told: Time::ZERO,
            complete: None,
        }
    }

    /// The READY to flood.
    pub fn ready(&self) -> Notice {
        let (key, pair) = (*self.key.public(), self.pair.as_ref().map(|pair| *pair.public()));
        match &self.draw {
            None => Notice::Ready { key, pair },
            Some(draw) => Notice::Commit {
                key,
                pair,
                commitment: commitment(&draw.digest, self.me.party, &draw.nonce),
            },
        }
    }

    /// Whether this node has signed its START.
    pub fn has_signed(&self) -> bool {
        self.signed.is_some()
    }

    /// What a node floods that leaves before it has signed its START.
    pub fn withdrawal(&self) -> Option<Notice> {
        let incarnation = self.me.incarnation;
        (!self.has_signed()).then_some(Notice::Withdraw { incarnation })
    }

    /// When to step again although nothing happened.
    pub fn wake(&self, now: Time) -> Time {
        let grace = |(since, _): &(Time, Vec<Seat>)| since.plus_millis(self.attendance.grace_ms);
        let before = |deadline: Time| {
            // Once it is over, others' words or another look at where they stand decide.
            let grace = self.complete.as_ref().map(grace).filter(|&at| at > now);
            let grace = grace.unwrap_or(Time::FAR);
            deadline.min(grace).min(self.presence.wake(now))
        };
        let deadline = |from: Time| from.plus_millis(self.attendance.join_ms);
        let phase = match &self.signed {
            Some((at, _)) => deadline(*at),
            None => before(deadline(self.opened)),
        };
        let told = self
            .awaited
            .as_ref()
            .map_or(Time::FAR, |awaited| match awaited.len() > FEW {
                true => self.told.plus_millis(TELL_MS).max(now.plus_millis(1)),
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
        phase.min(self.pulse).min(told).min(word).min(stand)
    }

    fn stands_again(&self, stood: Time) -> Time {
        stood.plus_millis(self.attendance.parties as u64 / STANDINGS_PER_MS)
    }

    /// Where everybody stands; none if that was looked at a moment ago, and there are many.
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
        let standings = match self.signed {
            None => self.standings(now, flood),
            Some(_) => None,
        };
        self.tell(now, flood, standings.as_deref())
            .or_else(|| match self.signed {
                None => self.sign(now, flood, standings.as_deref()),
                Some(_) => self.begin(now, flood),
            })
    }

    /// What neighbours and people want to know on the way.
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
        let patient = now < self.told.plus_millis(TELL_MS);
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
        self.told = now;
        self.awaited = Some(awaited.clone());
        Some(GatheringStep::Await(awaited))
    }

    /// Whose START is not the one that was signed, or reveals another nonce than its READY
    /// committed to: so many of them at most, ascending.
    fn lacking(&mut self, flood: &Flood, most: usize) -> Vec<Party> {
        let Some((_, signed)) = &self.signed else {
            return Vec::new();
        };
        let (mut lacking, mut seen) = (Vec::new(), Vec::new());
        for (&party, incarnation) in &self.pending {
            if lacking.len() == most {
                break;
            }
            match self.has_signed_alike(flood, signed, party, incarnation) {
                true => seen.push(party),
                false => lacking.push(party),
            }
        }
        seen.iter().for_each(|party| {
            self.pending.remove(party);
        });
        lacking
    }

    /// Whether this start of a party's node has signed the START that this node has, and reveals
    /// the nonce that it committed to.
    fn has_signed_alike(
        &self,
        flood: &Flood,
        signed: &Signed,
        party: Party,
        incarnation: &Incarnation,
    ) -> bool {
        let same = HeldStart::of(flood, party).is_some_and(|said| said.is(signed));
        let by_it = flood.start(party).is_some_and(|(_, by)| by == *incarnation);
        same && by_it && !self.lies(flood, party)
    }

    fn begin(&mut self, now: Time, flood: &Flood) -> Option<GatheringStep> {
        let late = |at: &Time| now >= at.plus_millis(self.attendance.join_ms);
        let is_late = self.signed.as_ref().is_some_and(|(at, _)| late(at));
        let lacking = self.lacking(flood, if is_late { usize::MAX } else { 1 });
        let (_, signed) = self.signed.as_ref()?;
        if lacking.is_empty() {
            let members = signed.seats.iter().map(|seat| seat.party);
            return Some(GatheringStep::Begin(
                members.collect(),
                self.seed(flood, &signed.seats),
            ));
        }
        if is_late {
            let said = |party: &&Party| HeldStart::of(flood, **party).is_some_and(|said| said.is(signed));
            return Some(match lacking.iter().find(said) {
                Some(liar) => GatheringStep::Liar(*liar),
                None => GatheringStep::Abort(not_common(flood, lacking)),
            });
        }
        // Among the STARTs that were refused before this node signed may be one that it lacks now.
        let lacks = |party: Party| {
            let pending = self.pending.get(&party);
            pending.is_some_and(|by| !self.has_signed_alike(flood, signed, party, by))
        };
        let refused = !self.recalled && flood.passed_over().any(lacks);
        self.recalled |= refused;
        refused.then_some(GatheringStep::Call)
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

    fn sign(&mut self, now: Time, flood: &Flood, standings: Option<&[Standing]>) -> Option<GatheringStep> {
        if let Some(seats) = self.joined(flood) {
            return Some(self.signed(now, flood, seats));
        }
        let standings = standings?;
        let late = now >= self.opened.plus_millis(self.attendance.join_ms);
        let counts =
            |standing: Standing| standing == Standing::Ready || (late && standing == Standing::Apart);
        let there = |seat: &Seat| counts(standings[seat.party]);
        let ready: Vec<Seat> = flood.readies().into_iter().filter(there).collect();
        let enough = ready.len() >= self.attendance.min_parties;
        if ready.len() == self.attendance.parties || (enough && self.is_grace_over(now, &ready, standings)) {
            return Some(self.signed(now, flood, ready));
        }
        if late {
            let missing = standings.iter().copied().enumerate();
            let missing = missing.filter(|(_, standing)| !counts(*standing));
            return Some(if enough {
                self.signed(now, flood, ready)
            } else {
                GatheringStep::Abort(Unstarted::TooFew {
                    ready: ready.len(),
                    missing: missing.collect(),
                })
            });
        }
        let uncalled = flood
            .starters()
            .find(|party| self.names_me(flood, *party) && !self.called.contains(party))?;
        self.called.insert(uncalled);
        Some(GatheringStep::Call)
    }

    /// Whether these have been all who can be reached for long enough.
    fn is_grace_over(&mut self, now: Time, ready: &[Seat], standings: &[Standing]) -> bool {
        let waits = |standing: &Standing| !matches!(standing, Standing::Ready | Standing::Away);
        if standings.iter().any(waits) {
            self.complete = None;
            return false;
        }
        match &self.complete {
            Some((since, these)) if these == ready => now >= since.plus_millis(self.attendance.grace_ms),
            _ => {
                self.complete = Some((now, ready.to_vec()));
                self.attendance.grace_ms == 0
            }
        }
    }

    fn signed(&mut self, now: Time, flood: &Flood, seats: Vec<Seat>) -> GatheringStep {
        let commitments = self.commitments(flood, &seats);
        let set = Set::Seats(seats.clone());
        let (hash, incarnation) = (wire::set_hash(&set), self.me.incarnation);
        let signed = Signed {
            seats: seats.clone(),
            hash,
            commitments,
        };
        self.signed = Some((now, signed));
        self.pending = seats.iter().map(|seat| (seat.party, seat.incarnation)).collect();
        let notice = match (&self.draw, commitments) {
            (Some(draw), Some(commitments)) => Notice::Reveal {
                incarnation,
                seats: hash,
                commitments,
                nonce: draw.nonce,
            },
            _ => Notice::Start {
                incarnation,
                seats: hash,
            },
        };
        GatheringStep::Start { seats, notice }
    }

    /// Whom a party's START names, if that is known, this node and its signer among them.
    fn proposal<'a>(&self, flood: &'a Flood, party: Party) -> Option<&'a [Seat]> {
        let (seats, incarnation) = flood.start(party)?;
        let seats = flood.seats(&seats)?;
        let names = |seat: &Seat| seats.binary_search(seat).is_ok();
        let named = names(&self.me) && names(&Seat { party, incarnation });
        (named && seats.len() >= self.attendance.min_parties).then_some(seats)
    }

    fn names_me(&self, flood: &Flood, party: Party) -> bool {
        self.proposal(flood, party).is_some()
    }

    /// The START of somebody else to join: it names this start of this node, and every READY that
    /// it names is held and newest. If there are several, the one that most parties signed. Whoever
    /// signed one signs no other, so joining beats proposing.
    fn joined(&self, flood: &Flood) -> Option<Vec<Seat>> {
        let current = |seat: &Seat| flood.ready(seat.party) == Some(seat.incarnation);
        // Every distinct one is looked at once, however many have signed it.
        let mut candidates: Vec<(HeldStart<'_>, Option<&[Seat]>, usize)> = Vec::new();
        for party in flood.starters() {
            let (Some(said), Some(seats)) = (HeldStart::of(flood, party), self.proposal(flood, party)) else {
                continue;
            };
            if let Some((_, _, signers)) = candidates.iter_mut().find(|(other, ..)| *other == said) {
                *signers += 1;
                continue;
            }
            let same = || said.commitments.copied() == self.commitments(flood, seats);
            let joinable = seats.iter().all(current) && same();
            candidates.push((said, joinable.then_some(seats), 1));
        }
        let joinable = candidates
            .into_iter()
            .filter_map(|(_, seats, signers)| Some((seats?, signers)));
        // The first of equal ones is taken.
        let most = joinable.rev().max_by_key(|(_, signers)| *signers);
        most.map(|(seats, _)| seats.to_vec())
    }
}

/// Who has signed another START than the others, or none.
fn not_common(flood: &Flood, lacking: Vec<Party>) -> Unstarted {
    let (two, once): (Vec<Party>, Vec<Party>) = lacking
        .into_iter()
        .partition(|&party| flood.signed_two_starts(party));
    let (other, silent) = once.into_iter().partition(|&party| flood.start(party).is_some());
    Unstarted::NotCommon { silent, other, two }
}

#[cfg(test)]
mod tests;
