//! Where the daemon listens, for whom, and over which relays it is reached.

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

/// The relays of the peer list, but for this node.
pub(super) fn relays(config: &Config) -> Vec<PeerAddress> {
    let peers = config.peers.as_slice().iter();
    reaching::relays(
        peers.map(|peer| (peer.id, &peer.contact)),
        config.peers.relays(),
        config.identity.peer_id(),
    )
}

/// Whether the peer list has this node as a relay.
pub(super) fn relays_others(config: &Config) -> bool {
    let me = config.identity.peer_id();
    let mut peers = config.peers.as_slice().iter();
    peers.any(|peer| peer.id == me && peer.contact.relay)
}
