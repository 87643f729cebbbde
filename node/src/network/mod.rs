//! Carries frames to the neighbours on the two graphs. Transport only: it knows nothing of plans or messages, but that notices on a public
//! stream repeat what others on it said (see `session.rs`).
//!
//! A [`Hub`] has two swarms with one identity: the private one is TCP + Noise + Yamux, the public one TCP + plaintext +
//! Yamux. They listen on two ports, so that nothing can be talked down from one to the other. Any number of runs attach to
//! it; [`Network`] is a hub for one run. On each graph every neighbour of a run is an *edge* with two long-lived streams, one
//! each way, that begin with a signed hello (see `hello.rs`), which names the run, and then carry frames. Edges of several
//! runs with the same peer share connections. Beside that, listed peers may ask each other what belongs to no run
//! ([`Hub::ask`]), on streams of another protocol.
//!
//! What holds:
//! - Only listed peers get a connection; only a peer whose hello names one of our digests and our version, signed by its key
//!   over our nonce, gets its frames read, by that run. Private frames go to whoever holds the peer's key, or to nobody.
//! - [`Handle::send`] never waits. A frame's ticket is taken before its first byte leaves, else no byte of it does.
//! - A peer's unread frames are bounded for each run ([`RunGraph::inbound_bytes`], 64 frames): it is not read from beyond
//!   that, and nobody else waits for it.
//! - Memory is used as bytes arrive, not as a length announces them, and never above the limits.
//! - A killed peer is [`NetworkEvent::Disconnected`] and [`NetworkEvent::Gone`] within milliseconds. One that falls silent
//!   is noticed by the caller's deadlines only; between frames silence is allowed here.
//! - Who knows only a peer's public key can connect on the public graph in its name, and gets no further: such connections
//!   are not written to, are few, go after a hello's deadline or when newer ones come, and keep nobody out.
//!
//! What does not: order between graphs; delivery of what left when a connection breaks (the caller sends again); hiding
//! who talks to whom, and how much.

mod address;
mod ask;
pub mod bench;
mod config;
mod door;
mod edge;
mod event;
mod hello;
mod hub;
mod muxer;
mod offence;
mod queue;
mod roster;
mod session;
mod swarm;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use libp2p::{Multiaddr, PeerId};
use tokio::sync::{mpsc, watch};

use self::edge::Line;
pub use self::{
    ask::{AskFault, Asked, DialFault, Inquiry},
    config::{HubConfig, Listening, NetworkError, Patience, PeerAddress, RunConfig, RunGraph},
    event::NetworkEvent,
    hub::{Attachment, Hub},
    offence::Offence,
    queue::{Frame, SendError, TakeTicket},
    session::{Permit, Received},
};

/// One of the two graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Graph {
    /// Encrypted and mutually authenticated.
    Private,
    /// In the clear; everything on it may be read by anyone.
    Public,
}

impl Graph {
    fn code(self) -> u8 {
        match self {
            Graph::Private => 1,
            Graph::Public => 2,
        }
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Graph::Private => "private",
            Graph::Public => "public",
        })
    }
}

/// How tasks reach the driver. Once the network shuts down nothing is told any more.
#[derive(Clone)]
struct Reports {
    events: mpsc::Sender<NetworkEvent>,
    stop: watch::Receiver<bool>,
}

impl Reports {
    /// Waits while the driver is behind.
    async fn tell(&self, event: NetworkEvent) {
        tokio::select! {
            biased;
            () = self.shutdown() => {}
            _ = self.events.send(event) => {}
        }
    }

    /// Drops the event if the driver is behind.
    fn try_tell(&self, event: NetworkEvent) {
        let _ = self.events.try_send(event);
    }

    fn shutting_down(&self) -> bool {
        *self.stop.borrow() || self.stop.has_changed().is_err()
    }

    async fn shutdown(&self) {
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
    }
}

/// Sends frames; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    lines: Arc<BTreeMap<(Graph, PeerId), Arc<Line>>>,
    private_sent: Arc<AtomicU64>,
    public_sent: Arc<AtomicU64>,
    begun: Arc<watch::Sender<bool>>,
}

impl Handle {
    /// Queues a frame and returns at once. It leaves when the edge is up; frames that have not left stay queued while the
    /// edge is down, until the peer is found gone. Frames of one edge leave in the order of the calls.
    pub fn send(&self, graph: Graph, peer: PeerId, frame: Frame) -> Result<(), SendError> {
        let line = self
            .lines
            .get(&(graph, peer))
            .ok_or(SendError::NoSuchPeer { graph, peer })?;
        if frame.bytes.len() > line.max_frame {
            return Err(SendError::TooLong {
                length: frame.bytes.len(),
                limit: line.max_frame,
            });
        }
        line.queue.push(frame)
    }

    /// Everybody is known to be up, whether or not its edge is: from now on a peer whose address refuses connections is
    /// [`NetworkEvent::Gone`] even if it was never connected with us.
    pub fn everybody_is_up(&self) {
        self.begun.send_replace(true);
    }

    /// Bytes sent on the private graph: frames, their lengths and hellos. Received bytes are not counted, so that the sum
    /// over all nodes has each byte once. Noise, Yamux and TCP add about 0.3 % to long frames.
    pub fn private_bytes(&self) -> u64 {
        self.private_sent.load(Ordering::Relaxed)
    }

    /// The same on the public graph.
    pub fn public_bytes(&self) -> u64 {
        self.public_sent.load(Ordering::Relaxed)
    }
}

/// A hub for one run. Dropping it breaks all connections at once; [`Network::shutdown`] is the polite way.
pub struct Network {
    hub: Hub,
    run: Attachment,
}

impl Network {
    /// Listens on both addresses and starts to connect. Must be called inside a tokio runtime with time and I/O. Of the
    /// events the driver must not stop taking any: a full channel holds back all edges. Peers that name another run are
    /// told this one's digest.
    pub async fn start(
        hub: HubConfig,
        run: RunConfig,
    ) -> Result<(Network, mpsc::Receiver<NetworkEvent>), NetworkError> {
        let (hub, run, events) = Hub::start_with(hub, run).await?;
        Ok((Network { hub, run }, events))
    }

    /// For sending.
    pub fn handle(&self) -> Handle {
        self.run.handle()
    }

    /// Where we listen on the private graph.
    pub fn private_address(&self) -> &Multiaddr {
        self.hub.private_address()
    }

    /// Where we listen on the public graph.
    pub fn public_address(&self) -> &Multiaddr {
        self.hub.public_address()
    }

    /// Writes what is queued for connected peers, waits until they have read it, and closes everything; after `patience`
    /// whatever is left is dropped. From the call on no events come, and what peers send is dropped. Returns whether all was
    /// written and read in time.
    pub async fn shutdown(self, patience: Duration) -> bool {
        let all = self.run.shutdown(patience).await;
        self.hub.shutdown().await;
        all
    }
}
