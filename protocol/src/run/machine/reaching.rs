//! Peers that come and go.

use crate::agreement::flood::slot::Slot;
use crate::agreement::presence::Presence;
use crate::messages::notice::{Incarnation, Network};
use crate::run::machine::{Machine, Run};
use crate::topology::party::Party;

impl Run {
    pub(super) fn connected(&mut self, network: Network, peer: Party) {
        self.gone.remove(&peer);
        let now = self.now;
        self.notice_presence(|presence, _| presence.connected(network, peer, now));
        match network {
            Network::Public => {
                self.commons.connected(peer);
                if let Machine::Publishing {
                    publication: Some(publication),
                    ..
                } = &mut self.machine
                {
                    publication.connected(peer);
                }
            }
            Network::Private => {
                self.private.insert(peer);
            }
        }
        if let Some(exchange) = self.exchange() {
            exchange.gone(peer, false);
            if network == Network::Private {
                exchange.connected(peer);
            }
        }
        if network == Network::Private {
            self.send_sealed(peer);
        }
    }

    pub(super) fn disconnected(&mut self, network: Network, peer: Party) {
        match network {
            Network::Public => {
                self.commons.disconnected(peer);
                self.notice_presence(|presence, _| presence.disconnected(peer));
            }
            Network::Private => {
                self.private.remove(&peer);
                if let Some(exchange) = self.exchange() {
                    exchange.disconnected(peer);
                }
            }
        }
    }

    /// Whether this node waits for what others say in public; if so, whether it needs nothing more
    /// of what is said before START.
    pub(super) fn waits_in_public(&self) -> Option<bool> {
        match self.machine {
            Machine::Gathering { .. } => Some(false),
            Machine::Awaiting => Some(true),
            Machine::Spending { .. } | Machine::Mixing { .. } if self.waits_for_words() => Some(true),
            Machine::Settling { .. } | Machine::Correcting { .. } | Machine::Opening { .. }
                if !self.record.finished =>
            {
                Some(true)
            }
            // For a while also for those who wait still, to whom what it has not heard may matter.
            Machine::Publishing { .. }
                if !self.record.finished || !(self.record.complete || self.commons.has_asked_around()) =>
            {
                Some(true)
            }
            _ => None,
        }
    }

    /// A peer's connection is lost, and its address refuses a new one.
    pub(super) fn lost(&mut self, peer: Party) {
        self.notice_presence(|presence, ready| presence.refused(peer, ready(peer)));
        self.gone.entry(peer).or_insert(self.now);
        self.commons.hurry(self.now);
        if let Some(exchange) = self.exchange() {
            exchange.gone(peer, true);
        }
    }

    /// Notes whether a party is there, while that matters; with the READY that is held of one.
    pub(super) fn notice_presence(
        &mut self,
        note: impl FnOnce(&mut Presence, &dyn Fn(Party) -> Option<Incarnation>),
    ) {
        if let Machine::Gathering { gathering, .. } = &mut self.machine {
            let flood = &self.commons.flood;
            note(&mut gathering.presence, &|party| flood.ready(party));
        }
    }

    /// A public neighbour has said something, which was received already. True: it was missed.
    pub(super) fn heard(&mut self, from: Party, frame: &[u8]) -> bool {
        let now = self.now;
        let Machine::Gathering { gathering, .. } = &mut self.machine else {
            return false;
        };
        let ready = self.commons.flood.get(Slot::Ready(from));
        let is_its_ready = ready.is_some_and(|held| held.frame[..] == *frame);
        let said = self.commons.flood.ready(from).filter(|_| is_its_ready);
        gathering.presence.heard(from, now, said)
    }
}
