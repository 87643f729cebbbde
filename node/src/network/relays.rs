//! The relays that this node and its peers use, and at which of them to look for whom.

use std::collections::BTreeMap;
use std::sync::Arc;

use libp2p::PeerId;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};

/// Circuits over one relay that are being opened at the same time: it takes ten handshakes at a
/// time on each connection and drops the others.
const OPENING: usize = 8;

/// A relay, and whose turn it is to open a circuit over it.
#[derive(Clone)]
pub(super) struct ListedRelay {
    pub(super) peer: PeerId,
    pub(super) opening: Arc<Semaphore>,
}

/// All relays that are listed.
#[derive(Default)]
pub(super) struct Relays(watch::Sender<BTreeMap<PeerId, Arc<Semaphore>>>);

impl Relays {
    /// Lists these relays and no others.
    pub(super) fn list(&self, relays: impl IntoIterator<Item = PeerId>) {
        self.0.send_modify(|listed| {
            let before = std::mem::take(listed);
            listed.extend(relays.into_iter().map(|peer| {
                let opening = before.get(&peer).cloned();
                (peer, opening.unwrap_or_else(|| Arc::new(Semaphore::new(OPENING))))
            }));
        });
    }

    /// Changes whenever other relays may be listed.
    pub(super) fn changes(&self) -> watch::Receiver<impl Sized> {
        self.0.subscribe()
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Whether this peer is one.
    pub(super) fn has(&self, peer: &PeerId) -> bool {
        self.0.borrow().contains_key(peer)
    }

    /// A party's order of the relays: it keeps places at the first two that take it. The same for
    /// whoever looks for it, without a word between them.
    pub(super) fn of(&self, party: &PeerId) -> Vec<ListedRelay> {
        let listed = self.0.borrow();
        let of = |(peer, opening): (&PeerId, &Arc<Semaphore>)| ListedRelay {
            peer: *peer,
            opening: opening.clone(),
        };
        let mut relays: Vec<ListedRelay> = listed.iter().filter(|(peer, _)| *peer != party).map(of).collect();
        relays.sort_by_cached_key(|relay| rank(&relay.peer, party));
        relays
    }
}

/// SHA-256 of a domain and both ids: spreads the parties over the relays.
fn rank(relay: &PeerId, party: &PeerId) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(b"undertone/relay/1\0");
    hash.update(relay.to_bytes());
    hash.update(party.to_bytes());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_the_same_order_of_a_partys_relays_and_parties_are_spread() {
        let [relays, others] = [(); 2].map(|()| Relays::default());
        let peers: Vec<PeerId> = (0..4).map(|_| PeerId::random()).collect();
        relays.list(peers.iter().copied());
        others.list(peers.iter().rev().copied());
        let order = |relays: &Relays, party: &PeerId| {
            let relays = relays.of(party).into_iter();
            relays.map(|relay| relay.peer).collect::<Vec<_>>()
        };
        let mut first = BTreeMap::new();
        for _ in 0..400 {
            let party = PeerId::random();
            let mine = order(&relays, &party);
            assert_eq!(mine, order(&others, &party));
            *first.entry(mine[0]).or_insert(0) += 1;
        }
        // Of 400 each has a hundred, and fewer than sixty at one of them in 10⁵ trials.
        assert!(
            first.len() == 4 && first.values().all(|count| *count > 55),
            "{first:?}"
        );
        assert_eq!(
            order(&relays, &peers[0]).len(),
            3,
            "a relay looks for others only"
        );
    }
}
