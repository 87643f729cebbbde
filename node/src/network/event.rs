//! The events that the network reports to its driver.

use libp2p::{Multiaddr, PeerId};
use undertone_protocol::messages::notice::Network;

use crate::network::dial_fault::DialFault;
use crate::network::offence::Offence;
use crate::network::received::Received;

/// The way that an edge's streams take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkWay {
    /// A connection that nothing secures; public messages only.
    Plain,
    /// An encrypted connection from one to the other.
    Encrypted,
    /// An encrypted connection over this relay.
    Relayed(PeerId),
}

/// An event on the network.
#[derive(Debug)]
pub enum NetworkEvent {
    /// Streams both ways are up and both hellos done.
    Connected {
        /// The graph that it happened on.
        graph: Network,
        /// The peer at the other end.
        peer: PeerId,
        /// The way that its streams take.
        way: LinkWay,
    },
    /// The edge is down; it is being restored. Frames that did not leave stay queued.
    Disconnected {
        /// The graph that it happened on.
        graph: Network,
        /// The peer at the other end.
        peer: PeerId,
    },
    /// A peer that was connected is not, and its private address (the public one if we do not know
    /// it) refuses connections, or it says that it has no such run (any more). Once for each loss.
    /// What was queued for it is dropped.
    Unreachable {
        /// The peer that it is about.
        peer: PeerId,
    },
    /// The private address of a peer that was never connected (the public one if we do not know it)
    /// refuses connections. Once until it is connected.
    Refused {
        /// The peer that it is about.
        peer: PeerId,
        /// Where it should listen, as `host:port`.
        place: String,
    },
    /// A peer that is not connected was dialled twice in a row, and nothing answered for it. Once
    /// until it is connected.
    Unanswered {
        /// The peer that it is about.
        peer: PeerId,
        /// Where it should listen, as `host:port`.
        place: String,
        /// The finding there.
        fault: DialFault,
    },
    /// A peer that was never connected answers, and says that it has no such run. It is asked
    /// again. Once for each graph.
    Absent {
        /// The graph that it happened on.
        graph: Network,
        /// The peer that it is about.
        peer: PeerId,
    },
    /// A peer that was never connected says that it takes no part in the run. Once until it is
    /// connected.
    Declined {
        /// The peer that it is about.
        peer: PeerId,
    },
    /// A whole frame came in.
    Frame {
        /// The graph that it happened on.
        graph: Network,
        /// The peer that sent it, who said hello with its key.
        peer: PeerId,
        /// The frame's bytes; holding them holds back the peer.
        bytes: Received,
    },
    /// A frame's ticket was taken: its first byte is being handed to the transport.
    Left {
        /// The graph that it happened on.
        graph: Network,
        /// The peer that the frame goes to.
        peer: PeerId,
        /// The token that the frame was queued with.
        token: u64,
    },
    /// Somebody broke the rules.
    Offence {
        /// The graph that it happened on.
        graph: Network,
        /// The peer, if it is a listed one; on the public graph `NoHello` may come from an
        /// impostor.
        peer: Option<PeerId>,
        /// The address that it came from, if that is all we know.
        address: Option<Multiaddr>,
        /// The rule that was broken.
        offence: Offence,
    },
    /// Somebody who is not listed tried to connect.
    Stranger {
        /// The graph that it happened on.
        graph: Network,
        /// The peer id that it has; on the public graph it only claims that.
        peer: PeerId,
        /// The address that it came from.
        address: Multiaddr,
    },
    /// We no longer accept connections, or could not accept one.
    ListenFailed {
        /// The graph that it happened on.
        graph: Network,
        /// The system's message.
        reason: String,
    },
}
