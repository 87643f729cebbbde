//! The commands of edges and the hub to a swarm.

use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use tokio::sync::{oneshot, watch};

use crate::network::dial_fault::DialFault;
use crate::network::lane::{Lane, NotOpened};

/// A command of an edge to the swarm.
#[derive(Debug)]
pub(super) enum SwarmCommand {
    /// Dial once, unless a dial is on its way, and say how it went. The peer's link changes either
    /// way.
    Reach {
        peer: PeerId,
        addresses: Vec<Multiaddr>,
        answer: oneshot::Sender<Result<ConnectionId, DialFault>>,
    },
    /// Open a stream on this connection. Without an answer the connection is gone.
    Open {
        peer: PeerId,
        connection: ConnectionId,
        protocol: StreamProtocol,
        answer: oneshot::Sender<Result<Lane, NotOpened>>,
    },
    /// The peer has said hello on this connection.
    Proved { peer: PeerId, connection: ConnectionId },
    /// An edge is up on this connection: open later streams there, too.
    Settled { peer: PeerId, connection: ConnectionId },
    /// Nobody answers on this connection, or somebody else does: close it.
    Unanswered { peer: PeerId, connection: ConnectionId },
    /// Keep a place at a relay, over this circuit address.
    Reserve {
        relay: PeerId,
        circuit: Multiaddr,
        /// `true` once the relay has taken us; dropped once the place is lost.
        held: watch::Sender<bool>,
    },
    /// An edge on this connection broke: close it unless others use it.
    Broken { peer: PeerId, connection: ConnectionId },
}
