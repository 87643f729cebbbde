//! One round of secure sums over neighbourhoods, as one party carries its vectors: what it has
//! sealed for each of its readers, what its neighbours have sealed for it, and who has answered.
//!
//! In round t the party's message is z = θ + x + u. Reader a, a neighbour, gets N_aj·z + r_aj under
//! the party's own mask for that circle and the pair masks of the circle's members: residues of
//! which nobody reads anything alone. r_aj is fresh whole noise of 2^-6·N_aj·σ: without it two
//! readers of one party, with other weights, would know each z from sums of whole numbers. A vector
//! leaves for one reader, once; it is sent again bit for bit, and never made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::lattice::residue::{ResidueVector, Ring};
use crate::messages::log::{Answer, Log, ReceivedEntry, SentEntry, ShareId, Verdict};
use crate::messages::wire::Bytes;
use crate::mixing::gossip::close::HeldVectors;
use crate::sealing::deal::Deal;
use crate::time::Time;
use crate::topology::party::Party;

/// The number of a round's vectors in its log: each has a log of its own.
pub(crate) const LOGGED: u32 = 1;

/// An error in a sealed vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CircleOffence {
    /// Another author, another reader, or no active edge between them in that round.
    #[error("a sealed vector that is not due: from {} to {}", .0.from, .0.to)]
    NotDue(ShareId),
    /// Not as many residues as the plan says.
    #[error("a sealed vector of another length, or with a weight")]
    Shape,
    /// An answer to a vector that was not sent.
    #[error("an answer to a sealed vector that was not sent")]
    NotSent,
    /// Two answers that differ.
    #[error("two answers to one sealed vector")]
    TwoAnswers,
}

/// A vector that this party has sealed for a reader.
struct VectorOut {
    frame: Arc<[u8]>,
    left: bool,
    answer: Option<Answer>,
}

/// The term that a party adds to its own sum: its message times the rest of the weights.
pub(crate) struct OwnTerm {
    /// N_aa·z_a, coordinate by coordinate.
    pub(crate) steps: Zeroizing<Vec<i128>>,
    /// N_aa in units of 2^-16.
    pub(crate) factor: u32,
}

/// One party's vectors of one round.
pub(crate) struct CircleRound {
    me: Party,
    ring: Ring,
    dimension: usize,
    /// Neighbours in the round who were in the set of the round before.
    expected: BTreeSet<Party>,
    /// All neighbours in the round, by the plan, with their weights.
    row: Vec<(Party, u32)>,
    outgoing: BTreeMap<Party, VectorOut>,
    arrived: BTreeMap<Party, Bytes>,
    own: OwnTerm,
    /// The deal of the secret behind this node's masks of the round; `None` once the log has taken
    /// it.
    deal: Option<Deal>,
    deadline: Time,
    closed: bool,
}

/// The inputs of a round of circles at its beginning.
pub(crate) struct CircleStart {
    pub(crate) me: Party,
    pub(crate) ring: Ring,
    pub(crate) dimension: usize,
    pub(crate) expected: BTreeSet<Party>,
    /// Neighbours in the round, by the plan, ascending, with their weights; without the party.
    pub(crate) row: Vec<(Party, u32)>,
    pub(crate) own: OwnTerm,
    pub(crate) deal: Deal,
    /// Frames to readers.
    pub(crate) frames: BTreeMap<Party, Arc<[u8]>>,
    /// The moment when no vector is waited for any more.
    pub(crate) deadline: Time,
}

impl CircleRound {
    pub(crate) fn new(start: CircleStart) -> Self {
        let sealed = |(reader, frame)| {
            let outgoing = VectorOut {
                frame,
                left: false,
                answer: None,
            };
            (reader, outgoing)
        };
        CircleRound {
            me: start.me,
            ring: start.ring,
            dimension: start.dimension,
            expected: start.expected,
            row: start.row,
            outgoing: start.frames.into_iter().map(sealed).collect(),
            arrived: BTreeMap::new(),
            own: start.own,
            deal: Some(start.deal),
            deadline: start.deadline,
            closed: false,
        }
    }

    /// Returns the vector for a reader that can be reached, unless it has answered.
    pub(crate) fn due_to(&mut self, reader: Party) -> Option<Arc<[u8]>> {
        if self.closed {
            return None;
        }
        let outgoing = self.outgoing.get_mut(&reader)?;
        let due = outgoing.answer.is_none();
        outgoing.left |= due;
        due.then(|| outgoing.frame.clone())
    }

    /// Takes a neighbour's sealed vector. True: it is to be answered; false, it comes too late.
    ///
    /// # Errors
    /// What is wrong with it; it is as if it had not come.
    pub(crate) fn receive(&mut self, from: Party, id: ShareId, values: Bytes) -> Result<bool, CircleOffence> {
        if id.from != from || id.to != self.me || !self.expected.contains(&from) {
            return Err(CircleOffence::NotDue(id));
        }
        if ResidueVector::from_bytes(self.ring, self.dimension, &values).is_err() {
            return Err(CircleOffence::Shape);
        }
        if self.arrived.contains_key(&from) {
            // Sent again: so is the answer, which may be lost.
            return Ok(true);
        }
        if self.closed {
            return Ok(false);
        }
        self.arrived.insert(from, values);
        Ok(true)
    }

    /// Takes a reader's signed answer, whose signature is good.
    ///
    /// # Errors
    /// What is wrong with it; it is as if it had not come.
    pub(crate) fn answer(&mut self, from: Party, id: ShareId, answer: Answer) -> Result<(), CircleOffence> {
        let accepted = answer.verdict == Verdict::Accepted { applied: LOGGED };
        let sent = self
            .outgoing
            .get_mut(&from)
            .filter(|sent| id.to == from && id.round == LOGGED && sent.left && accepted);
        let Some(sent) = sent else {
            return Err(CircleOffence::NotSent);
        };
        match &sent.answer {
            Some(before) if before.verdict != answer.verdict => Err(CircleOffence::TwoAnswers),
            _ => {
                sent.answer.get_or_insert(answer);
                Ok(())
            }
        }
    }

    /// Whether the log can be signed: all vectors are in and all answers, but for peers that are
    /// gone, or it is time.
    pub(crate) fn is_quiet(&self, now: Time, unreachable: impl Fn(Party) -> bool) -> bool {
        let in_hand = |peer: &Party| {
            let answered = self.outgoing.get(peer).is_none_or(|sent| sent.answer.is_some());
            (self.arrived.contains_key(peer) && answered) || unreachable(*peer)
        };
        now >= self.deadline || self.expected.iter().all(in_hand)
    }

    /// Returns the moment when the log is signed at the latest.
    pub(crate) fn wake(&self) -> Time {
        self.deadline
    }

    /// Whether a vector that is due from this party has not come.
    pub(crate) fn is_owed_by(&self, party: Party) -> bool {
        self.expected.contains(&party) && !self.arrived.contains_key(&party)
    }

    /// Fills in what the log says of vectors; from now on none is taken.
    pub(crate) fn close(&mut self, log: &mut Log) {
        self.closed = true;
        let sent = |&(to, _): &(Party, u32)| {
            let outgoing = self.outgoing.get(&to);
            SentEntry {
                round: LOGGED,
                to,
                left: outgoing.is_some_and(|outgoing| outgoing.left),
                answer: outgoing.and_then(|outgoing| outgoing.answer.clone()),
            }
        };
        log.sent = self.row.iter().map(sent).collect();
        let received = |&from: &Party| ReceivedEntry {
            round: LOGGED,
            from,
            applied: LOGGED,
        };
        log.received = self.arrived.keys().map(received).collect();
    }

    /// The deal of this round's secret, once.
    pub(crate) fn take_deal(&mut self) -> Option<Deal> {
        self.deal.take()
    }

    /// Σ of the sealed vectors of these members, still under their masks; `None` if one is lacking.
    pub(crate) fn sealed_sum(&self, members: &BTreeSet<Party>) -> Option<(Vec<Party>, ResidueVector)> {
        let mut sum = ResidueVector::zeros(self.ring, self.dimension);
        let mut of = vec![];
        for &(party, _) in self.row.iter().filter(|(party, _)| members.contains(party)) {
            let values = self.arrived.get(&party)?;
            sum.add(&ResidueVector::from_bytes(self.ring, self.dimension, values).ok()?);
            of.push(party);
        }
        Some((of, sum))
    }

    /// Returns this party's own term.
    pub(crate) fn own(&self) -> &OwnTerm {
        &self.own
    }

    /// Σ of the weights of these members' messages, this party's own among them, in units of 2^-16.
    pub(crate) fn weight_of(&self, members: &BTreeSet<Party>) -> u32 {
        let others = self.row.iter().filter(|(party, _)| members.contains(party));
        self.own.factor + others.map(|(_, weight)| weight).sum::<u32>()
    }
}

/// Returns the statements about vectors in a log of a round.
pub(crate) fn held(log: &Log) -> HeldVectors {
    let accepted = |entry: &&SentEntry| {
        entry
            .answer
            .as_ref()
            .is_some_and(|it| it.verdict != Verdict::Refused)
    };
    HeldVectors {
        got: log.received.iter().map(|entry| entry.from).collect(),
        answered: log.sent.iter().filter(accepted).map(|entry| entry.to).collect(),
    }
}

#[cfg(test)]
mod tests;
