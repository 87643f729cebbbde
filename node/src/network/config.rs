//! The settings of the network, and the reasons why it may refuse to start.

use std::io;
use std::time::Duration;

use libp2p::identity::Keypair;
use libp2p::{Multiaddr, PeerId};
use thiserror::Error;
use undertone_protocol::messages::notice::Network;

/// Runs that may be attached at once: each takes two of a connection's streams.
pub(super) const RUNS: usize = 24;

/// A neighbour on one graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// The neighbour's ed25519 peer id.
    pub peer_id: PeerId,
    /// Where it listens on this graph: `/ip4`, `/ip6` or `/dns` with `/tcp`. None: nobody can dial
    /// it there.
    pub addresses: Vec<Multiaddr>,
}

/// The settings of one graph of a run.
#[derive(Clone, Debug)]
pub struct RunGraph {
    /// All neighbours of this node on the graph.
    pub peers: Vec<PeerAddress>,
    /// Longest frame in bytes, both ways; below 2^31.
    pub max_frame: usize,
    /// Frames that may wait for one peer.
    pub queue_frames: usize,
    /// Bytes that may wait for one peer.
    pub queue_bytes: usize,
    /// Bytes of one peer that may be received and not yet dropped by the driver; at least a longest
    /// frame.
    pub inbound_bytes: usize,
}

impl RunGraph {
    /// Limits that follow from the longest frame: four of them, or 4 MiB, and 4096 frames may wait
    /// for a peer; two of a peer's may wait for us.
    pub fn new(peers: Vec<PeerAddress>, max_frame: usize) -> RunGraph {
        let queue_bytes = max_frame.saturating_mul(4).max(4 << 20);
        RunGraph {
            peers,
            max_frame,
            queue_frames: 4096,
            queue_bytes,
            inbound_bytes: max_frame.saturating_mul(2),
        }
    }

    /// At least so many frames and bytes may wait for one peer: all that it may be owed at once. A
    /// smaller limit takes an honest peer for a slow one, resets its edge, and owes it the same
    /// again.
    pub fn owing(mut self, frames: usize, bytes: usize) -> RunGraph {
        (self.queue_frames, self.queue_bytes) = (self.queue_frames.max(frames), self.queue_bytes.max(bytes));
        self
    }
}

/// The settings of a run, for its hub.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Names the run: streams that name another one are not this run's.
    pub digest: [u8; 32],
    /// Neighbours and limits on the private graph.
    pub private: RunGraph,
    /// Neighbours and limits on the public graph.
    pub public: RunGraph,
    /// The encrypted addresses of public neighbours: where there is no plain way to one, its public
    /// messages take an encrypted connection.
    pub links: Vec<PeerAddress>,
}

/// Where a hub listens on one graph, and for whom.
#[derive(Clone, Debug)]
pub struct Listening {
    /// Our own addresses. If one does not belong to this machine, its port is bound on all
    /// interfaces. None: nobody can connect to us, and we dial the others.
    pub listen: Vec<Multiaddr>,
    /// Whether others can dial us here: one behind address translation may listen in vain.
    pub announced: bool,
    /// Peers that may connect whatever runs there are; those of attached runs always may. Where
    /// there are any, their addresses win over those of runs.
    pub peers: Vec<PeerAddress>,
}

/// How long we wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long to wait for a dialled connection and its security handshake, and for looking up a
    /// name.
    pub dial: Duration,
    /// How long to wait for a hello.
    pub hello: Duration,
    /// How long 64 KiB of a frame may take to move on, either way.
    pub stall: Duration,
    /// How long to wait for a connection over a relay, and its security handshake.
    pub circuit: Duration,
    /// How often each end of a connection asks for a sign of life, and how long that may take. Two
    /// in a row that do not come close the connection.
    pub ping: Duration,
}

impl Default for Patience {
    /// Our guesses: three seconds are many round trips around the world, and a circuit takes twice
    /// as many, at a relay that has others to serve; a stalled peer may have
    /// been suspended. Pings come as often as libp2p sends them by default, before a strict NAT
    /// forgets a connection that is silent for 20 s.
    fn default() -> Patience {
        Patience {
            dial: Duration::from_secs(3),
            hello: Duration::from_secs(3),
            circuit: Duration::from_secs(8),
            stall: Duration::from_secs(15),
            ping: Duration::from_secs(15),
        }
    }
}

/// The settings of a hub.
#[derive(Clone)]
pub struct HubConfig {
    /// Our ed25519 identity.
    pub key: Keypair,
    /// Version of the messages in frames: peers with another one are refused, with the reason.
    pub version: u32,
    /// Where to listen on the private graph, and for whom.
    pub private: Listening,
    /// Where to listen on the public graph, and for whom.
    pub public: Listening,
    /// Relays that reach peers without addresses, and let these reach us: their encrypted
    /// addresses.
    pub relays: Vec<PeerAddress>,
    /// Whether we are a relay of listed peers.
    pub relays_others: bool,
    /// How long to wait for others.
    pub patience: Patience,
}

/// The reasons why there is no network.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// Another process listens there already.
    #[error("the port of {address} is in use by another process: stop that, or choose another port")]
    PortInUse {
        /// The address as it was listed.
        address: Multiaddr,
    },
    /// The address cannot be listened on for another reason.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address as it was listed.
        address: Multiaddr,
        /// The system's error.
        source: io::Error,
    },
    /// An address of another kind than we speak.
    #[error("{address} is no usable address: it must be /ip4/…/tcp/…, /ip6/…/tcp/… or /dns/…/tcp/…")]
    Address {
        /// The address as it was listed.
        address: Multiaddr,
    },
    /// A peer id that does not hold an ed25519 key, is listed twice, or is our own.
    #[error("{peer} cannot be a {graph} neighbour: {reason}")]
    Peer {
        /// The graph that it is listed on.
        graph: Network,
        /// The peer id in question.
        peer: PeerId,
        /// The fault in it.
        reason: &'static str,
    },
    /// A limit that makes no sense.
    #[error("the longest {graph} frame has {max_frame} bytes: at least 1 and below 2^31 are possible")]
    Limit {
        /// The graph that the limit is for.
        graph: Network,
        /// The limit in bytes.
        max_frame: usize,
    },
    /// This very run is attached already.
    #[error("the run takes place here already")]
    SameRun,
    /// As many runs are attached as one connection has streams for.
    #[error("{limit} runs take place here already: wait until one of them has ended")]
    TooManyRuns {
        /// How many may be attached at once.
        limit: usize,
    },
    /// The transport could not be set up.
    #[error("the network could not be set up: {reason}")]
    Setup {
        /// The library's message.
        reason: String,
    },
}
