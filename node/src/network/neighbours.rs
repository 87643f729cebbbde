//! The neighbours of a run on one graph, checked.

use std::collections::BTreeMap;

use libp2p::PeerId;
use libp2p::identity::{Keypair, PublicKey};
use undertone_protocol::messages::notice::Network;

use crate::network::address::Whereabouts;
use crate::network::config::{NetworkError, PeerAddress, RunGraph};

/// A neighbour whose id and addresses are usable.
pub(super) struct Neighbour {
    pub(super) places: Whereabouts,
    pub(super) key: PublicKey,
}

/// All of them by their ids.
#[derive(Default)]
pub(super) struct Neighbours(pub(super) BTreeMap<PeerId, Neighbour>);

/// Only short keys, of which ed25519 is the one that we can read, are held by the peer id itself.
fn key_of(peer: &PeerId) -> Option<PublicKey> {
    PublicKey::try_decode_protobuf(peer.as_ref().digest())
        .ok()
        .filter(|key| key.to_peer_id() == *peer)
}

impl Neighbours {
    pub(super) fn of(graph: Network, key: &Keypair, settings: &RunGraph) -> Result<Neighbours, NetworkError> {
        if !(1..1 << 31).contains(&settings.max_frame) {
            return Err(NetworkError::Limit {
                graph,
                max_frame: settings.max_frame,
            });
        }
        Neighbours::check(graph, key, &settings.peers)
    }

    pub(super) fn check(
        graph: Network,
        key: &Keypair,
        peers: &[PeerAddress],
    ) -> Result<Neighbours, NetworkError> {
        let ours = key.public().to_peer_id();
        let mut all = BTreeMap::new();
        for PeerAddress {
            peer_id: peer,
            addresses,
        } in peers
        {
            let wrong = |reason| NetworkError::Peer {
                graph,
                peer: *peer,
                reason,
            };
            let key = key_of(peer).ok_or(wrong("its id does not hold an ed25519 key"))?;
            if *peer == ours {
                return Err(wrong("it is our own id"));
            }
            if all
                .insert(
                    *peer,
                    Neighbour {
                        places: Whereabouts::parse(addresses)?,
                        key,
                    },
                )
                .is_some()
            {
                return Err(wrong("it is listed twice"));
            }
        }
        Ok(Neighbours(all))
    }
}
