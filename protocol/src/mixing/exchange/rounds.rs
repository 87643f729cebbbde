//! Rounds: how they begin and end, and own shares that leave or come back.

use crate::messages::log::ShareId;
use crate::messages::wire::{self, Bytes};
use crate::mixing::exchange::{Action, Drawn, Outgoing, Recall, Sent, ShareExchange, Whereabouts};
use crate::mixing::offence::Unsendable;
use crate::mixing::portion::{Portion, Share};
use crate::mixing::ticket::Recalled;
use crate::time::Time;
use crate::topology::party::Party;

impl ShareExchange {
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
    pub(super) fn recall(&mut self) -> bool {
        let given_out = self
            .outgoing
            .iter()
            .filter(|(_, share)| share.whereabouts == Whereabouts::GivenOut);
        let ids: Vec<ShareId> = given_out.map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return false;
        }
        self.actions.push(Action::Recall(ids.clone()));
        self.recall = Recall::Asked(ids);
        true
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

    /// Whether an answer is due about exactly these shares.
    pub(crate) fn has_asked_for(&self, recalled: &Recalled) -> bool {
        let mut named: Vec<ShareId> = [&recalled.left[..], &recalled.back[..]].concat();
        named.sort_unstable();
        matches!(&self.recall, Recall::Asked(ids) if *ids == named)
    }

    /// The answer to [`Action::Recall`]: the round can end.
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

    /// Whether a round may end: its deadline has come, or its pace is kept, everything due is in,
    /// and everything of this node's own has left, but for peers that are not waited for.
    fn can_end(&self, now: Time) -> bool {
        if now >= self.deadline(self.round) {
            return true;
        }
        if now < self.began.plus_millis(self.parameters.pace_ms) {
            return false;
        }
        let handover = self.began.plus_millis(self.parameters.handover_patience_ms());
        let in_hand = |from: Party| {
            self.received.contains_key(&(self.round, from))
                || self.unreachable.contains(&from)
                || self.missed.contains(&from)
        };
        let left = |to: &Party| {
            let id = ShareId {
                round: self.round,
                from: self.parameters.me,
                to: *to,
            };
            let given_up = self.missed.contains(to) && (!self.connected.contains(to) || now >= handover);
            given_up
                || self.unreachable.contains(to)
                || self
                    .outgoing
                    .get(&id)
                    .is_none_or(|share| share.whereabouts == Whereabouts::Left)
        };
        self.parameters.due_in(self.round).all(in_hand)
            && self
                .parameters
                .schedule
                .sends_to(self.round, self.parameters.me)
                .iter()
                .all(left)
    }

    pub(super) fn begin_round(&mut self, now: Time, round: u32) {
        (self.round, self.began) = (round, now);
        if !self.is_over() {
            self.actions.push(Action::Round(round));
        }
        let schedule = self.parameters.schedule.clone();
        let to = schedule.sends_to(round, self.parameters.me);
        self.hand_out(round, to);
        // What came too early for this round joins now; what is for later rounds waits on.
        let later = self.waiting.split_off(&(round, Party::MAX));
        for ((round, from), arrival) in std::mem::replace(&mut self.waiting, later) {
            self.take_in(
                ShareId {
                    round,
                    from,
                    to: self.parameters.me,
                },
                arrival,
            );
        }
    }

    /// Splits the state and hands out the shares of a round. The first is written where it travels
    /// from.
    fn hand_out(&mut self, round: u32, to: &[Party]) {
        let Some(&first) = to.first() else { return };
        let (parameters, length) = (&self.parameters, self.parameters.share_bytes());
        let id = |to: Party| ShareId {
            round,
            from: parameters.me,
            to,
        };
        // The values are packed by writing them into the first share's frame: no copy is made.
        let mut frame = None;
        let share = self.mixing.split(to, |state| {
            let write = |bytes: &mut [u8]| parameters.lattice.write_share(&state.value, round, bytes);
            let (made, written) =
                wire::share_frame_with(&parameters.digest, id(first), state.weight, length, write);
            if written.is_err() {
                return state.value.pack();
            }
            let values = Bytes::from_owner(made.clone()).slice(made.len() - length..);
            frame = Some(made);
            parameters.lattice.own_share(values)
        });
        let Some(frame) = frame else {
            // Twelve standard deviations fit, whatever peers send: see `Lattice::share_bound`.
            to.iter().for_each(|&to| self.mixing.take_back(to, &share));
            return self.actions.push(Action::Fault(Unsendable { round }));
        };
        // The other frames differ only in whom they go to.
        let values = &frame[frame.len() - length..];
        let others = to[1..].iter().map(|&to| {
            (
                id(to),
                wire::share_frame(&parameters.digest, id(to), share.0.weight, values),
            )
        });
        for (id, frame) in std::iter::once((id(first), frame.clone())).chain(others) {
            // Without a connection it waits here: it may still leave before the round ends.
            let mut whereabouts = Whereabouts::Here;
            if self.connected.contains(&id.to) {
                whereabouts = Whereabouts::GivenOut;
                self.actions.push(Action::Share {
                    to: id.to,
                    frame: frame.clone(),
                    id,
                });
            }
            let sent = Some(Sent {
                frame,
                value: share.0.value.clone(),
            });
            let weight = share.0.weight;
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

    /// Ends the round: takes back what has not left, gives up what has not arrived, and has the
    /// mechanism end its round.
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
        for from in self.parameters.due_in(self.round) {
            if !self.received.contains_key(&(self.round, from)) {
                self.missed.insert(from);
            }
        }
        if self.round < self.parameters.rounds() {
            self.mixing.inject(&mut Drawn, self.round);
        } else {
            self.mixing.cancel();
            self.round += 1;
        }
    }

    /// Puts an own share's mass back. False: its frame is gone, since its receiver had accepted it.
    pub(super) fn take_back(&mut self, id: ShareId) -> bool {
        let Some(share) = self.outgoing.get_mut(&id) else {
            return false;
        };
        let Some(sent) = share.sent.take() else {
            return false;
        };
        share.whereabouts = Whereabouts::Back;
        self.mixing.take_back(
            id.to,
            &Share(Portion {
                value: sent.value,
                weight: share.weight,
            }),
        );
        true
    }
}
