//! Where the daemon listens.

use undertone_protocol::messages::notice::Network;

use crate::daemon::config::Config;
use crate::network::config::{Listening, PeerAddress};
use crate::party::reaching;

/// Where a hub listens on one graph, and for whom whatever runs there are.
pub(super) fn listening(config: &Config, graph: Network) -> Listening {
    let (listen, me) = match graph {
        Network::Private => (&config.private, config.identity.peer_id()),
        Network::Public => (&config.public, config.identity.peer_id()),
    };
    let others = config.peers.as_slice().iter().filter(|peer| peer.id != me);
    let peers = others.map(|peer| {
        let address = match graph {
            Network::Private => &peer.private,
            Network::Public => &peer.public,
        };
        PeerAddress {
            peer_id: peer.id,
            address: reaching::parse(address.as_str()),
        }
    });
    Listening {
        listen: reaching::parse(listen.as_str()),
        peers: peers.collect(),
    }
}
