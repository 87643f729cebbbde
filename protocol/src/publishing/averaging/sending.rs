//! Sending of messages in rounds of averaging, and their receivers.

use std::collections::BTreeSet;

use crate::messages::notice::Round;
use crate::messages::signing::MessageError;
use crate::messages::wire;
use crate::publishing::averaging::machine::Averaging;
use crate::publishing::interface::PublishingAction;
use crate::topology::party::Party;

impl Averaging {
    /// Sends a round that this node signed to all neighbours that take part and can be reached.
    pub(super) fn send(
        &mut self,
        signed: Result<Round, MessageError>,
        values: &[u8],
        connected: &BTreeSet<Party>,
    ) {
        match signed {
            Ok(signed) => {
                let frame = wire::round_frame(&signed, values);
                let to: Vec<Party> = self
                    .partners()
                    .into_iter()
                    .filter(|peer| connected.contains(peer))
                    .collect();
                self.actions.extend(
                    to.into_iter()
                        .map(|peer| PublishingAction::Send(peer, frame.clone())),
                );
                let keep = self.recent.len().saturating_sub(1);
                self.recent.drain(..keep);
                self.recent.push(frame);
            }
            Err(reason) => self.fault(reason.to_string()),
        }
    }

    /// The neighbours that this node's messages go to.
    pub(super) fn partners(&self) -> Vec<Party> {
        match &self.electorate {
            Some(electorate) => electorate.neighbours.clone(),
            None => self.setup.graph.neighbours(self.setup.me).to_vec(),
        }
    }

    /// A neighbour can be reached (again): it may lack this node's last messages.
    pub fn connected(&mut self, peer: Party) {
        if self.partners().contains(&peer) {
            self.actions.extend(
                self.recent
                    .iter()
                    .map(|frame| PublishingAction::Send(peer, frame.clone())),
            );
        }
    }
}
