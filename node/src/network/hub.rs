//! One identity's presence on both graphs, and the runs that are attached to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};

use crate::network::address::Whereabouts;
use crate::network::ask::{ASK, AskFault, Asked, Closed, Desk, Inquiry};
use crate::network::attaching::{Berth, Builder};
use crate::network::carrier::Carrier;
use crate::network::command::SwarmCommand;
use crate::network::config::{HubConfig, NetworkError, PeerAddress, RunConfig};
use crate::network::dial_fault::DialFault;
use crate::network::event::NetworkEvent;
use crate::network::handle::Handle;
use crate::network::hello::Credentials;
use crate::network::hub_state::{HubState, Side};
use crate::network::lane::NotOpened;
use crate::network::links::LinkNews;
use crate::network::metered::Meters;
use crate::network::neighbours::Neighbours;
use crate::network::peer_table::PeerTable;
use crate::network::relays::Relays;
use crate::network::reports::Reports;
use crate::network::reserving;
use crate::network::session::{self, PUBLIC_STREAM, STREAM};
use crate::network::swarm::build::{self, Behaviour, Making};
use crate::network::swarm::driver::{Introduction, SwarmDriver};
use crate::reporting::process;

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

/// The parts that both swarms are made of.
struct Makes<'a> {
    config: &'a HubConfig,
    relays: &'a Arc<Relays>,
    /// The bytes that it passes on, if it is a relay.
    meters: &'a Option<Meters>,
    /// The only run that the hub serves.
    only: Option<[u8; 32]>,
    /// Whether runs may use its connections.
    carries_runs: bool,
}

/// A swarm that listens.
struct Listens {
    graph: Network,
    peer_table: Arc<PeerTable>,
    swarm: Swarm<Behaviour>,
    /// The first address at which it does, or an empty one.
    address: Multiaddr,
    announced: bool,
}

impl Makes<'_> {
    /// Makes one graph's swarm, for the listed peers, and listens. Relays may connect, and be
    /// dialled, whatever runs there are; one that is a peer has its addresses from the list of
    /// peers.
    async fn listening(&self, graph: Network, relays: &Neighbours) -> Result<Listens, NetworkError> {
        let config = self.config;
        let listening = match graph {
            Network::Private => &config.private,
            Network::Public => &config.public,
        };
        let peers = Neighbours::check(graph, &config.key, &listening.peers)?;
        let peer_table = Arc::new(PeerTable::new(graph, self.only, !peers.0.is_empty()));
        for (peer, known) in &peers.0 {
            peer_table.keep(*peer, &known.key, &known.places);
        }
        for (relay, known) in &relays.0 {
            if !peer_table.lists(relay) {
                peer_table.keep(*relay, &known.key, &known.places);
            }
        }
        let encrypted = graph == Network::Private;
        let protocols: &[StreamProtocol] = match (self.carries_runs, encrypted) {
            (true, true) => &[STREAM, PUBLIC_STREAM, ASK],
            (true, false) => &[STREAM, ASK],
            (false, _) => &[ASK],
        };
        let making = Making {
            key: &config.key,
            peer_table: &peer_table,
            relays: self.relays,
            meters: self.meters.clone().filter(|_| encrypted),
            patience: &config.patience,
        };
        let mut swarm = making.swarm(graph, protocols)?;
        let address = build::listen(&mut swarm, &listening.listen).await?;
        Ok(Listens {
            graph,
            peer_table,
            swarm,
            address,
            announced: listening.announced,
        })
    }
}

impl Hub {
    /// Listens on both addresses. Must be called inside a tokio runtime with time and I/O. Nothing
    /// is dialled yet.
    pub async fn start(config: HubConfig) -> Result<Hub, NetworkError> {
        Hub::start_for(config, None, true).await
    }

    /// Starts a hub as [`Hub::start`] does, for somebody who only asks: runs cannot use its
    /// connections.
    pub async fn start_asking(config: HubConfig) -> Result<Hub, NetworkError> {
        Hub::start_for(config, None, false).await
    }

    /// Starts a hub for this run only, which is named to peers that ask for another.
    pub(super) async fn start_with(
        config: HubConfig,
        run: RunConfig,
    ) -> Result<(Hub, Attachment, mpsc::Receiver<NetworkEvent>), NetworkError> {
        Neighbours::of(Network::Private, &config.key, &run.private)?;
        Neighbours::of(Network::Public, &config.key, &run.public)?;
        let hub = Hub::start_for(config, Some(run.digest), true).await?;
        let (attachment, events) = hub.attach(run)?;
        Ok((hub, attachment, events))
    }

    async fn start_for(
        config: HubConfig,
        only: Option<[u8; 32]>,
        carries_runs: bool,
    ) -> Result<Hub, NetworkError> {
        make_place_for_strangers();
        let (key, patience) = (config.key.clone(), config.patience);
        let relay_places = Neighbours::check(Network::Private, &key, &config.relays)?;
        let relays = Arc::new(Relays::default());
        relays.list(relay_places.0.keys().copied());
        let meters = config.relays_others.then(Meters::default);
        let makes = Makes {
            config: &config,
            relays: &relays,
            meters: &meters,
            only,
            carries_runs,
        };
        // Both must listen before either dials: a port in use is found before anybody sees us.
        let private = makes.listening(Network::Private, &relay_places).await?;
        let public = makes.listening(Network::Public, &Neighbours::default()).await?;
        // A task for each swarm; all that is left here are their ends.
        let asked = Arc::new(Mutex::new(None));
        let list = watch::Sender::new(None);
        let mut swarms = JoinSet::new();
        let public_table = public.peer_table.clone();
        let [private, public] = [private, public].map(|listens: Listens| {
            let (commands, receiver) = mpsc::channel(64);
            let introduction = Introduction {
                graph: listens.graph,
                version: config.version,
                key: key.clone(),
                patience: patience.hello,
                public: public_table.clone(),
                relays: relays.clone(),
                relays_others: config.relays_others,
            };
            let peer_table = listens.peer_table;
            let desk = Desk::new(peer_table.clone(), asked.clone(), list.subscribe());
            let driver = SwarmDriver::new(introduction, listens.swarm, receiver, peer_table.clone(), desk);
            swarms.spawn(driver.run());
            Side {
                graph: listens.graph,
                carrier: Carrier {
                    peer_table,
                    commands,
                    announced: listens.announced,
                    relays: relays.clone(),
                    patience,
                },
                address: listens.address,
            }
        });
        if !config.relays_others {
            let carrier = private.carrier.clone();
            swarms.spawn(reserving::keep_places(carrier, key.public().to_peer_id()));
        }
        let (runs, swarms) = (Mutex::default(), Mutex::new(swarms));
        Ok(Hub {
            state: Arc::new(HubState {
                key,
                version: config.version,
                patience,
                private,
                public,
                meters,
                runs,
                swarms,
                asked,
                list,
            }),
        })
    }

    /// From now on listed peers that ask over Noise are given this SHA-256 of our peer list.
    pub fn name_list(&self, digest: [u8; 32]) {
        self.state.list.send_replace(Some(digest));
    }

    /// Lists these peers on both graphs, and relays, for whatever runs there are, and nobody else;
    /// those of attached runs stay, and connections that there are.
    ///
    /// # Errors
    /// A peer that cannot be one; nothing has changed then.
    pub fn relist(
        &self,
        private: &[PeerAddress],
        public: &[PeerAddress],
        relays: &[PeerAddress],
    ) -> Result<(), NetworkError> {
        let state = &self.state;
        let mut private = Neighbours::check(Network::Private, &state.key, private)?;
        let public = Neighbours::check(Network::Public, &state.key, public)?;
        let relays = Neighbours::check(Network::Private, &state.key, relays)?;
        state.private.carrier.relays.list(relays.0.keys().copied());
        for (relay, known) in relays.0 {
            private.0.entry(relay).or_insert(known);
        }
        state.private.carrier.peer_table.keep_only(&private);
        state.public.carrier.peer_table.keep_only(&public);
        Ok(())
    }

    /// Turns these peers away from now on, whose keys were revoked, and nobody else: they get no
    /// hello, and no answer to a question. Runs that are attached keep their edges with them.
    pub fn bar(&self, peers: &BTreeSet<PeerId>) {
        for side in [&self.state.private, &self.state.public] {
            side.carrier.peer_table.bar(peers.clone());
        }
    }

    /// News of listed peers that have an encrypted connection, and had none before.
    pub fn links(&self) -> LinkNews {
        self.state.private.carrier.peer_table.links.news()
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
        // Public streams take encrypted connections, too.
        let links = Neighbours::check(Network::Private, &state.key, &config.links)?;
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
        let berth = Berth::take(state, config.digest, [&private, &public], &links, &reports)?;
        let mut builder = Builder {
            state,
            digest: config.digest,
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
        self.state.private.carrier.peer_table.decline(digest);
        self.state.public.carrier.peer_table.decline(digest);
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
    /// The peer is not listed or its key revoked, it cannot be reached, or does not say hello.
    pub async fn inquire(&self, graph: Network, peer: PeerId) -> Result<Inquiry, AskFault> {
        if self.side(graph).carrier.peer_table.is_barred(&peer) {
            return Err(AskFault::Revoked);
        }
        // One without a plain address is asked over the encrypted connection.
        let plain = &self.state.public.carrier;
        let link = plain.peer_table.link(&peer);
        let is_up = link.is_some_and(|link| link.borrow().best.is_some());
        let graph = match is_up || plain.lists_address(&peer) {
            true => graph,
            false => Network::Private,
        };
        let carrier = &self.side(graph).carrier;
        let peer_key = carrier.peer_table.key(&peer).ok_or(AskFault::NotListed)?;
        let link = carrier.peer_table.link(&peer).ok_or(AskFault::NotListed)?;
        let HubState {
            ref key,
            version,
            patience,
            ..
        } = *self.state;
        let credentials = Credentials {
            graph,
            asks: true,
            version,
            key: key.clone(),
            peer,
            peer_key,
            patience: patience.hello,
        };
        let mut closed = None;
        loop {
            let there = link.borrow().best.filter(|best| closed != Some(*best));
            let connection = match there {
                Some(connection) => connection,
                None => self.reach_anywhere(carrier, peer).await?,
            };
            match self.inquire_on(carrier, connection, credentials.clone()).await {
                // Its other end was closing it: another connection does.
                Err(AskFault::Closed(Closed::NotOpened(_) | Closed::Broken(_)))
                    if there.is_some() && closed.is_none() =>
                {
                    closed = there;
                }
                done => return done,
            }
        }
    }

    async fn inquire_on(
        &self,
        carrier: &Carrier,
        connection: ConnectionId,
        credentials: Credentials,
    ) -> Result<Inquiry, AskFault> {
        let peer = credentials.peer;
        let (answer, opened) = oneshot::channel();
        let command = SwarmCommand::Open {
            peer,
            connection,
            protocol: ASK,
            answer,
        };
        carrier.command(command).await;
        let lane = match timeout(self.state.patience.hello, opened).await {
            Ok(Ok(Ok(lane))) => lane,
            Ok(Ok(Err(error))) => return Err(Closed::from(error).into()),
            Ok(Err(_)) => return Err(Closed::from(NotOpened::Lost).into()),
            Err(_) => return Err(AskFault::Silent),
        };
        let inquiry = Inquiry::begin(lane, credentials).await?;
        carrier.command(SwarmCommand::Proved { peer, connection }).await;
        Ok(inquiry)
    }

    /// Tries to connect to a listed peer at this address, which need not be the listed one.
    ///
    /// # Errors
    /// What is there instead; an address that is none counts as [`DialFault::Unknown`].
    pub async fn reach(&self, graph: Network, peer: PeerId, address: &Multiaddr) -> Result<(), DialFault> {
        let places = Whereabouts::parse(std::slice::from_ref(address)).map_err(|_| DialFault::Unknown)?;
        let carrier = &self.side(graph).carrier;
        let addresses = places.resolve(self.state.patience.dial).await;
        carrier.dial_at(peer, addresses).await.map(|_| ())
    }

    /// The bytes that peers have sent to this relay, most of them for others; `None`: it is none.
    pub fn relayed_bytes(&self) -> Option<u64> {
        Some(self.state.meters.as_ref()?.sent())
    }

    /// The relay over which a peer is connected on the encrypted graph, if it is.
    pub fn relay_to(&self, peer: &PeerId) -> Option<PeerId> {
        let link = self.state.private.carrier.peer_table.link(peer)?;
        let link = link.borrow();
        link.relays.get(&link.best?).copied()
    }

    /// At its addresses, else over relays.
    async fn reach_anywhere(&self, carrier: &Carrier, peer: PeerId) -> Result<ConnectionId, DialFault> {
        let found = match carrier.lists_address(&peer) {
            true => carrier.dial(peer).await,
            false => Err(DialFault::NoRelay),
        };
        match found {
            Err(fault) if carrier.peer_table.is_encrypted() && !carrier.relays.is_empty() => {
                let reached = carrier.reach_over_relays(peer, Instant::now()).await;
                reached.map_err(|none| match fault {
                    DialFault::NoRelay => none.fault,
                    fault => fault,
                })
            }
            found => found,
        }
    }

    fn side(&self, graph: Network) -> &Side {
        match graph {
            Network::Private => &self.state.private,
            Network::Public => &self.state.public,
        }
    }

    /// The first address at which we listen on the private graph; an empty one if there is none.
    pub fn private_address(&self) -> &Multiaddr {
        &self.state.private.address
    }

    /// The first address at which we listen on the public graph; an empty one if there is none.
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
