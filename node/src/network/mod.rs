//! Carries frames to the neighbours on the two graphs. Transport only: it knows nothing of runs, plans or messages.
//!
//! Two swarms with one identity: the private one is TCP + Noise + Yamux, the public one TCP + plaintext + Yamux. They
//! listen on two ports, so that nothing can be talked down from one to the other. On each graph every listed peer is an
//! *edge* with two long-lived streams, one each way, that begin with a signed hello (see `hello.rs`) and then carry frames.
//!
//! What holds:
//! - Only listed peers get a connection; only a peer whose hello names our digest and version, signed by its key over our
//!   nonce, gets its frames read. Private frames go to whoever holds the peer's key, or to nobody.
//! - [`Handle::send`] never waits. A frame's ticket is taken before its first byte leaves, else no byte of it does.
//! - A peer's unread frames are bounded ([`GraphConfig::inbound_bytes`], 64 frames): it is not read from beyond that, and
//!   nobody else waits for it.
//! - Nothing is allocated ahead of what arrived, and nothing above the limits.
//! - A killed peer is [`NetworkEvent::Disconnected`] and [`NetworkEvent::Gone`] within milliseconds. One that falls silent
//!   is noticed by the caller's deadlines only; between frames silence is allowed here.
//!
//! What does not: order between graphs; delivery of what left when a connection breaks (the caller sends again); hiding
//! who talks to whom, and how much. An impostor on the public graph cannot pass, but can take up the two connections that
//! a peer is allowed until the hello's deadline.

mod address;
pub mod bench;
mod config;
mod edge;
mod event;
mod hello;
mod muxer;
mod offence;
mod queue;
mod session;
mod swarm;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use libp2p::{Multiaddr, PeerId, identity::PublicKey};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use self::{
    address::Place,
    edge::{Edge, Line},
    hello::Credentials,
    queue::Queue,
    swarm::{Driver, Link, Port},
};
pub use self::{
    config::{GraphConfig, NetworkConfig, NetworkError, Patience, PeerAddress},
    event::NetworkEvent,
    offence::Offence,
    queue::{Frame, SendError, TakeTicket},
    session::{Permit, Received},
};

/// Inbound streams of a peer that wait for its edge.
const INBOUND_STREAMS: usize = 4;
/// Events beyond frames that may wait for the driver, for each edge and overall.
const EVENTS_PER_EDGE: usize = 16;
const EVENTS: usize = 256;

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
        let line = self.lines.get(&(graph, peer)).ok_or(SendError::NoSuchPeer { graph, peer })?;
        if frame.bytes.len() > line.max_frame {
            return Err(SendError::TooLong { length: frame.bytes.len(), limit: line.max_frame });
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

/// Both swarms and all edges. Dropping it breaks all connections at once; [`Network::shutdown`] is the polite way.
pub struct Network {
    handle: Handle,
    stop: watch::Sender<bool>,
    edges: JoinSet<()>,
    swarms: JoinSet<()>,
    private_address: Multiaddr,
    public_address: Multiaddr,
}

impl Network {
    /// Listens on both addresses and starts to connect. Must be called inside a tokio runtime with time and I/O. Of the
    /// events the driver must not stop taking any: a full channel holds back all edges.
    pub async fn start(config: NetworkConfig) -> Result<(Network, mpsc::Receiver<NetworkEvent>), NetworkError> {
        let private = Neighbours::check(Graph::Private, &config)?;
        let public = Neighbours::check(Graph::Public, &config)?;
        let edges = private.0.len() + public.0.len();
        let capacity = edges * (session::FRAMES_IN_FLIGHT + EVENTS_PER_EDGE) + EVENTS;
        let (events, receiver) = mpsc::channel(capacity);
        let (stop, stopped) = watch::channel(false);
        let mut builder = Builder {
            probes: public.0.iter().chain(&private.0).map(|(peer, known)| (*peer, known.place.clone())).collect(),
            gone: BTreeMap::new(),
            lines: BTreeMap::new(),
            reports: Reports { events, stop: stopped },
            edges: JoinSet::new(),
            swarms: JoinSet::new(),
            begun: Arc::new(watch::channel(false).0),
            config,
        };
        // Both must listen before either dials: a port in use is found before anybody sees us.
        let (private_swarm, private_address) = builder.listen(Graph::Private, &private).await?;
        let (public_swarm, public_address) = builder.listen(Graph::Public, &public).await?;
        let private_sent = builder.join(Graph::Private, private_swarm, private);
        let public_sent = builder.join(Graph::Public, public_swarm, public);
        let handle = Handle { lines: Arc::new(builder.lines), private_sent, public_sent, begun: builder.begun };
        let (edges, swarms) = (builder.edges, builder.swarms);
        Ok((Network { handle, stop, edges, swarms, private_address, public_address }, receiver))
    }

    /// For sending.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Where we listen on the private graph.
    pub fn private_address(&self) -> &Multiaddr {
        &self.private_address
    }

    /// Where we listen on the public graph.
    pub fn public_address(&self) -> &Multiaddr {
        &self.public_address
    }

    /// Writes what is queued for connected peers, waits until they have read it, and closes everything; after `patience`
    /// whatever is left is dropped. From the call on no events come, and what peers send is dropped. Returns whether all was
    /// written and read in time.
    pub async fn shutdown(mut self, patience: Duration) -> bool {
        let _ = self.stop.send(true);
        let all = timeout(patience, async { while self.edges.join_next().await.is_some() {} }).await.is_ok();
        self.edges.shutdown().await;
        self.swarms.shutdown().await;
        all
    }
}

/// A checked neighbour.
struct Neighbour {
    place: Place,
    key: PublicKey,
}

struct Neighbours(BTreeMap<PeerId, Neighbour>);

impl Neighbours {
    fn check(graph: Graph, config: &NetworkConfig) -> Result<Neighbours, NetworkError> {
        let settings = config.of(graph);
        if !(1..1 << 31).contains(&settings.max_frame) {
            return Err(NetworkError::Limit { graph, max_frame: settings.max_frame });
        }
        let ours = config.key.public().to_peer_id();
        let mut all = BTreeMap::new();
        for PeerAddress { peer_id: peer, address } in &settings.peers {
            let wrong = |reason| NetworkError::Peer { graph, peer: *peer, reason };
            // Only short keys, of which ed25519 is the one that we can read, are held by the peer id itself.
            let key = PublicKey::try_decode_protobuf(peer.as_ref().digest())
                .ok()
                .filter(|key| key.to_peer_id() == *peer)
                .ok_or(wrong("its id does not hold an ed25519 key"))?;
            if *peer == ours {
                return Err(wrong("it is our own id"));
            }
            if all.insert(*peer, Neighbour { place: Place::parse(address)?, key }).is_some() {
                return Err(wrong("it is listed twice"));
            }
        }
        Ok(Neighbours(all))
    }
}

/// What is needed only while the parts are put together.
struct Builder {
    config: NetworkConfig,
    /// Private addresses where known, else public ones.
    probes: BTreeMap<PeerId, Place>,
    gone: BTreeMap<PeerId, Arc<AtomicBool>>,
    lines: BTreeMap<(Graph, PeerId), Arc<Line>>,
    reports: Reports,
    edges: JoinSet<()>,
    swarms: JoinSet<()>,
    begun: Arc<watch::Sender<bool>>,
}

impl Builder {
    async fn listen(
        &self,
        graph: Graph,
        neighbours: &Neighbours,
    ) -> Result<(libp2p::Swarm<swarm::Behaviour>, Multiaddr), NetworkError> {
        let peers: BTreeSet<_> = neighbours.0.keys().copied().collect();
        let mut swarm = swarm::build(graph, &self.config.key, &peers, self.config.patience.dial)?;
        let address = swarm::listen(&mut swarm, &self.config.of(graph).listen).await?;
        Ok((swarm, address))
    }

    /// Starts the swarm's task and one for each of its edges; returns the counter of sent bytes.
    fn join(&mut self, graph: Graph, swarm: libp2p::Swarm<swarm::Behaviour>, neighbours: Neighbours) -> Arc<AtomicU64> {
        let sent = Arc::new(AtomicU64::new(0));
        let (commands, receiver) = mpsc::channel(64);
        let mut ports = BTreeMap::new();
        let mut ends = Vec::new();
        for (peer, neighbour) in neighbours.0 {
            let (link, link_end) = watch::channel(Link::default());
            let (inbound, inbound_end) = mpsc::channel(INBOUND_STREAMS);
            ports.insert(peer, Port { link, inbound, live: BTreeSet::new() });
            ends.push((peer, neighbour, link_end, inbound_end));
        }
        let (driver, control) = Driver::new(graph, swarm, receiver, ports, self.reports.clone());
        self.swarms.spawn(driver.run());
        for (peer, neighbour, link, inbound) in ends {
            let line = self.line(graph, peer, &sent);
            self.lines.insert((graph, peer), line.clone());
            let edge = Edge {
                line,
                credentials: Credentials {
                    graph,
                    version: self.config.version,
                    digest: self.config.digest,
                    key: self.config.key.clone(),
                    peer,
                    peer_key: neighbour.key,
                    patience: self.config.patience.hello,
                },
                probe: self.probes.get(&peer).unwrap_or(&neighbour.place).clone(),
                place: neighbour.place,
                gone: self.gone.entry(peer).or_default().clone(),
                dial_patience: self.config.patience.dial,
                commands: commands.clone(),
                control: control.clone(),
                link,
                inbound,
                reports: self.reports.clone(),
                examined: JoinSet::new(),
                lost: false,
                begun: self.begun.subscribe(),
                reported: None,
            };
            self.edges.spawn(edge.run());
        }
        sent
    }

    fn line(&self, graph: Graph, peer: PeerId, sent: &Arc<AtomicU64>) -> Arc<Line> {
        let settings = self.config.of(graph);
        // Each frame costs its bytes and a 64th of the budget; the longest must fit.
        let least = settings.max_frame + settings.max_frame / 32 + session::FRAMES_IN_FLIGHT;
        Arc::new(Line {
            graph,
            peer,
            queue: Queue::new(settings.queue_frames, settings.queue_bytes),
            max_frame: settings.max_frame,
            inbound_bytes: settings.inbound_bytes.clamp(least, u32::MAX as usize),
            stall: self.config.patience.stall,
            sent: sent.clone(),
        })
    }
}
