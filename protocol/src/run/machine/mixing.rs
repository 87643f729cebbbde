//! Shares that come in and go out, and their answers.

use crate::messages::log::{Answer, ShareId};
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::mixing::exchange::{ArrivedShare, Deed, ShareExchange};
use crate::run::interface::Output;
use crate::run::machine::{Machine, Run};
use crate::run::outcome::Event;
use crate::topology::party::Party;

impl Run {
    pub(super) fn receive_private(&mut self, from: Party, frame: &Bytes) {
        let (digest, read) = match wire::read_private(frame) {
            Err(reason) => return self.commons.offence(from, reason),
            Ok(PrivateFrame::Message { .. }) => {
                return self
                    .commons
                    .offence(from, "a message of gossip, which this plan does not have");
            }
            Ok(PrivateFrame::Sealed { .. }) if !self.plan.reads_circles() => {
                return self
                    .commons
                    .offence(from, "a vector for a circle, of which this plan has none");
            }
            Ok(PrivateFrame::Share { .. }) if self.plan.reads_circles() => {
                return self.commons.offence(from, "a share, where sums are secure");
            }
            Ok(
                read @ (PrivateFrame::Share { digest, .. }
                | PrivateFrame::Sealed { digest, .. }
                | PrivateFrame::Answer { digest, .. }),
            ) => (digest, read),
        };
        if let Err(reason) = self.commons.flood.members().same_plan(&digest) {
            return self.commons.offence(from, reason);
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
        let begun_apart = !self.record.started.is_empty() && !self.record.started.contains(&from);
        if begun_apart || !self.commons.has_begun_with(from) {
            return;
        }
        match &mut self.machine {
            Machine::Gathering { .. } | Machine::Awaiting | Machine::Spending { .. } => {
                let due = id.from == from && id.to == self.course.me && self.may_be_due(id);
                if due && arrival.values.len() == self.course.share_bytes() {
                    self.early.entry(id).or_insert(arrival);
                } else {
                    self.commons.offence(
                        from,
                        format!(
                            "a share that is not due: round {}, from {} to {}",
                            id.round, id.from, id.to
                        ),
                    );
                }
            }
            Machine::Mixing { exchange }
            | Machine::Settling { exchange, .. }
            | Machine::Auditing { exchange, .. } => {
                exchange.share(from, id, arrival);
            }
            // The logs are agreed or the run is over: no answer can change anything, and a refusal
            // might contradict an earlier answer.
            Machine::Publishing { .. }
            | Machine::Correcting { .. }
            | Machine::Opening { .. }
            | Machine::Mixed { .. }
            | Machine::Over => {}
        }
    }

    /// Whether a share may be due to this node. Until START has drawn the schedule here, when
    /// others may have begun, one of each neighbour in each round: a draw may have that many, so
    /// that fewer would accuse an honest neighbour, and lose its share.
    pub(super) fn may_be_due(&self, id: ShareId) -> bool {
        if !self.plan.draws_at_start() || self.plan.seed_at_start().is_some() {
            return self.course.is_due(id.round, id.from);
        }
        let graph = &self.plan.draft().private_graph;
        (1..=self.plan.rounds()).contains(&id.round) && graph.joins(id.from, id.to)
    }

    pub(super) fn receive_answer(&mut self, from: Party, id: ShareId, answer: Answer) {
        if id.to != from || id.from != self.course.me {
            return self
                .commons
                .offence(from, "an answer about somebody else's share");
        }
        if let Err(reason) = self.commons.flood.members().verify_answer(id, &answer) {
            return self.commons.offence(from, reason);
        }
        if self.answered_sealed(from, id, &answer) {
            return;
        }
        if let Some(exchange) = self.exchange() {
            exchange.answer(from, id, answer);
        }
    }

    /// Turns the exchange's deeds into outputs.
    pub(super) fn carry_out(&mut self) {
        let deeds = self.exchange().map(ShareExchange::take_deeds).unwrap_or_default();
        for deed in deeds {
            match deed {
                Deed::Share { to, frame, id } => {
                    self.commons.outbox.push_back(Output::Private {
                        to,
                        frame,
                        share: Some(id),
                    });
                }
                Deed::Recall(shares) => self.commons.outbox.push_back(Output::Recall(shares)),
                Deed::Round(round) => self.commons.event(Event::Round(round)),
                Deed::Fault(fault) => self.commons.event(Event::Fault(fault.to_string())),
                // A share of somebody who has begun with another START fits that one's schedule.
                Deed::Offence { peer, offence } => {
                    if self.commons.has_begun_with(peer) {
                        self.commons.offence(peer, offence);
                    }
                }
                Deed::Answer { id, verdict } if self.private.contains(&id.from) => {
                    match self.commons.signer().answer(id, verdict) {
                        Ok(answer) => {
                            let frame = wire::answer_frame(&self.course.digest, id, &answer);
                            self.commons.outbox.push_back(Output::Private {
                                to: id.from,
                                frame,
                                share: None,
                            });
                        }
                        Err(reason) => self.commons.event(Event::Fault(reason.to_string())),
                    }
                }
                // It will send the share again on a new connection, and be answered then.
                Deed::Answer { .. } => {}
            }
        }
    }
}
