//! Where the daemon listens, for whom, and over which relays it is reached.

use std::collections::BTreeSet;

use libp2p::PeerId;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::plan::peers::Peer;

use crate::daemon::config::Config;
use crate::network::config::{Listening, PeerAddress};
use crate::party::reaching::{self, parse_all};

/// Where a hub listens on one graph, and for whom whatever runs there are.
pub(super) fn listening(config: &Config, graph: Network) -> Listening {
    let me = config.identity.peer_id();
    let of = |peer: &Peer| {
        parse_all(match graph {
            Network::Private => &peer.contact.at,
            Network::Public => peer.contact.public.as_slice(),
        })
    };
    let peers = config.peers.as_slice();
    let others = peers.iter().filter(|peer| peer.id != me);
    Listening {
        listen: parse_all(match graph {
            Network::Private => &config.private,
            Network::Public => config.public.as_slice(),
        }),
        announced: peers.iter().any(|peer| peer.id == me && !of(peer).is_empty()),
        peers: others
            .map(|peer| PeerAddress {
                peer_id: peer.id,
                addresses: of(peer),
            })
            .collect(),
    }
}

/// The relays of the peer list, but for this node and those whose keys were revoked.
pub(super) fn relays(config: &Config, barred: &BTreeSet<PeerId>) -> Vec<PeerAddress> {
    let peers = config.peers.as_slice().iter();
    let relays = reaching::relays(
        peers.map(|peer| (peer.id, &peer.contact)),
        config.peers.relays(),
        config.identity.peer_id(),
    );
    let trusted = relays.into_iter();
    trusted.filter(|relay| !barred.contains(&relay.peer_id)).collect()
}

/// Whether the peer list has this node as a relay.
pub(super) fn relays_others(config: &Config) -> bool {
    let me = config.identity.peer_id();
    let mut peers = config.peers.as_slice().iter();
    peers.any(|peer| peer.id == me && peer.contact.relay)
}
