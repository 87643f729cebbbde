//! What the network tells its driver.

use libp2p::{Multiaddr, PeerId};
use undertone_protocol::messages::notice::Network;

use crate::network::offence::Offence;
use crate::network::received::Received;

/// What happens on the network.
#[derive(Debug)]
pub enum NetworkEvent {
    /// Streams both ways are up and both hellos done.
    Connected {
        /// On this graph.
        graph: Network,
        /// With this peer.
        peer: PeerId,
    },
    /// The edge is down; it is being restored. Frames that did not leave stay queued.
    Disconnected {
        /// On this graph.
        graph: Network,
        /// With this peer.
        peer: PeerId,
    },
    /// A peer that was connected is not, and its private address (the public one if we do not know
    /// it) refuses connections, or it says that it has no such run (any more). Once for each loss.
    /// What was queued for it is dropped.
    Gone {
        /// This peer.
        peer: PeerId,
    },
    /// A peer that was never connected answers, and says that it has no such run. It is asked
    /// again. Once for each graph.
    Absent {
        /// On this graph.
        graph: Network,
        /// This peer.
        peer: PeerId,
    },
    /// A whole frame came in.
    Frame {
        /// On this graph.
        graph: Network,
        /// From this peer (who said hello with its key).
        peer: PeerId,
        /// Its bytes; holding them holds back the peer.
        bytes: Received,
    },
    /// A frame's ticket was taken: its first byte is being handed to the transport.
    Left {
        /// On this graph.
        graph: Network,
        /// Towards this peer.
        peer: PeerId,
        /// The frame's token.
        token: u64,
    },
    /// Somebody broke the rules.
    Offence {
        /// On this graph.
        graph: Network,
        /// Who, if it is a listed peer; on the public graph `NoHello` may come from an impostor.
        peer: Option<PeerId>,
        /// From where, if that is all we know.
        address: Option<Multiaddr>,
        /// What.
        offence: Offence,
    },
    /// Somebody who is not listed tried to connect.
    Stranger {
        /// On this graph.
        graph: Network,
        /// Its peer id; on the public graph it only claims that.
        peer: PeerId,
        /// From where.
        address: Multiaddr,
    },
    /// We no longer accept connections, or could not accept one.
    ListenFailed {
        /// On this graph.
        graph: Network,
        /// What the system says.
        reason: String,
    },
}
