//! Peers that come and go.

use crate::agreement::flood::slot::Slot;
use crate::agreement::presence::Presence;
use crate::messages::notice::{Incarnation, Network};
use crate::run::machine::Run;
use crate::run::phase::RunPhase;
use crate::topology::party::Party;

impl Run {
    pub(super) fn connected(&mut self, network: Network, peer: Party) {
        self.peers.unreachable.remove(&peer);
        let now = self.now;
        self.notice_presence(|presence, _| presence.connected(network, peer, now));
        match network {
            Network::Public => {
                self.public_state.connected(peer);
                if let RunPhase::Publishing(phase) = &mut self.phase
                    && let Some(publication) = &mut phase.publication
                {
                    publication.connected(peer);
                }
            }
            Network::Private => {
                self.peers.private.insert(peer);
            }
        }
        if let Some(transfers) = self.phase.transfers_mut() {
            // A connection on either network shows that the peer lives.
            transfers.shares.unreachable(peer, false);
            if network == Network::Private {
                transfers.shares.connected(peer);
            }
        }
        let (phase, mut cx) = self.parts();
        // A vector on its way over the old connection may be lost.
        if let Some(circle) = phase.circle().filter(|_| network == Network::Private) {
            cx.send_sealed(circle, peer);
        }
    }

    pub(super) fn disconnected(&mut self, network: Network, peer: Party) {
        match network {
            Network::Public => {
                self.public_state.disconnected(peer);
                self.notice_presence(|presence, _| presence.disconnected(peer));
            }
            Network::Private => {
                self.peers.private.remove(&peer);
                if let Some(transfers) = self.phase.transfers_mut() {
                    transfers.shares.disconnected(peer);
                }
            }
        }
    }

    /// Whether this node waits for what others say in public; if so, whether it needs nothing more
    /// of what is said before START.
    pub(super) fn waits_in_public(&self) -> Option<bool> {
        match self.phase {
            RunPhase::Gathering(_) => Some(false),
            RunPhase::Awaiting(_) => Some(true),
            RunPhase::Spending(_) | RunPhase::Mixing(_) if self.waits_for_words() => Some(true),
            RunPhase::Settling(_) | RunPhase::Correcting(_) | RunPhase::Opening(_)
                if !self.record.finished =>
            {
                Some(true)
            }
            // For a while also for those who wait still, to whom what it has not heard may matter.
            RunPhase::Publishing(_)
                if !self.record.finished
                    || !(self.record.complete || self.public_state.has_asked_around()) =>
            {
                Some(true)
            }
            _ => None,
        }
    }

    /// A peer's connection is lost, and its address refuses a new one.
    pub(super) fn lost(&mut self, peer: Party) {
        self.notice_presence(|presence, ready| presence.refused(peer, ready(peer)));
        self.peers.unreachable.entry(peer).or_insert(self.now);
        // Notices that the peer was to pass on have to come from others now.
        self.public_state.hurry(self.now);
        if let Some(transfers) = self.phase.transfers_mut() {
            transfers.shares.unreachable(peer, true);
        }
    }

    /// Notes whether a party is there, while that matters; with the READY that is held of one.
    pub(super) fn notice_presence(
        &mut self,
        note: impl FnOnce(&mut Presence, &dyn Fn(Party) -> Option<Incarnation>),
    ) {
        if let RunPhase::Gathering(phase) = &mut self.phase {
            let flood = &self.public_state.flood;
            note(&mut phase.gathering.presence, &|party| flood.ready(party));
        }
    }

    /// A public neighbour has said something, which was received already. True: it was missed.
    pub(super) fn heard(&mut self, from: Party, frame: &[u8]) -> bool {
        let now = self.now;
        let RunPhase::Gathering(phase) = &mut self.phase else {
            return false;
        };
        let ready = self.public_state.flood.get(Slot::Ready(from));
        // An older READY may be of a process that is gone: only the one that is held confirms it.
        let is_its_ready = ready.is_some_and(|held| held.frame[..] == *frame);
        let said = self.public_state.flood.ready(from).filter(|_| is_its_ready);
        phase.gathering.presence.heard(from, now, said)
    }
}
