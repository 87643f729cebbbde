//! Shares that come in and go out, and their answers.

use crate::messages::log::{Answer, ShareId};
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::mixing::exchange::{Action, ArrivedShare};
use crate::run::interface::Output;
use crate::run::machine::Run;
use crate::run::outcome::Event;
use crate::topology::party::Party;

impl Run {
    pub(super) fn receive_private(&mut self, from: Party, frame: &Bytes) {
        let (digest, read) = match wire::read_private(frame) {
            Err(reason) => return self.public_state.offence(from, reason),
            Ok(PrivateFrame::Message { .. }) => {
                return self
                    .public_state
                    .offence(from, "a message of gossip, which this plan does not have");
            }
            Ok(PrivateFrame::Sealed { .. }) if !self.config.plan.reads_circles() => {
                return self
                    .public_state
                    .offence(from, "a vector for a circle, of which this plan has none");
            }
            Ok(PrivateFrame::Share { .. }) if self.config.plan.reads_circles() => {
                return self.public_state.offence(from, "a share, where sums are secure");
            }
            Ok(
                read @ (PrivateFrame::Share { digest, .. }
                | PrivateFrame::Sealed { digest, .. }
                | PrivateFrame::Answer { digest, .. }),
            ) => (digest, read),
        };
        // Each release is signed for a digest of its own: a frame of another one means nothing
        // here.
        if let Err(reason) = self.public_state.flood.members().same_plan(&digest) {
            return self.public_state.offence(from, reason);
        }
        match read {
            PrivateFrame::Share {
                id, weight, values, ..
            } => {
                self.receive_share(
                    from,
                    id,
                    ArrivedShare {
                        weight,
                        values: frame.slice(values),
                    },
                );
            }
            PrivateFrame::Sealed {
                id, weight, values, ..
            } => {
                let values = frame.slice(values);
                self.receive_sealed(from, id, ArrivedShare { weight, values });
            }
            PrivateFrame::Answer { id, answer, .. } => self.receive_answer(from, id, answer),
            PrivateFrame::Message { .. } => {}
        }
    }

    pub(super) fn receive_share(&mut self, from: Party, id: ShareId, arrival: ArrivedShare) {
        // It has begun with a START that the others gave up, or this node has: its share has no
        // counterpart here.
        if self.has_begun_without(from) || !self.public_state.has_begun_with(from) {
            return;
        }
        let (phase, mut cx) = self.parts();
        // Once the logs are agreed or the run is over, no answer can change anything, and a refusal
        // might contradict an earlier answer.
        match phase.early() {
            Some(early) => early.keep_share(&mut cx, from, id, arrival),
            None => {
                if let Some(transfers) = phase.transfers_mut() {
                    transfers.shares.share(from, id, arrival);
                }
            }
        }
    }

    /// A neighbour's sealed vector of this round.
    pub(super) fn receive_sealed(&mut self, from: Party, id: ShareId, arrival: ArrivedShare) {
        if self.has_begun_without(from) {
            return;
        }
        let (phase, mut cx) = self.parts();
        match phase.early() {
            Some(early) => early.keep_sealed(&mut cx, from, id, arrival),
            None => {
                if let Some(circle) = phase.circle() {
                    cx.receive_of_circle(circle, from, id, arrival);
                }
            }
        }
    }

    fn has_begun_without(&self, party: Party) -> bool {
        !self.record.started.is_empty() && !self.record.started.contains(&party)
    }

    pub(super) fn receive_answer(&mut self, from: Party, id: ShareId, answer: Answer) {
        if id.to != from || id.from != self.config.mixing.me {
            return self
                .public_state
                .offence(from, "an answer about somebody else's share");
        }
        if let Err(reason) = self.public_state.flood.members().verify_answer(id, &answer) {
            return self.public_state.offence(from, reason);
        }
        if let Some(circle) = self.phase.circle() {
            if let Err(reason) = circle.answer(from, id, answer) {
                self.public_state.offence(from, reason);
            }
        } else if let Some(transfers) = self.phase.transfers_mut() {
            transfers.shares.answer(from, id, answer);
        }
    }

    /// Turns the exchange's actions into outputs.
    pub(super) fn carry_out(&mut self) {
        let transfers = self.phase.transfers_mut();
        let actions = transfers.map(|it| it.shares.take_actions()).unwrap_or_default();
        for action in actions {
            match action {
                Action::Share { to, frame, id } => {
                    self.public_state.outbox.push_back(Output::Private {
                        to,
                        frame,
                        share: Some(id),
                    });
                }
                Action::Recall(shares) => self.public_state.outbox.push_back(Output::Recall(shares)),
                Action::Round(round) => self.public_state.event(Event::Round(round)),
                Action::Fault(fault) => self.public_state.event(Event::Fault(fault.to_string())),
                // A share of somebody who has begun with another START fits that one's schedule.
                Action::Offence { peer, offence } => {
                    if self.public_state.has_begun_with(peer) {
                        self.public_state.offence(peer, offence);
                    }
                }
                Action::Answer { id, verdict } if self.peers.private.contains(&id.from) => {
                    match self.public_state.signer().answer(id, verdict) {
                        Ok(answer) => {
                            let frame = wire::answer_frame(&self.config.mixing.digest, id, &answer);
                            self.public_state.outbox.push_back(Output::Private {
                                to: id.from,
                                frame,
                                share: None,
                            });
                        }
                        Err(reason) => self.public_state.event(Event::Fault(reason.to_string())),
                    }
                }
                // It will send the share again on a new connection, and be answered then.
                Action::Answer { .. } => {}
            }
        }
    }
}
