//! The mixing phase of one node: rounds and their deadlines, and what becomes of each share.
//!
//! Round r ends when all expected shares are in and all own shares have left, at the latest r ×
//! `round_ms` after this node held every START. A node never skips a round: one that was suspended
//! makes up its round ends in order. At the end of its round a share of which no byte has left
//! rejoins the state, for good; one that left and was not answered is held aside, sent again bit
//! for bit on a new connection, and goes back only if the agreed logs say so
//! ([`Exchange::settle`]).
//!
//! What left is told from outside ([`Exchange::left`]). Of shares that were given out and of which
//! that was not told by the end of their round, it asks ([`Deed::Recall`]): the round ends with the
//! answer ([`Exchange::recalled`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::lattice::grid::LatticeWeight;
use crate::lattice::packed::PackedVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::{
    AgreedLogs, Answer, Fate, Log, ReceivedEntry, SentEntry, ShareId, Verdict, fates,
};
use crate::messages::wire::{self, Bytes};
use crate::mixing::course::Course;
use crate::mixing::machine::Mixing;
use crate::mixing::portion::{NoiseSource, Portion};
use crate::mixing::ticket::Recalled;
use crate::time::Time;
use crate::topology::party::Party;

/// What the machine wants done.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Send a share.
    Share {
        /// To whom.
        to: Party,
        /// Its frame.
        frame: Arc<[u8]>,
        /// Which share it is.
        id: ShareId,
    },
    /// Call these shares back, and say what became of them. Nothing else of the round's end is done
    /// before.
    Recall(Vec<ShareId>),
    /// Sign and send an answer.
    Answer {
        /// To which share.
        id: ShareId,
        /// What to say.
        verdict: Verdict,
    },
    /// A round has begun.
    Round(u32),
    /// Something that went wrong, without values.
    Fault(String),
    /// A peer did what it may not do; it was ignored.
    Offence {
        /// Who.
        peer: Party,
        /// What.
        text: String,
    },
}

/// All noise is in what was prepared.
struct Drawn;

impl NoiseSource<LatticeVector> for Drawn {
    fn draw(&mut self, _: usize, _: u32) -> PackedVector {
        unreachable!("a mixing machine that is prepared for every round draws no noise")
    }
}

/// Where an own share is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// It was not given out, for want of a connection: its mass is deducted until its round ends.
    Here,
    /// It was given out: its mass is deducted, and a byte of it may have left.
    GivenOut,
    /// Bytes of it have left, as far as this node knows: its mass is deducted.
    Left,
    /// It rejoined the state.
    Back,
}

struct Outgoing {
    /// None once its receiver has accepted it, or it came back: nothing will be sent or taken back
    /// again.
    sent: Option<Sent>,
    weight: LatticeWeight,
    whereabouts: Whereabouts,
    answer: Option<Answer>,
}

impl Outgoing {
    /// Whether its mass is deducted.
    fn is_out(&self) -> bool {
        self.whereabouts != Whereabouts::Back
    }
}

/// What is known of the running round's shares at its end.
enum Recall {
    /// Nothing was asked yet.
    Unasked,
    /// An answer is due about these.
    Asked(Vec<ShareId>),
    /// What did not leave by now never will.
    Answered,
}

/// An own share's frame, and its values.
struct Sent {
    frame: Arc<[u8]>,
    value: PackedVector,
}

/// A share as it arrived: its coordinates are not checked yet.
#[derive(Clone)]
pub(crate) struct Arrival {
    pub(crate) weight: LatticeWeight,
    pub(crate) values: Bytes,
}

/// How things stand when mixing begins.
pub struct Opening {
    /// When this node held every START: deadlines count from here.
    pub start: Time,
    /// Now.
    pub now: Time,
    /// Members of the plan that are not in START, and whoever is gone already.
    pub absent: BTreeSet<Party>,
    /// Private neighbours that can be reached.
    pub connected: BTreeSet<Party>,
}

/// The mixing phase of one node.
pub struct Exchange {
    course: Course,
    mixing: Mixing<LatticeVector, LatticeWeight>,
    /// 1…T while it runs, T + 1 afterwards.
    round: u32,
    began: Time,
    start: Time,
    outgoing: BTreeMap<ShareId, Outgoing>,
    /// What was said about the shares that arrived, by (round, from).
    pub(crate) received: BTreeMap<(u32, Party), Verdict>,
    /// Shares of rounds to come.
    waiting: BTreeMap<(u32, Party), Arrival>,
    connected: BTreeSet<Party>,
    gone: BTreeSet<Party>,
    /// Not waited for again: they missed a deadline.
    missed: BTreeSet<Party>,
    recall: Recall,
    /// The log is signed.
    closed: bool,
    deeds: Vec<Deed>,
}

impl Exchange {
    /// Begins round 1. `mixing` is what [`Course::begin`] made.
    pub fn new(course: Course, mixing: Mixing<LatticeVector, LatticeWeight>, opening: Opening) -> Self {
        let Opening {
            start,
            now,
            absent,
            connected,
        } = opening;
        let mut exchange = Exchange {
            course,
            mixing,
            round: 0,
            began: start,
            start,
            outgoing: BTreeMap::new(),
            received: BTreeMap::new(),
            waiting: BTreeMap::new(),
            connected,
            gone: absent,
            missed: BTreeSet::new(),
            recall: Recall::Unasked,
            closed: false,
            deeds: Vec::new(),
        };
        exchange.begin_round(now, 1);
        exchange
    }

    /// What to do since the last call, in order.
    pub fn take_deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }

    /// The round that runs, T + 1 after the last.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Whether all rounds are over.
    pub fn is_over(&self) -> bool {
        self.round > self.course.rounds()
    }

    /// When round `round` ends at the latest.
    pub fn deadline(&self, round: u32) -> Time {
        self.start
            .plus_millis(u64::from(round).saturating_mul(self.course.round_ms))
    }

    /// When to call [`Exchange::advance`] although nothing happened.
    pub fn wake(&self, now: Time) -> Time {
        let round = self.round.min(self.course.rounds());
        let earlier = [
            self.began.plus_millis(self.course.pace_ms),
            self.began.plus_millis(self.course.handover_patience_ms()),
        ];
        let running = earlier.into_iter().filter(|&at| !self.is_over() && at > now);
        running
            .chain([self.deadline(round)])
            .filter(|&at| at > now)
            .min()
            .unwrap_or(Time::FAR)
    }

    /// Ends every round that can end now, as far as it is known what left.
    pub fn advance(&mut self, now: Time) {
        while !self.is_over() && self.is_ready_to_end(now) {
            self.end_round();
            if !self.is_over() {
                self.begin_round(now, self.round + 1);
            }
        }
    }

    /// Whether the round can end, and nothing more has to be asked for that.
    fn is_ready_to_end(&mut self, now: Time) -> bool {
        match self.recall {
            Recall::Asked(_) => false,
            Recall::Answered => true,
            Recall::Unasked => self.can_end(now) && !self.recall(),
        }
    }

    /// Asks for all shares that are given out and may not have left. False: there is none.
    fn recall(&mut self) -> bool {
        let given_out = self
            .outgoing
            .iter()
            .filter(|(_, share)| share.whereabouts == Whereabouts::GivenOut);
        let ids: Vec<ShareId> = given_out.map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return false;
        }
        self.deeds.push(Deed::Recall(ids.clone()));
        self.recall = Recall::Asked(ids);
        true
    }

    /// Whether an answer is due about exactly these shares.
    pub(crate) fn has_asked_for(&self, recalled: &Recalled) -> bool {
        let mut named: Vec<ShareId> = [&recalled.left[..], &recalled.back[..]].concat();
        named.sort_unstable();
        matches!(&self.recall, Recall::Asked(ids) if *ids == named)
    }

    /// The answer to [`Deed::Recall`]: the round can end.
    pub fn recalled(&mut self, recalled: &Recalled) {
        recalled.left.iter().for_each(|&id| self.left(id));
        self.recall = Recall::Answered;
    }

    /// The first byte of a share is being handed to the transport. Told again, or late, it changes
    /// nothing: a share that was called back never leaves.
    pub fn left(&mut self, id: ShareId) {
        if let Some(share) = self.outgoing.get_mut(&id)
            && share.is_out()
        {
            share.whereabouts = Whereabouts::Left;
        }
    }

    fn can_end(&self, now: Time) -> bool {
        if now >= self.deadline(self.round) {
            return true;
        }
        if now < self.began.plus_millis(self.course.pace_ms) {
            return false;
        }
        let handover = self.began.plus_millis(self.course.handover_patience_ms());
        let in_hand = |from: Party| {
            self.received.contains_key(&(self.round, from))
                || self.gone.contains(&from)
                || self.missed.contains(&from)
        };
        let left = |to: &Party| {
            let id = ShareId {
                round: self.round,
                from: self.course.me,
                to: *to,
            };
            let given_up = self.missed.contains(to) && (!self.connected.contains(to) || now >= handover);
            given_up
                || self.gone.contains(to)
                || self
                    .outgoing
                    .get(&id)
                    .is_none_or(|share| share.whereabouts == Whereabouts::Left)
        };
        self.course.due_in(self.round).all(in_hand)
            && self
                .course
                .schedule
                .sends_to(self.round, self.course.me)
                .iter()
                .all(left)
    }

    fn begin_round(&mut self, now: Time, round: u32) {
        (self.round, self.began) = (round, now);
        self.deeds.push(Deed::Round(round));
        let schedule = self.course.schedule.clone();
        let to = schedule.sends_to(round, self.course.me);
        self.hand_out(round, to);
        let last = (round, Party::MAX);
        let later = self.waiting.split_off(&last);
        for ((round, from), arrival) in std::mem::replace(&mut self.waiting, later) {
            self.take_in(
                ShareId {
                    round,
                    from,
                    to: self.course.me,
                },
                arrival,
            );
        }
    }

    /// Splits the state and hands out the shares of a round. The first is written where it travels
    /// from.
    fn hand_out(&mut self, round: u32, to: &[Party]) {
        let Some(&first) = to.first() else { return };
        let (course, length) = (&self.course, self.course.share_bytes());
        let id = |to: Party| ShareId {
            round,
            from: course.me,
            to,
        };
        let mut frame = None;
        let share = self.mixing.split(to, |state| {
            let write = |bytes: &mut [u8]| course.lattice.write_share(&state.value, round, bytes);
            let (made, written) =
                wire::share_frame_with(&course.digest, id(first), state.weight, length, write);
            if written.is_err() {
                return state.value.pack();
            }
            let values = Bytes::from_owner(made.clone()).slice(made.len() - length..);
            frame = Some(made);
            course.lattice.own_share(values)
        });
        let Some(frame) = frame else {
            // Twelve standard deviations fit, whatever peers send: see `Lattice::share_bound`.
            to.iter().for_each(|&to| self.mixing.take_back(to, &share));
            let text =
                format!("this node's shares of round {round} do not fit on the wire and were not sent");
            return self.deeds.push(Deed::Fault(text));
        };
        let values = &frame[frame.len() - length..];
        let others = to[1..].iter().map(|&to| {
            (
                id(to),
                wire::share_frame(&course.digest, id(to), share.weight, values),
            )
        });
        for (id, frame) in std::iter::once((id(first), frame.clone())).chain(others) {
            let mut whereabouts = Whereabouts::Here;
            if self.connected.contains(&id.to) {
                whereabouts = Whereabouts::GivenOut;
                self.deeds.push(Deed::Share {
                    to: id.to,
                    frame: frame.clone(),
                    id,
                });
            }
            let sent = Some(Sent {
                frame,
                value: share.value.clone(),
            });
            let weight = share.weight;
            self.outgoing.insert(
                id,
                Outgoing {
                    sent,
                    weight,
                    whereabouts,
                    answer: None,
                },
            );
        }
    }

    fn end_round(&mut self) {
        let id = |from, to| ShareId {
            round: self.round,
            from,
            to,
        };
        let ids: Vec<ShareId> = self
            .outgoing
            .range(id(0, 0)..=id(Party::MAX, Party::MAX))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            if self.outgoing[&id].whereabouts != Whereabouts::Left {
                self.take_back(id);
            }
        }
        self.recall = Recall::Unasked;
        for from in self.course.due_in(self.round) {
            if !self.received.contains_key(&(self.round, from)) {
                self.missed.insert(from);
            }
        }
        if self.round < self.course.rounds() {
            self.mixing.inject(&mut Drawn, self.round);
        } else {
            self.mixing.cancel();
            self.round += 1;
        }
    }

    /// Puts an own share's mass back. False: its frame is gone, since its receiver had accepted it.
    fn take_back(&mut self, id: ShareId) -> bool {
        let Some(share) = self.outgoing.get_mut(&id) else {
            return false;
        };
        let Some(sent) = share.sent.take() else {
            return false;
        };
        share.whereabouts = Whereabouts::Back;
        self.mixing.take_back(
            id.to,
            &Portion {
                value: sent.value,
                weight: share.weight,
            },
        );
        true
    }

    /// A share arrived from `peer` over its authenticated channel.
    pub(crate) fn share(&mut self, peer: Party, id: ShareId, arrival: Arrival) {
        if id.to != self.course.me || id.from != peer || !self.course.is_due(id.round, peer) {
            return self.offence(
                peer,
                format!(
                    "a share that is not due: round {}, from {} to {}",
                    id.round, id.from, id.to
                ),
            );
        }
        let key = (id.round, peer);
        if let Some(&verdict) = self.received.get(&key) {
            // It was sent again; so is the answer, which may have been lost.
            self.deeds.push(Deed::Answer { id, verdict });
        } else if self.closed {
            self.say(id, Verdict::Refused);
        } else if id.round > self.round {
            if arrival.values.len() == self.course.share_bytes() {
                self.waiting.entry(key).or_insert(arrival);
            } else {
                self.offence(
                    peer,
                    format!("a share of round {} of {} bytes", id.round, arrival.values.len()),
                );
                self.say(id, Verdict::Refused);
            }
        } else {
            self.take_in(id, arrival);
        }
    }

    /// Adds a share of this or an earlier round, or refuses it.
    fn take_in(&mut self, id: ShareId, arrival: Arrival) {
        let weight = arrival.weight;
        let grid = self.course.lattice.round_grid(id.round);
        let carries =
            weight.0.unsigned_abs() <= self.course.weight_bound.0.unsigned_abs() && weight.0 % grid == 0;
        let value = self
            .course
            .lattice
            .share(arrival.values, self.course.dimension, id.round);
        match value {
            Ok(value) if carries => {
                self.mixing.accept(id.from, &Portion { value, weight });
                self.say(
                    id,
                    Verdict::Accepted {
                        applied: self.round.min(self.course.rounds()),
                    },
                );
            }
            Ok(_) => {
                self.offence(
                    id.from,
                    format!("its share of round {} carries an impossible weight", id.round),
                );
                self.say(id, Verdict::Refused);
            }
            Err(reason) => {
                self.offence(id.from, format!("its share of round {}: {reason}", id.round));
                self.say(id, Verdict::Refused);
            }
        }
    }

    fn say(&mut self, id: ShareId, verdict: Verdict) {
        self.received.insert((id.round, id.from), verdict);
        self.deeds.push(Deed::Answer { id, verdict });
    }

    fn offence(&mut self, peer: Party, text: String) {
        self.deeds.push(Deed::Offence { peer, text });
    }

    /// An answer arrived from `peer`; its signature is good.
    pub fn answer(&mut self, peer: Party, id: ShareId, answer: Answer) {
        let rounds = self.course.rounds();
        let possible = match answer.verdict {
            Verdict::Refused => true,
            Verdict::Accepted { applied } => (id.round..=rounds).contains(&applied),
        };
        let known = self
            .outgoing
            .get_mut(&id)
            .filter(|share| id.to == peer && share.whereabouts == Whereabouts::Left && possible);
        let Some(share) = known else {
            return self.offence(
                peer,
                format!(
                    "an answer to no share that it was sent: round {}, to {}",
                    id.round, id.to
                ),
            );
        };
        match &share.answer {
            Some(before) if before.verdict != answer.verdict => {
                self.offence(
                    peer,
                    format!("two different answers to the share of round {}", id.round),
                );
            }
            Some(_) => {}
            None => {
                if answer.verdict != Verdict::Refused {
                    share.sent = None;
                }
                share.answer = Some(answer);
            }
        }
    }

    /// A private neighbour can be reached (again): shares that have not left or were not answered
    /// go out, bit for bit as before.
    pub fn connected(&mut self, peer: Party) {
        self.connected.insert(peer);
        for (id, share) in self.outgoing.iter_mut().filter(|(id, _)| id.to == peer) {
            let open = share.answer.is_none() && share.is_out();
            if let Some(sent) = share.sent.as_ref().filter(|_| open) {
                if share.whereabouts == Whereabouts::Here {
                    // On its way back: what is called back does not go out in the meantime.
                    if !matches!(self.recall, Recall::Unasked) {
                        continue;
                    }
                    share.whereabouts = Whereabouts::GivenOut;
                }
                self.deeds.push(Deed::Share {
                    to: id.to,
                    frame: sent.frame.clone(),
                    id: *id,
                });
            }
        }
    }

    /// The connection with a private neighbour is lost.
    pub fn disconnected(&mut self, peer: Party) {
        self.connected.remove(&peer);
    }

    /// A peer is gone, or (`false`) is back after all.
    pub fn gone(&mut self, peer: Party, gone: bool) {
        if gone {
            self.gone.insert(peer);
        } else {
            self.gone.remove(&peer);
        }
    }

    /// Whether the log can be signed: all rounds are over, and nothing more is due to this node or
    /// from it, or it is time.
    pub fn is_quiet(&self, now: Time) -> bool {
        let answered = |(id, share): (&ShareId, &Outgoing)| {
            share.whereabouts == Whereabouts::Back || share.answer.is_some() || self.gone.contains(&id.to)
        };
        let in_hand = |key: (u32, Party)| self.received.contains_key(&key) || self.gone.contains(&key.1);
        self.is_over()
            && (now >= self.deadline(self.course.rounds())
                || (self.course.due().all(in_hand) && self.outgoing.iter().all(answered)))
    }

    /// Whether a share that is due from this party has not come.
    pub fn is_owed_by(&self, party: Party) -> bool {
        self.course
            .due()
            .any(|(round, from)| from == party && !self.received.contains_key(&(round, from)))
    }

    /// The log, to be signed; from now on every share that was not answered before is refused.
    /// `gone`: whom it calls gone.
    pub fn close(&mut self, gone: Vec<Party>) -> Log {
        self.closed = true;
        self.waiting.clear();
        let mut due: BTreeMap<(u32, Party), SentEntry> = BTreeMap::new();
        for round in 1..=self.course.rounds() {
            for &to in self.course.schedule.sends_to(round, self.course.me) {
                due.insert(
                    (round, to),
                    SentEntry {
                        round,
                        to,
                        left: false,
                        answer: None,
                    },
                );
            }
        }
        for (id, share) in &self.outgoing {
            let entry = SentEntry {
                round: id.round,
                to: id.to,
                left: share.whereabouts == Whereabouts::Left,
                answer: share.answer.clone(),
            };
            due.insert((id.round, id.to), entry);
        }
        let received = self
            .received
            .iter()
            .filter_map(|(&(round, from), verdict)| match *verdict {
                Verdict::Accepted { applied } => Some(ReceivedEntry { round, from, applied }),
                Verdict::Refused => None,
            });
        Log {
            party: self.course.me,
            sent: due.into_values().collect(),
            received: received.collect(),
            gone,
        }
    }

    /// The final state, from the agreed logs: shares that the logs send back are taken back in T,
    /// then everybody outside of `publishers` is rolled back. Without roll-back a share that a
    /// departed party refused goes back, and all others that left stay where they are.
    ///
    /// # Errors
    /// A member's log denies a share that it has signed for: this node cannot take it back and must
    /// withhold.
    pub fn settle(
        mut self,
        logs: &AgreedLogs,
        publishers: &BTreeSet<Party>,
    ) -> Result<Portion<LatticeVector, LatticeWeight>, Party> {
        let fates = fates(logs, self.course.rounds());
        let ids: Vec<ShareId> = self
            .outgoing
            .iter()
            .filter(|(_, share)| share.is_out())
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let back = match fates.get(&id) {
                Some(fate) => matches!(fate, Fate::Returned { .. }),
                None => !self.course.rollback && self.was_refused(id),
            };
            if back && !self.take_back(id) && publishers.contains(&id.to) {
                return Err(id.to);
            }
        }
        let departed = (0..self.course.parties)
            .filter(|party| !publishers.contains(party))
            .collect();
        Ok(self.mixing.finish(&departed))
    }

    fn was_refused(&self, id: ShareId) -> bool {
        self.outgoing[&id]
            .answer
            .as_ref()
            .is_some_and(|answer| answer.verdict == Verdict::Refused)
    }

    /// Own shares by what became of them so far.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for share in self.outgoing.values() {
            match (&share.answer, share.whereabouts) {
                (_, Whereabouts::Back) => tally.returned += 1,
                (
                    Some(Answer {
                        verdict: Verdict::Accepted { .. },
                        ..
                    }),
                    _,
                ) => tally.accepted += 1,
                (Some(_), _) => tally.refused += 1,
                (None, _) => tally.unanswered += 1,
            }
        }
        tally
    }

    /// Calls back every share that may not have left, for a node that leaves. False: none is given
    /// out, and it is known what left.
    pub fn recall_all(&mut self) -> bool {
        match self.recall {
            Recall::Asked(_) => true,
            Recall::Answered => false,
            Recall::Unasked => self.recall(),
        }
    }

    /// Whether any byte of any share has left this node, as far as it knows: for sure if nothing is
    /// called back any more.
    pub fn anything_left(&self) -> bool {
        self.outgoing
            .values()
            .any(|share| share.whereabouts == Whereabouts::Left)
    }

    /// The state, for checks of conservation.
    pub(crate) fn state(&self) -> Portion<LatticeVector, LatticeWeight> {
        self.mixing.state()
    }

    /// The shares that joined the state, as (round, from).
    pub(crate) fn accepted_from(&self) -> impl Iterator<Item = (u32, Party)> {
        self.received
            .iter()
            .filter(|(_, verdict)| **verdict != Verdict::Refused)
            .map(|(key, _)| *key)
    }

    /// Own shares that are deducted, as far as their values are still here (an accepted one's are
    /// dropped).
    pub(crate) fn out(&self) -> impl Iterator<Item = (ShareId, Portion<LatticeVector, LatticeWeight>)> {
        let out = self.outgoing.iter().filter(|(_, share)| share.is_out());
        out.filter_map(|(id, share)| {
            Some((
                *id,
                Portion {
                    value: share.sent.as_ref()?.value.unpack(),
                    weight: share.weight,
                },
            ))
        })
    }

    /// Their ids.
    pub(crate) fn out_ids(&self) -> impl Iterator<Item = ShareId> {
        let out = self
            .outgoing
            .iter()
            .filter(|(_, share)| share.is_out() && share.sent.is_some());
        out.map(|(id, _)| *id)
    }

    /// How many rounds' ends the state has had, and one before round 1: with INCA the rows of (c,
    /// Z) that it has.
    pub(crate) fn injections(&self) -> usize {
        if self.is_over() {
            self.course.rounds() as usize + 1
        } else {
            self.round as usize
        }
    }
}

/// Counts of a node's own shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answered: accepted.
    pub accepted: usize,
    /// Answered: refused.
    pub refused: usize,
    /// Never left; back in the state.
    pub returned: usize,
    /// Out, without an answer.
    pub unanswered: usize,
}

#[cfg(test)]
mod tests;
