//! The mixing phase of one node: rounds and their deadlines, and what becomes of each share.
//!
//! The round of number r ends when all expected shares are in and all own shares have left, at the
//! latest r × `round_ms` after this node held every START. A node never skips a round: one that was
//! suspended makes up its round ends in order. At the end of its round a share of which no byte has
//! left rejoins the state, for good; one that left and was not answered is held aside, sent again
//! bit for bit on a new connection, and goes back only if the agreed logs say so
//! ([`ShareExchange::settle`]).
//!
//! What left is reported from outside ([`ShareExchange::left`]). Shares that were given out and
//! reported by nobody at the end of their round are asked for ([`Action::Recall`]): the round ends
//! with the answer ([`ShareExchange::recalled`]).

mod arriving;
mod observed;
mod rounds;
mod settling;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::lattice::grid::LatticeWeight;
use crate::lattice::packed::PackedVector;
use crate::lattice::vector::LatticeVector;
use crate::messages::log::{Answer, ShareId, Verdict};
use crate::messages::wire::Bytes;
use crate::mixing::machine::Mixing;
use crate::mixing::offence::{MixingOffence, Unsendable};
use crate::mixing::parameters::MixingParameters;
use crate::mixing::portion::NoiseSource;
use crate::time::Time;
use crate::topology::party::Party;

/// An action that the mixing phase asks for.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a share to its receiver.
    Share {
        /// The party that the share is for.
        to: Party,
        /// The frame that carries the share.
        frame: Arc<[u8]>,
        /// The identity of the share.
        id: ShareId,
    },
    /// Call these shares back, and say what became of them. Nothing else of the round's end is done
    /// before.
    Recall(Vec<ShareId>),
    /// Sign and send an answer.
    Answer {
        /// The share that is answered.
        id: ShareId,
        /// The fate of the share.
        verdict: Verdict,
    },
    /// A round has begun.
    Round(u32),
    /// Tell a person what this node cannot do.
    Fault(Unsendable),
    /// A peer did what it may not do; it was ignored.
    Offence {
        /// The peer that did it.
        peer: Party,
        /// The peer's offence.
        offence: MixingOffence,
    },
}

/// All noise is in what was prepared.
struct Drawn;

impl NoiseSource<LatticeVector> for Drawn {
    fn draw(&mut self, _: usize, _: u32) -> PackedVector {
        unreachable!("a mixing machine that is prepared for every round draws no noise")
    }
}

/// The state of an own share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Not given out, for want of a connection: its mass is deducted until its round ends.
    Here,
    /// Given out: its mass is deducted, and a byte of it may have left.
    GivenOut,
    /// Bytes of the share have left, as far as this node knows: its mass is deducted.
    Left,
    /// The share is in the state again.
    Back,
}

struct Outgoing {
    /// The frame and its values until its receiver has accepted it, or it came back. Then nothing
    /// will be sent or taken back again.
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

/// The recall of the running round's shares at its end.
enum Recall {
    /// The node has asked nothing yet.
    Unasked,
    /// An answer is due about these.
    Asked(Vec<ShareId>),
    /// The answer is here: a share that has not left by now never will.
    Answered,
}

/// An own share's frame, and its values.
struct Sent {
    frame: Arc<[u8]>,
    value: PackedVector,
}

/// A share as it arrived: its coordinates are not checked yet.
#[derive(Clone)]
pub(crate) struct ArrivedShare {
    pub(crate) weight: LatticeWeight,
    pub(crate) values: Bytes,
}

/// The situation when mixing begins.
pub struct ExchangeStart {
    /// The moment when this node held every START: deadlines count from here.
    pub start: Time,
    /// The present, at or after `start`.
    pub now: Time,
    /// Members of the plan that are not in START, and whoever is gone already.
    pub absent: BTreeSet<Party>,
    /// Private neighbours that can be reached.
    pub connected: BTreeSet<Party>,
}

/// The mixing phase of one node.
pub struct ShareExchange {
    parameters: MixingParameters,
    mixing: Mixing<LatticeVector, LatticeWeight>,
    /// The running round, from 1; one more than the last once all are over.
    round: u32,
    began: Time,
    start: Time,
    outgoing: BTreeMap<ShareId, Outgoing>,
    /// The verdicts on the shares that arrived, by (round, from).
    pub(crate) received: BTreeMap<(u32, Party), Verdict>,
    /// Shares of rounds to come.
    waiting: BTreeMap<(u32, Party), ArrivedShare>,
    connected: BTreeSet<Party>,
    unreachable: BTreeSet<Party>,
    /// Not waited for again: they missed a deadline.
    missed: BTreeSet<Party>,
    recall: Recall,
    /// Whether the log is signed.
    closed: bool,
    actions: Vec<Action>,
}

impl ShareExchange {
    /// Begins round 1. `mixing` is what [`MixingParameters::begin`] made.
    pub fn new(
        parameters: MixingParameters,
        mixing: Mixing<LatticeVector, LatticeWeight>,
        start: ExchangeStart,
    ) -> Self {
        let ExchangeStart {
            start,
            now,
            absent,
            connected,
        } = start;
        let mut exchange = ShareExchange {
            parameters,
            mixing,
            round: 0,
            began: start,
            start,
            outgoing: BTreeMap::new(),
            received: BTreeMap::new(),
            waiting: BTreeMap::new(),
            connected,
            unreachable: absent,
            missed: BTreeSet::new(),
            recall: Recall::Unasked,
            closed: false,
            actions: Vec::new(),
        };
        exchange.begin_round(now, 1);
        exchange
    }

    /// Returns the actions to do since the last call, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The round that runs; one more than the last once all are over.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Whether all rounds are over.
    pub fn is_over(&self) -> bool {
        self.round > self.parameters.rounds()
    }

    /// Returns the moment when round `round` ends at the latest.
    pub fn deadline(&self, round: u32) -> Time {
        self.start
            .plus_millis(u64::from(round).saturating_mul(self.parameters.round_ms))
    }

    /// Returns the moment to call [`ShareExchange::advance`] although nothing happened.
    pub fn wake(&self, now: Time) -> Time {
        let round = self.round.min(self.parameters.rounds());
        let earlier = [
            self.began.plus_millis(self.parameters.pace_ms),
            self.began.plus_millis(self.parameters.handover_patience_ms()),
        ];
        let running = earlier.into_iter().filter(|&at| !self.is_over() && at > now);
        running
            .chain([self.deadline(round)])
            .filter(|&at| at > now)
            .min()
            .unwrap_or(Time::FAR)
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
                self.actions.push(Action::Share {
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
    pub fn unreachable(&mut self, peer: Party, unreachable: bool) {
        if unreachable {
            self.unreachable.insert(peer);
        } else {
            self.unreachable.remove(&peer);
        }
    }
}

/// Counts of a node's own shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Shares that their receivers accepted.
    pub accepted: usize,
    /// Shares that their receivers refused.
    pub refused: usize,
    /// Shares that never left and are back in the state.
    pub returned: usize,
    /// Shares that are out, without an answer.
    pub unanswered: usize,
}

#[cfg(test)]
mod tests;
