//! One identity's presence on both graphs, and the runs that are attached to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libp2p::identity::Keypair;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId, StreamProtocol};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
use undertone_protocol::messages::wire::SHORT_ITEM_BYTES;

use crate::network::address::{self, Place};
use crate::network::ask::{ASK, AskFault, Asked, Closed, Desk, Inquiry};
use crate::network::command::SwarmCommand;
use crate::network::config::{HubConfig, NetworkError, Patience, PeerAddress, RUNS, RunConfig, RunGraph};
use crate::network::dial_fault::DialFault;
use crate::network::edge::state::{Edge, Presence};
use crate::network::event::NetworkEvent;
use crate::network::handle::Handle;
use crate::network::hello::Credentials;
use crate::network::lane::NotOpened;
use crate::network::line::Line;
use crate::network::neighbours::Neighbours;
use crate::network::peer_table::PeerTable;
use crate::network::queue::Queue;
use crate::network::reports::Reports;
use crate::network::session::{self, STREAM};
use crate::network::swarm::build;
use crate::network::swarm::driver::{Introduction, SwarmDriver};
use crate::reporting::process;

/// Offences and streams of a peer that wait for its edge.
const ARRIVALS: usize = 8;
/// Events beyond frames that may wait for the driver, for each edge and overall.
const EVENTS_PER_EDGE: usize = 16;
const EVENTS: usize = 256;

/// Files that a node may need: 512 for strangers at both ports and 896 at its API, each of whom
/// holds one, and a few for each peer. Most systems give a process 1024 unless it asks for more.
const FILES: u64 = 4096;

fn make_place_for_strangers() {
    let files = process::allow_open_files(FILES);
    if files < FILES {
        tracing::warn!(
            "this process may open {files} files, which strangers who connect could take: allow {FILES} (ulimit -n)"
        );
    }
}

/// Both swarms of one identity; cheap to clone. Once the last clone and the last [`Attachment`] are
/// dropped all connections break at once.
#[derive(Clone)]
pub struct Hub {
    state: Arc<HubState>,
}

/// The state that all clones of a hub share.
struct HubState {
    key: Keypair,
    version: u32,
    patience: Patience,
    private: Side,
    public: Side,
    runs: Mutex<BTreeSet<[u8; 32]>>,
    swarms: Mutex<JoinSet<()>>,
    /// The channel to the code that answers what the hub cannot.
    asked: Arc<Mutex<Option<mpsc::Sender<Asked>>>>,
}

/// One graph's swarm, from outside of its task.
struct Side {
    graph: Network,
    peer_table: Arc<PeerTable>,
    commands: mpsc::Sender<SwarmCommand>,
    address: Multiaddr,
}

impl Hub {
    /// Listens on both addresses. Must be called inside a tokio runtime with time and I/O. Nothing
    /// is dialled yet.
    pub async fn start(config: HubConfig) -> Result<Hub, NetworkError> {
        Hub::start_for(config, None, &[STREAM, ASK]).await
    }

    /// Starts a hub as [`Hub::start`] does, for somebody who only asks: runs cannot use its
    /// connections.
    pub async fn start_asking(config: HubConfig) -> Result<Hub, NetworkError> {
        Hub::start_for(config, None, &[ASK]).await
    }

    /// Starts a hub for this run only, which is named to peers that ask for another.
    pub(super) async fn start_with(
        config: HubConfig,
        run: RunConfig,
    ) -> Result<(Hub, Attachment, mpsc::Receiver<NetworkEvent>), NetworkError> {
        Neighbours::of(Network::Private, &config.key, &run.private)?;
        Neighbours::of(Network::Public, &config.key, &run.public)?;
        let hub = Hub::start_for(config, Some(run.digest), &[STREAM, ASK]).await?;
        let (attachment, events) = hub.attach(run)?;
        Ok((hub, attachment, events))
    }

    async fn start_for(
        config: HubConfig,
        only: Option<[u8; 32]>,
        protocols: &[StreamProtocol],
    ) -> Result<Hub, NetworkError> {
        let HubConfig {
            key,
            version,
            private,
            public,
            patience,
        } = config;
        make_place_for_strangers();
        // Peers that may connect whatever runs there are.
        let mut listed =
            [(Network::Private, private), (Network::Public, public)].map(|(graph, listening)| {
                let peers = Neighbours::check(graph, &key, &listening.peers);
                (graph, listening.listen, peers)
            });
        let mut ready = Vec::new();
        // Both must listen before either dials: a port in use is found before anybody sees us.
        for (graph, listen, peers) in &mut listed {
            let peer_table = Arc::new(PeerTable::new(only));
            for (peer, known) in std::mem::replace(peers, Ok(Neighbours::default()))?.0 {
                peer_table.keep(peer, &known.key, &known.place);
            }
            let mut swarm = build::build(*graph, &key, &peer_table, protocols, &patience)?;
            let address = build::listen(&mut swarm, listen).await?;
            ready.push((*graph, peer_table, swarm, address));
        }
        // A task for each swarm; all that is left here are their ends.
        let asked = Arc::new(Mutex::new(None));
        let mut swarms = JoinSet::new();
        let mut sides = ready.into_iter().map(|(graph, peer_table, swarm, address)| {
            let (commands, receiver) = mpsc::channel(64);
            let introduction = Introduction {
                graph,
                version,
                key: key.clone(),
                patience: patience.hello,
            };
            let desk = Desk::new(peer_table.clone(), asked.clone());
            swarms.spawn(SwarmDriver::new(introduction, swarm, receiver, peer_table.clone(), desk).run());
            Side {
                graph,
                peer_table,
                commands,
                address,
            }
        });
        let (Some(private), Some(public)) = (sides.next(), sides.next()) else {
            unreachable!("there are two graphs")
        };
        drop(sides);
        let (runs, swarms) = (Mutex::default(), Mutex::new(swarms));
        Ok(Hub {
            state: Arc::new(HubState {
                key,
                version,
                patience,
                private,
                public,
                runs,
                swarms,
                asked,
            }),
        })
    }

    /// Lists these peers on both graphs, for whatever runs there are, and nobody else; those of
    /// attached runs stay, and connections that there are.
    ///
    /// # Errors
    /// A peer that cannot be one; nothing has changed then.
    pub fn relist(&self, private: &[PeerAddress], public: &[PeerAddress]) -> Result<(), NetworkError> {
        let state = &self.state;
        let private = Neighbours::check(Network::Private, &state.key, private)?;
        let public = Neighbours::check(Network::Public, &state.key, public)?;
        state.private.peer_table.keep_only(&private);
        state.public.peer_table.keep_only(&public);
        Ok(())
    }

    /// Attaches a run and starts to connect its edges. Of the events its driver must not stop
    /// taking any: a full channel holds back all edges of the run (and of no other).
    pub fn attach(
        &self,
        config: RunConfig,
    ) -> Result<(Attachment, mpsc::Receiver<NetworkEvent>), NetworkError> {
        let state = &self.state;
        let private = Neighbours::of(Network::Private, &state.key, &config.private)?;
        let public = Neighbours::of(Network::Public, &state.key, &config.public)?;
        // Room for all that the edges may have under way at once.
        let edges = private.0.len() + public.0.len();
        let (events, receiver) =
            mpsc::channel(edges * (session::FRAMES_IN_FLIGHT + EVENTS_PER_EDGE) + EVENTS);
        let (stop, stopped) = watch::channel(false);
        let reports = Reports {
            events,
            stop: stopped,
        };
        // Neighbours are listed before any edge asks for their connections.
        let berth = Berth::take(state, config.digest, [&private, &public], &reports)?;
        let mut builder = Builder {
            state,
            digest: config.digest,
            probes: public
                .0
                .iter()
                .chain(&private.0)
                .map(|(peer, known)| (*peer, known.place.clone()))
                .collect(),
            presences: BTreeMap::new(),
            lines: BTreeMap::new(),
            reports,
            edges: JoinSet::new(),
            begun: Arc::new(watch::channel(false).0),
        };
        // From here on the edges connect.
        let private_sent = builder.join(&state.private, private, &config.private);
        let public_sent = builder.join(&state.public, public, &config.public);
        let handle = Handle {
            lines: Arc::new(builder.lines),
            private_sent,
            public_sent,
            begun: builder.begun,
        };
        Ok((
            Attachment {
                handle,
                stop,
                edges: builder.edges,
                _berth: berth,
            },
            receiver,
        ))
    }

    /// Notifies peers that wait for this run that this node takes no part in it; while the run is
    /// attached nobody gets that answer.
    pub fn decline(&self, digest: [u8; 32]) {
        self.state.private.peer_table.decline(digest);
        self.state.public.peer_table.decline(digest);
    }

    /// Plans that others ask for or offer come here from now on; before, the hub knows those that
    /// are attached and takes no offer. What finds the channel full is refused.
    pub fn answer_with(&self, asked: mpsc::Sender<Asked>) {
        *self.state.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(asked);
    }

    /// Asks a listed peer one thing, over a connection that there is or a new one.
    ///
    /// # Errors
    /// Why there is no reply that the peer has signed.
    pub async fn ask(
        &self,
        graph: Network,
        peer: PeerId,
        question: &Question,
        payload: &[u8],
    ) -> Result<(Reply, Vec<u8>), AskFault> {
        self.inquire(graph, peer).await?.ask(question, payload).await
    }

    /// Opens a stream on which a listed peer can be asked several things.
    ///
    /// # Errors
    /// The peer is not listed, cannot be reached, or does not say hello.
    pub async fn inquire(&self, graph: Network, peer: PeerId) -> Result<Inquiry, AskFault> {
        let side = self.side(graph);
        let (peer_key, place, link) = side.peer_table.look_up(&peer).ok_or(AskFault::NotListed)?;
        let best = link.borrow().best;
        let connection = match best {
            Some(connection) => connection,
            None => self.reach_place(side, peer, &place).await?,
        };
        let (answer, opened) = oneshot::channel();
        let _ = side
            .commands
            .send(SwarmCommand::Open {
                peer,
                connection,
                protocol: ASK,
                answer,
            })
            .await;
        let HubState {
            ref key,
            version,
            patience,
            ..
        } = *self.state;
        let lane = match timeout(patience.hello, opened).await {
            Ok(Ok(Ok(lane))) => lane,
            Ok(Ok(Err(error))) => return Err(Closed::from(error).into()),
            Ok(Err(_)) => return Err(Closed::from(NotOpened::Lost).into()),
            Err(_) => return Err(AskFault::Silent),
        };
        let credentials = Credentials {
            graph,
            asks: true,
            version,
            key: key.clone(),
            peer,
            peer_key,
            patience: patience.hello,
        };
        let inquiry = Inquiry::begin(lane, credentials).await?;
        let _ = side
            .commands
            .send(SwarmCommand::Proved { peer, connection })
            .await;
        Ok(inquiry)
    }

    /// Tries to connect to a listed peer at this address, which need not be the listed one.
    ///
    /// # Errors
    /// What is there instead; an address that is none counts as [`DialFault::Unknown`].
    pub async fn reach(&self, graph: Network, peer: PeerId, address: &Multiaddr) -> Result<(), DialFault> {
        let place = Place::parse(address).map_err(|_| DialFault::Unknown)?;
        self.reach_place(self.side(graph), peer, &place).await.map(|_| ())
    }

    async fn reach_place(&self, side: &Side, peer: PeerId, place: &Place) -> Result<ConnectionId, DialFault> {
        let found = timeout(self.state.patience.dial, place.resolve()).await;
        let addresses: Vec<_> = match found {
            Ok(Ok(found)) => found.into_iter().map(address::to_multiaddr).collect(),
            _ => return Err(DialFault::Unknown),
        };
        if addresses.is_empty() {
            return Err(DialFault::Unknown);
        }
        let (answer, reached) = oneshot::channel();
        let _ = side
            .commands
            .send(SwarmCommand::Reach {
                peer,
                addresses,
                answer,
            })
            .await;
        reached.await.unwrap_or(Err(DialFault::Silent))
    }

    fn side(&self, graph: Network) -> &Side {
        match graph {
            Network::Private => &self.state.private,
            Network::Public => &self.state.public,
        }
    }

    /// Where we listen on the private graph.
    pub fn private_address(&self) -> &Multiaddr {
        &self.state.private.address
    }

    /// Where we listen on the public graph.
    pub fn public_address(&self) -> &Multiaddr {
        &self.state.public.address
    }

    /// Stops listening and breaks what is connected still; returns once the ports are free.
    pub async fn shutdown(self) {
        let mut swarms =
            std::mem::take(&mut *self.state.swarms.lock().unwrap_or_else(PoisonError::into_inner));
        swarms.shutdown().await;
    }
}

/// One run's edges on a hub. Dropping it breaks its streams at once; [`Attachment::shutdown`] is
/// the polite way.
pub struct Attachment {
    handle: Handle,
    stop: watch::Sender<bool>,
    edges: JoinSet<()>,
    /// Dropped after all else: until then the neighbours are listed.
    _berth: Berth,
}

impl Attachment {
    /// Returns the handle that the run sends its frames with.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Writes what is queued for connected peers, waits until they have read it, and detaches this
    /// run; after `patience` whatever is left is dropped. From the call on no events come, and what
    /// peers send is dropped. Returns whether all was written and read in time.
    pub async fn shutdown(mut self, patience: Duration) -> bool {
        let _ = self.stop.send(true);
        let all = timeout(patience, async {
            while self.edges.join_next().await.is_some() {}
        })
        .await
        .is_ok();
        self.edges.shutdown().await;
        all
    }
}

/// A run's place in the hub: its neighbours are listed for as long as this lives.
struct Berth {
    state: Arc<HubState>,
    digest: [u8; 32],
    peers: Vec<(Network, PeerId)>,
}

impl Berth {
    fn take(
        state: &Arc<HubState>,
        digest: [u8; 32],
        neighbours: [&Neighbours; 2],
        reports: &Reports,
    ) -> Result<Berth, NetworkError> {
        let mut runs = state.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= RUNS {
            return Err(NetworkError::TooManyRuns { limit: RUNS });
        }
        if !runs.insert(digest) {
            return Err(NetworkError::SameRun);
        }
        drop(runs);
        let mut peers = Vec::new();
        for (side, neighbours) in [&state.private, &state.public].into_iter().zip(neighbours) {
            side.peer_table.attach(digest, reports.clone());
            for (peer, known) in &neighbours.0 {
                side.peer_table.list(*peer, &known.key, &known.place);
                peers.push((side.graph, *peer));
            }
        }
        Ok(Berth {
            state: state.clone(),
            digest,
            peers,
        })
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        for side in [&self.state.private, &self.state.public] {
            side.peer_table.detach(&self.digest);
            for (_, peer) in self.peers.iter().filter(|(graph, _)| *graph == side.graph) {
                side.peer_table.leave(peer, &self.digest);
                side.peer_table.unlist(peer);
            }
        }
        self.state
            .runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.digest);
    }
}

/// The parts that are needed only while an attachment is put together.
struct Builder<'a> {
    state: &'a HubState,
    digest: [u8; 32],
    /// Private addresses where known, else public ones.
    probes: BTreeMap<PeerId, Place>,
    presences: BTreeMap<PeerId, Arc<Presence>>,
    lines: BTreeMap<(Network, PeerId), Arc<Line>>,
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
                    asks: false,
                    version: self.state.version,
                    key: self.state.key.clone(),
                    peer,
                    peer_key: neighbour.key,
                    patience: self.state.patience.hello,
                },
                digest: self.digest,
                probe: self.probes.get(&peer).unwrap_or(&neighbour.place).clone(),
                place: neighbour.place,
                presence: self.presences.entry(peer).or_default().clone(),
                dial_patience: self.state.patience.dial,
                commands: side.commands.clone(),
                link: side.peer_table.enter(&peer, self.digest, arrivals),
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

    fn line(&self, graph: Network, peer: PeerId, settings: &RunGraph, sent: &Arc<AtomicU64>) -> Arc<Line> {
        // Each frame costs its bytes and a 64th of the budget; the longest must fit.
        let least = settings.max_frame + settings.max_frame / 32 + session::FRAMES_IN_FLIGHT;
        Arc::new(Line {
            graph,
            peer,
            queue: Queue::new(settings.queue_frames, settings.queue_bytes).overtaking(match graph {
                // Notices and short items: agreeing must not wait for vectors.
                Network::Public => 2 * SHORT_ITEM_BYTES,
                // Shares and what answers them keep their order.
                Network::Private => 0,
            }),
            max_frame: settings.max_frame,
            inbound_bytes: settings.inbound_bytes.clamp(least, u32::MAX as usize),
            stall: self.state.patience.stall,
            sent: sent.clone(),
        })
    }
}
