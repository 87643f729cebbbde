//! One identity's presence on both graphs, and the runs that are attached to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use libp2p::{
    Multiaddr, PeerId,
    identity::{Keypair, PublicKey},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    Graph, Handle, HubConfig, NetworkError, NetworkEvent, Patience, PeerAddress, Reports, RunConfig,
    address::Place,
    config::RunGraph,
    edge::{Edge, Line, Presence},
    hello::Credentials,
    queue::Queue,
    roster::Roster,
    session,
    swarm::{self, Command, Driver, Introduction},
};

/// Runs that may be attached at once: each takes two of a connection's streams.
pub(super) const RUNS: usize = 24;
/// Offences and streams of a peer that wait for its edge.
const ARRIVALS: usize = 8;
/// Events beyond frames that may wait for the driver, for each edge and overall.
const EVENTS_PER_EDGE: usize = 16;
const EVENTS: usize = 256;

/// Both swarms of one identity; cheap to clone. Once the last clone and the last [`Attachment`] are dropped all connections
/// break at once.
#[derive(Clone)]
pub struct Hub {
    shared: Arc<Shared>,
}

struct Shared {
    key: Keypair,
    version: u32,
    patience: Patience,
    private: Side,
    public: Side,
    runs: Mutex<BTreeSet<[u8; 32]>>,
    swarms: Mutex<JoinSet<()>>,
}

/// One graph's swarm, from outside of its task.
struct Side {
    graph: Graph,
    roster: Arc<Roster>,
    commands: mpsc::Sender<Command>,
    address: Multiaddr,
}

impl Hub {
    /// Listens on both addresses. Must be called inside a tokio runtime with time and I/O. Nothing is dialled yet.
    pub async fn start(config: HubConfig) -> Result<Hub, NetworkError> {
        Hub::start_for(config, None).await
    }

    /// The same for this run only, which is named to peers that ask for another.
    pub(super) async fn start_with(
        config: HubConfig,
        run: RunConfig,
    ) -> Result<(Hub, Attachment, mpsc::Receiver<NetworkEvent>), NetworkError> {
        Neighbours::of(Graph::Private, &config.key, &run.private)?;
        Neighbours::of(Graph::Public, &config.key, &run.public)?;
        let hub = Hub::start_for(config, Some(run.digest)).await?;
        let (attachment, events) = hub.attach(run)?;
        Ok((hub, attachment, events))
    }

    async fn start_for(config: HubConfig, only: Option<[u8; 32]>) -> Result<Hub, NetworkError> {
        let HubConfig { key, version, private, public, patience } = config;
        let mut listed = [(Graph::Private, private), (Graph::Public, public)].map(|(graph, listening)| {
            let peers = Neighbours::check(graph, &key, &listening.peers);
            (graph, listening.listen, peers)
        });
        let mut ready = Vec::new();
        // Both must listen before either dials: a port in use is found before anybody sees us.
        for (graph, listen, peers) in &mut listed {
            let roster = Arc::new(Roster::new(only));
            for (peer, known) in std::mem::replace(peers, Ok(Neighbours::default()))?.0 {
                roster.list(peer, &known.key);
            }
            let mut swarm = swarm::build(*graph, &key, &roster, patience.dial)?;
            let address = swarm::listen(&mut swarm, listen).await?;
            ready.push((*graph, roster, swarm, address));
        }
        let mut swarms = JoinSet::new();
        let mut sides = ready.into_iter().map(|(graph, roster, swarm, address)| {
            let (commands, receiver) = mpsc::channel(64);
            let introduction = Introduction { graph, version, key: key.clone(), patience: patience.hello };
            swarms.spawn(Driver::new(introduction, swarm, receiver, roster.clone()).run());
            Side { graph, roster, commands, address }
        });
        let (Some(private), Some(public)) = (sides.next(), sides.next()) else { unreachable!("there are two graphs") };
        drop(sides);
        let (runs, swarms) = (Mutex::default(), Mutex::new(swarms));
        Ok(Hub { shared: Arc::new(Shared { key, version, patience, private, public, runs, swarms }) })
    }

    /// Attaches a run and starts to connect its edges. Of the events its driver must not stop taking any: a full channel
    /// holds back all edges of the run (and of no other).
    pub fn attach(&self, config: RunConfig) -> Result<(Attachment, mpsc::Receiver<NetworkEvent>), NetworkError> {
        let shared = &self.shared;
        let private = Neighbours::of(Graph::Private, &shared.key, &config.private)?;
        let public = Neighbours::of(Graph::Public, &shared.key, &config.public)?;
        let edges = private.0.len() + public.0.len();
        let (events, receiver) = mpsc::channel(edges * (session::FRAMES_IN_FLIGHT + EVENTS_PER_EDGE) + EVENTS);
        let (stop, stopped) = watch::channel(false);
        let reports = Reports { events, stop: stopped };
        let berth = Berth::take(shared, &config, &reports)?;
        let mut builder = Builder {
            shared,
            digest: config.digest,
            probes: public.0.iter().chain(&private.0).map(|(peer, known)| (*peer, known.place.clone())).collect(),
            presences: BTreeMap::new(),
            lines: BTreeMap::new(),
            reports,
            edges: JoinSet::new(),
            begun: Arc::new(watch::channel(false).0),
        };
        let private_sent = builder.join(&shared.private, private, &config.private);
        let public_sent = builder.join(&shared.public, public, &config.public);
        let handle = Handle { lines: Arc::new(builder.lines), private_sent, public_sent, begun: builder.begun };
        Ok((Attachment { handle, stop, edges: builder.edges, _berth: berth }, receiver))
    }

    /// Where we listen on the private graph.
    pub fn private_address(&self) -> &Multiaddr {
        &self.shared.private.address
    }

    /// Where we listen on the public graph.
    pub fn public_address(&self) -> &Multiaddr {
        &self.shared.public.address
    }

    /// Stops listening and breaks what is connected still; returns once the ports are free.
    pub async fn shutdown(self) {
        let mut swarms = std::mem::take(&mut *self.shared.swarms.lock().unwrap_or_else(PoisonError::into_inner));
        swarms.shutdown().await;
    }
}

/// One run's edges on a hub. Dropping it breaks its streams at once; [`Attachment::shutdown`] is the polite way.
pub struct Attachment {
    handle: Handle,
    stop: watch::Sender<bool>,
    edges: JoinSet<()>,
    /// Dropped last.
    _berth: Berth,
}

impl Attachment {
    /// For sending.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Writes what is queued for connected peers, waits until they have read it, and detaches this run; after `patience`
    /// whatever is left is dropped. From the call on no events come, and what peers send is dropped. Returns whether all was
    /// written and read in time.
    pub async fn shutdown(mut self, patience: Duration) -> bool {
        let _ = self.stop.send(true);
        let all = timeout(patience, async { while self.edges.join_next().await.is_some() {} }).await.is_ok();
        self.edges.shutdown().await;
        all
    }
}

/// A run's place in the hub: its neighbours are listed for as long as this lives.
struct Berth {
    shared: Arc<Shared>,
    digest: [u8; 32],
    peers: Vec<(Graph, PeerId)>,
}

impl Berth {
    fn take(shared: &Arc<Shared>, config: &RunConfig, reports: &Reports) -> Result<Berth, NetworkError> {
        let digest = config.digest;
        let mut runs = shared.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= RUNS {
            return Err(NetworkError::TooManyRuns { limit: RUNS });
        }
        if !runs.insert(digest) {
            return Err(NetworkError::SameRun);
        }
        drop(runs);
        let mut peers = Vec::new();
        for (side, graph) in [(&shared.private, &config.private), (&shared.public, &config.public)] {
            side.roster.attach(digest, reports.clone());
            for PeerAddress { peer_id, .. } in &graph.peers {
                if let Some(key) = key_of(peer_id) {
                    side.roster.list(*peer_id, &key);
                    peers.push((side.graph, *peer_id));
                }
            }
        }
        Ok(Berth { shared: shared.clone(), digest, peers })
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        for side in [&self.shared.private, &self.shared.public] {
            side.roster.detach(&self.digest);
            for (_, peer) in self.peers.iter().filter(|(graph, _)| *graph == side.graph) {
                side.roster.leave(peer, &self.digest);
                side.roster.unlist(peer);
            }
        }
        self.shared.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.digest);
    }
}

/// A checked neighbour.
struct Neighbour {
    place: Place,
    key: PublicKey,
}

#[derive(Default)]
struct Neighbours(BTreeMap<PeerId, Neighbour>);

/// Only short keys, of which ed25519 is the one that we can read, are held by the peer id itself.
fn key_of(peer: &PeerId) -> Option<PublicKey> {
    PublicKey::try_decode_protobuf(peer.as_ref().digest()).ok().filter(|key| key.to_peer_id() == *peer)
}

impl Neighbours {
    fn of(graph: Graph, key: &Keypair, settings: &RunGraph) -> Result<Neighbours, NetworkError> {
        if !(1..1 << 31).contains(&settings.max_frame) {
            return Err(NetworkError::Limit { graph, max_frame: settings.max_frame });
        }
        Neighbours::check(graph, key, &settings.peers)
    }

    fn check(graph: Graph, key: &Keypair, peers: &[PeerAddress]) -> Result<Neighbours, NetworkError> {
        let ours = key.public().to_peer_id();
        let mut all = BTreeMap::new();
        for PeerAddress { peer_id: peer, address } in peers {
            let wrong = |reason| NetworkError::Peer { graph, peer: *peer, reason };
            let key = key_of(peer).ok_or(wrong("its id does not hold an ed25519 key"))?;
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

/// What is needed only while an attachment is put together.
struct Builder<'a> {
    shared: &'a Shared,
    digest: [u8; 32],
    /// Private addresses where known, else public ones.
    probes: BTreeMap<PeerId, Place>,
    presences: BTreeMap<PeerId, Arc<Presence>>,
    lines: BTreeMap<(Graph, PeerId), Arc<Line>>,
    reports: Reports,
    edges: JoinSet<()>,
    begun: Arc<watch::Sender<bool>>,
}

impl Builder<'_> {
    /// Starts a task for each edge; returns the counter of sent bytes.
    fn join(&mut self, side: &Side, neighbours: Neighbours, settings: &RunGraph) -> Arc<AtomicU64> {
        let sent = Arc::new(AtomicU64::new(0));
        for (peer, neighbour) in neighbours.0 {
            let line = self.line(side.graph, peer, settings, &sent);
            self.lines.insert((side.graph, peer), line.clone());
            let (arrivals, receiver) = mpsc::channel(ARRIVALS);
            let edge = Edge {
                line,
                credentials: Credentials {
                    graph: side.graph,
                    version: self.shared.version,
                    key: self.shared.key.clone(),
                    peer,
                    peer_key: neighbour.key,
                    patience: self.shared.patience.hello,
                },
                digest: self.digest,
                probe: self.probes.get(&peer).unwrap_or(&neighbour.place).clone(),
                place: neighbour.place,
                presence: self.presences.entry(peer).or_default().clone(),
                dial_patience: self.shared.patience.dial,
                commands: side.commands.clone(),
                link: side.roster.enter(&peer, self.digest, arrivals),
                arrivals: receiver,
                reports: self.reports.clone(),
                lost: false,
                begun: self.begun.subscribe(),
                reported: None,
                absent: false,
            };
            self.edges.spawn(edge.run());
        }
        sent
    }

    fn line(&self, graph: Graph, peer: PeerId, settings: &RunGraph, sent: &Arc<AtomicU64>) -> Arc<Line> {
        // Each frame costs its bytes and a 64th of the budget; the longest must fit.
        let least = settings.max_frame + settings.max_frame / 32 + session::FRAMES_IN_FLIGHT;
        Arc::new(Line {
            graph,
            peer,
            queue: Queue::new(settings.queue_frames, settings.queue_bytes),
            max_frame: settings.max_frame,
            inbound_bytes: settings.inbound_bytes.clamp(least, u32::MAX as usize),
            stall: self.shared.patience.stall,
            sent: sent.clone(),
        })
    }
}
