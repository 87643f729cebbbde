//! Arriving messages: shares of others, and their answers to own ones.

use crate::messages::log::{Answer, ShareId, Verdict};
use crate::mixing::exchange::{Action, ArrivedShare, ShareExchange, Whereabouts};
use crate::mixing::offence::MixingOffence;
use crate::mixing::parameters::MixingParameters;
use crate::mixing::portion::Share;
use crate::topology::party::Party;

impl ShareExchange {
    /// A share arrived from `peer` over its authenticated channel.
    pub(crate) fn share(&mut self, peer: Party, id: ShareId, arrival: ArrivedShare) {
        if id.to != self.parameters.me || id.from != peer || !self.parameters.is_due(id.round, peer) {
            return self.offence(peer, MixingOffence::NotDue(id));
        }
        let key = (id.round, peer);
        if let Some(&verdict) = self.received.get(&key) {
            // It was sent again; so is the answer, which may have been lost.
            self.actions.push(Action::Answer { id, verdict });
        } else if self.closed {
            self.say(id, Verdict::Refused);
        } else if id.round > self.round {
            if arrival.values.len() == self.parameters.share_bytes() {
                self.waiting.entry(key).or_insert(arrival);
            } else {
                let (round, bytes) = (id.round, arrival.values.len());
                self.offence(peer, MixingOffence::Length { round, bytes });
                self.say(id, Verdict::Refused);
            }
        } else {
            self.take_in(id, arrival);
        }
    }

    /// Adds a share of this or an earlier round, or refuses it.
    pub(super) fn take_in(&mut self, id: ShareId, arrival: ArrivedShare) {
        let weight = arrival.weight;
        let grid = self.parameters.lattice.round_grid(id.round);
        let carries =
            weight.0.unsigned_abs() <= self.parameters.weight_bound.0.unsigned_abs() && weight.0 % grid == 0;
        let MixingParameters {
            lattice, dimension, ..
        } = &self.parameters;
        match Share::received(lattice, (arrival.values, weight), *dimension, id.round) {
            Ok(share) if carries => {
                self.mixing.accept(id.from, &share);
                self.say(
                    id,
                    Verdict::Accepted {
                        applied: self.round.min(self.parameters.rounds()),
                    },
                );
            }
            Ok(_) => {
                self.offence(id.from, MixingOffence::Weight(id.round));
                self.say(id, Verdict::Refused);
            }
            Err(reason) => {
                let round = id.round;
                self.offence(id.from, MixingOffence::Values { round, reason });
                self.say(id, Verdict::Refused);
            }
        }
    }

    fn say(&mut self, id: ShareId, verdict: Verdict) {
        self.received.insert((id.round, id.from), verdict);
        self.actions.push(Action::Answer { id, verdict });
    }

    fn offence(&mut self, peer: Party, offence: MixingOffence) {
        self.actions.push(Action::Offence { peer, offence });
    }

    /// An answer arrived from `peer`; its signature is good.
    pub fn answer(&mut self, peer: Party, id: ShareId, answer: Answer) {
        let rounds = self.parameters.rounds();
        let possible = match answer.verdict {
            Verdict::Refused => true,
            Verdict::Accepted { applied } => (id.round..=rounds).contains(&applied),
        };
        let known = self
            .outgoing
            .get_mut(&id)
            .filter(|share| id.to == peer && share.whereabouts == Whereabouts::Left && possible);
        let Some(share) = known else {
            return self.offence(peer, MixingOffence::NotSent(id));
        };
        match &share.answer {
            Some(before) if before.verdict != answer.verdict => {
                self.offence(peer, MixingOffence::TwoAnswers(id.round));
            }
            Some(_) => {}
            None => {
                // What the log says that it accepted cannot be denied: whoever does is left out. An
                // answer that comes after the log is signed stands nowhere: its share is kept, in
                // case the receiver's log has it not.
                if answer.verdict != Verdict::Refused && !self.closed {
                    share.sent = None;
                }
                share.answer = Some(answer);
            }
        }
    }
}
