//! The two swarms: which peers may connect, over which security, and which connections there are.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt;
use libp2p::{
    Multiaddr, PeerId, StreamProtocol, Swarm, SwarmBuilder,
    connection_limits::{self, ConnectionLimits},
    core::{
        ConnectedPoint,
        transport::TransportError,
        upgrade::{NegotiationError, Version},
    },
    identity::Keypair,
    noise, plaintext,
    swarm::{
        ConnectionId, DialError, ListenError, NetworkBehaviour, SwarmEvent,
        dial_opts::{DialOpts, PeerCondition},
    },
    tcp,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tracing::debug;

use super::{
    Graph, NetworkError, NetworkEvent, Offence, address,
    ask::{ASK, Desk, DialFault, SERVED},
    door::{Door, Lane, NotListed, Opened, Opening, Stay},
    hello::{self, Credentials, HelloError, Verdict},
    muxer,
    roster::{Arrival, Roster},
};

/// The frames' protocol. Its number is that of the hello's layout, which never changes; versions are told apart in the
/// hello, so that both sides can name them.
pub(super) const STREAM: StreamProtocol = StreamProtocol::new("/undertone/stream/1");
/// Connections of one peer id of which nobody has said hello; one more, and the oldest is closed. The peer itself needs one,
/// for the time of a hello; on the public graph the others are anybody's.
const UNPROVED_PER_PEER: usize = 8;
/// The same over all peers, beyond two for each of them.
const UNPROVED: usize = 32;
/// Connections of one peer id, those that are being closed included: not reached unless closing takes long.
const CONNECTIONS_PER_PEER: u32 = 64;
/// Streams of one connection whose hellos are checked at the same time; more are dropped.
const EXAMINED: usize = 32;
/// The same on a connection of which nobody has said hello yet.
const EXAMINED_UNPROVED: usize = 4;
/// Inbound streams of one connection that have not named their protocol.
const NEGOTIATING: usize = 8;
/// How often what has run out is looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Connections in their security handshake, beyond one for each peer.
const STRANGERS_AT_ONCE: u32 = 32;
/// Different strangers, and different addresses that sent rubbish, that are reported; later ones are only logged.
const REPORTED: usize = 64;
/// Connections without a stream are closed after this. An edge that is up has streams.
const IDLE: Duration = Duration::from_secs(10);
/// Payload of a yamux frame. Larger pieces save a quarter of the work on plaintext and none under Noise.
const PIECE_PRIVATE: usize = 16 << 10;
const PIECE_PUBLIC: usize = 64 << 10;

/// The order matters: the door must not see whom the limits keep out.
#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    limits: connection_limits::Behaviour,
    door: Door,
}

impl Behaviour {
    fn new(roster: &Arc<Roster>, protocols: &[StreamProtocol]) -> Behaviour {
        let limits = ConnectionLimits::default().with_max_established_per_peer(Some(CONNECTIONS_PER_PEER));
        let door = Door::new(roster.clone(), protocols.to_vec());
        Behaviour {
            limits: connection_limits::Behaviour::new(limits),
            door,
        }
    }
}

/// A swarm of the given graph. `patience` bounds dialling and both handshakes of a connection.
pub(super) fn build(
    graph: Graph,
    key: &Keypair,
    roster: &Arc<Roster>,
    protocols: &[StreamProtocol],
    patience: Duration,
) -> Result<Swarm<Behaviour>, NetworkError> {
    let setup = |error: &dyn std::fmt::Display| NetworkError::Setup {
        reason: error.to_string(),
    };
    let tcp = SwarmBuilder::with_existing_identity(key.clone()).with_tokio();
    let configure = |config: libp2p::swarm::Config| {
        config
            .with_idle_connection_timeout(IDLE)
            .with_max_negotiating_inbound_streams(NEGOTIATING)
            .with_substream_upgrade_protocol_override(Version::V1Lazy)
    };
    // The builder's type differs with the security, up to the finished swarm.
    let swarm = match graph {
        Graph::Private => tcp
            .with_tcp(tcp::Config::default(), noise::Config::new, || {
                muxer::Config::new(PIECE_PRIVATE)
            })
            .map_err(|error| setup(&error))?
            .with_behaviour(|_| Behaviour::new(roster, protocols))
            .map_err(|error| setup(&error))?
            .with_swarm_config(configure)
            .with_connection_timeout(patience)
            .build(),
        Graph::Public => tcp
            .with_tcp(
                tcp::Config::default(),
                |key: &Keypair| Ok::<_, std::convert::Infallible>(plaintext::Config::new(key)),
                || muxer::Config::new(PIECE_PUBLIC),
            )
            .map_err(|error| setup(&error))?
            .with_behaviour(|_| Behaviour::new(roster, protocols))
            .map_err(|error| setup(&error))?
            .with_swarm_config(configure)
            .with_connection_timeout(patience)
            .build(),
    };
    Ok(swarm)
}

/// Starts to listen and returns the address that it became (port 0 becomes a real one).
pub(super) async fn listen(
    swarm: &mut Swarm<Behaviour>,
    listed: &Multiaddr,
) -> Result<Multiaddr, NetworkError> {
    let failed = |source| NetworkError::Listen {
        address: listed.clone(),
        source,
    };
    let bound = address::Place::parse(listed)?.to_bind(listed).await?;
    swarm
        .listen_on(address::to_multiaddr(bound))
        .map_err(|error| match error {
            TransportError::Other(source) => failed(source),
            TransportError::MultiaddrNotSupported(address) => NetworkError::Address { address },
        })?;
    loop {
        match swarm.select_next_some().await {
            SwarmEvent::NewListenAddr { address, .. } => return Ok(address),
            SwarmEvent::ListenerClosed {
                reason: Err(source), ..
            } => return Err(failed(source)),
            SwarmEvent::ListenerClosed { .. } => return Err(failed(io::ErrorKind::NotConnected.into())),
            _ => {}
        }
    }
}

/// What edges ask of the swarm.
#[derive(Debug)]
pub(super) enum Command {
    /// Dial once, unless a dial is on its way. The peer's link changes either way.
    Dial { peer: PeerId, addresses: Vec<Multiaddr> },
    /// The same, and say how it went.
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
        answer: oneshot::Sender<Result<Lane, String>>,
    },
    /// The peer has said hello on this connection.
    Proved { peer: PeerId, connection: ConnectionId },
    /// Nobody answers on this connection, or somebody else does: close it.
    Unanswered { peer: PeerId, connection: ConnectionId },
    /// An edge on this connection broke: close it unless others use it.
    Broken { peer: PeerId, connection: ConnectionId },
}

/// One connection.
struct Connection {
    dialled: bool,
    /// Somebody who holds the peer's key is at the other end.
    proved: bool,
    /// The host that it comes from.
    host: Option<String>,
    born: Instant,
    /// One count for each lane on it, and ours.
    users: Arc<()>,
    /// Streams whose hellos are being checked.
    examined: usize,
}

impl Connection {
    /// On the public graph anybody can connect in the peer's name. Such a connection is listened to, no more, until a hello
    /// proves it; one that we dialled leads to the listed address.
    fn is_usable(&self) -> bool {
        self.proved || self.dialled
    }
}

/// What the swarm's task knows of one peer.
#[derive(Default)]
struct Port {
    connections: BTreeMap<ConnectionId, Connection>,
    dialling: bool,
    /// Who waits for the dial.
    reaching: Vec<oneshot::Sender<Result<ConnectionId, DialFault>>>,
    /// Streams on which its questions are answered.
    served: usize,
}

impl Port {
    fn reached(&mut self, result: &Result<ConnectionId, DialFault>) {
        self.dialling = false;
        for answer in self.reaching.drain(..) {
            let _ = answer.send(result.clone());
        }
    }

    /// The unproved connection to close first: the oldest of those from the host that most come from.
    fn most_crowded(&self) -> Option<(usize, ConnectionId)> {
        let mut hosts: BTreeMap<_, (usize, Option<ConnectionId>)> = BTreeMap::new();
        for (id, connection) in self
            .connections
            .iter()
            .filter(|(_, connection)| !connection.is_usable())
        {
            let (number, oldest) = hosts.entry(&connection.host).or_default();
            *number += 1;
            oldest.get_or_insert(*id);
        }
        hosts
            .into_values()
            .max_by_key(|(number, _)| *number)
            .and_then(|(number, oldest)| Some((number, oldest?)))
    }

    fn unproved(&self) -> usize {
        self.connections
            .values()
            .filter(|connection| !connection.is_usable())
            .count()
    }
}

/// A hello that was checked.
struct Examined {
    peer: PeerId,
    connection: ConnectionId,
    lane: Lane,
    result: Result<Guest, HelloError>,
}

/// Who has said hello.
enum Guest {
    /// A run's neighbour.
    Edge(mpsc::Sender<Arrival>),
    /// Somebody with questions.
    Asker(Box<Credentials>),
}

/// What a hub says at every stream, whatever its run.
pub(super) struct Introduction {
    pub(super) graph: Graph,
    pub(super) version: u32,
    pub(super) key: Keypair,
    pub(super) patience: Duration,
}

/// The task that drives one swarm. It never waits for an edge or for the driver.
pub(super) struct Driver {
    introduction: Introduction,
    swarm: Swarm<Behaviour>,
    commands: mpsc::Receiver<Command>,
    roster: Arc<Roster>,
    ports: BTreeMap<PeerId, Port>,
    examined: JoinSet<Examined>,
    desk: Arc<Desk>,
    serving: JoinSet<PeerId>,
    strangers: BTreeSet<PeerId>,
    rubbish: BTreeSet<String>,
}

impl Driver {
    /// Takes over a swarm that listens.
    pub(super) fn new(
        introduction: Introduction,
        swarm: Swarm<Behaviour>,
        commands: mpsc::Receiver<Command>,
        roster: Arc<Roster>,
        desk: Desk,
    ) -> Driver {
        Driver {
            desk: Arc::new(desk),
            serving: JoinSet::new(),
            introduction,
            swarm,
            commands,
            roster,
            ports: BTreeMap::new(),
            examined: JoinSet::new(),
            strangers: BTreeSet::new(),
            rubbish: BTreeSet::new(),
        }
    }

    /// Runs until nobody can command it any more.
    pub(super) async fn run(mut self) {
        self.admit();
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_event(event),
                Some(Ok(examined)) = self.examined.join_next() => self.on_examined(examined),
                Some(Ok(peer)) = self.serving.join_next() => {
                    if let Some(port) = self.ports.get_mut(&peer) {
                        port.served = port.served.saturating_sub(1);
                    }
                }
                command = self.commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => return,
                },
                () = self.roster.changed() => self.admit(),
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Dial { peer, addresses } => self.dial(peer, addresses),
            Command::Reach {
                peer,
                addresses,
                answer,
            } => {
                self.ports.entry(peer).or_default().reaching.push(answer);
                self.dial(peer, addresses);
            }
            Command::Open {
                peer,
                connection,
                protocol,
                answer,
            } => {
                let port = self.ports.get(&peer);
                if let Some(known) = port.and_then(|port| port.connections.get(&connection)) {
                    let stay = Stay {
                        connection,
                        _users: known.users.clone(),
                    };
                    self.swarm.behaviour_mut().door.open(
                        peer,
                        Opening {
                            protocol,
                            stay,
                            answer,
                        },
                    );
                }
            }
            Command::Proved { peer, connection } => self.prove(peer, connection),
            Command::Unanswered { peer, connection } => self.close(peer, connection),
            Command::Broken { peer, connection } => {
                let port = self.ports.get(&peer);
                let known = port.and_then(|port| port.connections.get(&connection));
                if known.is_some_and(|known| Arc::strong_count(&known.users) == 1) {
                    self.close(peer, connection);
                }
            }
        }
    }

    fn dial(&mut self, peer: PeerId, addresses: Vec<Multiaddr>) {
        let port = self.ports.entry(peer).or_default();
        if port.dialling {
            return;
        }
        // A port of its own: libp2p would dial from the listening port, and a second dial within a minute would
        // meet the first one's remains (TIME_WAIT).
        let options = DialOpts::peer_id(peer)
            .condition(PeerCondition::Always)
            .addresses(addresses)
            .allocate_new_port()
            .build();
        match self.swarm.dial(options) {
            Ok(()) => port.dialling = true,
            Err(error) => {
                debug!(graph = %self.introduction.graph, %peer, %error, "dial refused");
                port.reached(&Err(fault(&error)));
                self.relink(peer);
            }
        }
    }

    fn close(&mut self, peer: PeerId, connection: ConnectionId) {
        self.swarm.close_connection(connection);
        self.forget(peer, connection);
    }

    fn forget(&mut self, peer: PeerId, connection: ConnectionId) {
        let known = self
            .ports
            .get_mut(&peer)
            .and_then(|port| port.connections.remove(&connection));
        if known.is_some_and(|known| known.is_usable()) {
            self.relink(peer);
        }
    }

    fn prove(&mut self, peer: PeerId, connection: ConnectionId) {
        let port = self.ports.get_mut(&peer);
        if let Some(known) = port.and_then(|port| port.connections.get_mut(&connection))
            && !known.proved
        {
            known.proved = true;
            self.relink(peer);
        }
    }

    /// Tells the edges what has changed.
    fn relink(&mut self, peer: PeerId) {
        let Some(port) = self.ports.get(&peer) else { return };
        let usable = || {
            port.connections
                .iter()
                .filter(|(_, connection)| connection.is_usable())
        };
        self.roster.update(&peer, |link| {
            link.live = usable().map(|(id, _)| *id).collect();
            link.best = usable()
                .max_by_key(|(id, connection)| (connection.proved, **id))
                .map(|(id, _)| *id);
            link.changes += 1;
        });
    }

    /// As many handshakes at once as there are peers, and some for strangers.
    fn admit(&mut self) {
        let pending = u32::try_from(self.roster.len())
            .unwrap_or(u32::MAX)
            .saturating_add(STRANGERS_AT_ONCE);
        let limits = self.swarm.behaviour_mut().limits.limits_mut();
        *limits = limits.clone().with_max_pending_incoming(Some(pending));
    }

    /// Closes connections on which nobody has said hello in time, and those of peers that are no longer listed.
    fn sweep(&mut self) {
        for peer in self.roster.expire() {
            self.ports.remove(&peer);
            let _ = self.swarm.disconnect_peer_id(peer);
        }
        let patience = self.introduction.patience;
        let late = self.ports.iter().flat_map(|(peer, port)| {
            let late =
                |connection: &Connection| !connection.is_usable() && connection.born.elapsed() > patience;
            port.connections
                .iter()
                .filter(move |(_, connection)| late(connection))
                .map(|(id, _)| (*peer, *id))
        });
        for (peer, connection) in late.collect::<Vec<_>>() {
            self.close(peer, connection);
        }
    }

    /// Makes room among the unproved connections, after one more has come from this peer.
    fn crowd(&mut self, peer: PeerId) {
        let Some(port) = self.ports.get(&peer) else { return };
        if port.unproved() > UNPROVED_PER_PEER
            && let Some((_, connection)) = port.most_crowded()
        {
            self.close(peer, connection);
        }
        let all: usize = self.ports.values().map(Port::unproved).sum();
        if all > UNPROVED + 2 * self.roster.len() {
            let crowded = self
                .ports
                .iter()
                .filter_map(|(peer, port)| Some((port.most_crowded()?, *peer)));
            if let Some(((_, connection), peer)) = crowded.max_by_key(|((number, _), _)| *number) {
                self.close(peer, connection);
            }
        }
    }

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        let graph = self.introduction.graph;
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Door(opened)) => self.on_opened(opened),
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            } => {
                self.on_connection(peer_id, connection_id, &endpoint);
            }
            SwarmEvent::ConnectionClosed {
                peer_id,
                connection_id,
                cause,
                ..
            } => {
                debug!(%graph, peer = %peer_id, ?cause, "connection closed");
                self.forget(peer_id, connection_id);
            }
            SwarmEvent::OutgoingConnectionError {
                peer_id: Some(peer),
                error,
                ..
            } => {
                debug!(%graph, %peer, %error, "dial failed");
                self.ports.entry(peer).or_default().reached(&Err(fault(&error)));
                self.relink(peer);
            }
            SwarmEvent::IncomingConnectionError {
                send_back_addr,
                error,
                peer_id,
                ..
            } => {
                self.on_refused(send_back_addr, error, peer_id);
            }
            SwarmEvent::ListenerError { error, .. } => self.on_listener(error.to_string()),
            SwarmEvent::ListenerClosed { reason, .. } => {
                self.on_listener(
                    reason
                        .err()
                        .map_or("closed".to_owned(), |error| error.to_string()),
                );
            }
            _ => {}
        }
    }

    fn on_connection(&mut self, peer: PeerId, id: ConnectionId, endpoint: &ConnectedPoint) {
        let port = self.ports.entry(peer).or_default();
        let dialled = endpoint.is_dialer();
        if dialled {
            port.reached(&Ok(id));
        }
        let connection = Connection {
            dialled,
            proved: self.introduction.graph == Graph::Private,
            host: endpoint
                .get_remote_address()
                .iter()
                .next()
                .map(|host| host.to_string()),
            born: Instant::now(),
            users: Arc::new(()),
            examined: 0,
        };
        let usable = connection.is_usable();
        port.connections.insert(id, connection);
        if usable {
            self.relink(peer);
        } else {
            self.crowd(peer);
        }
    }

    /// Somebody has opened a stream: let it say hello.
    fn on_opened(&mut self, opened: Opened) {
        let Opened {
            peer,
            connection,
            protocol,
            mut stream,
        } = opened;
        let Some(peer_key) = self.roster.key(&peer) else {
            return;
        };
        let port = self.ports.get_mut(&peer);
        let Some(known) = port.and_then(|port| port.connections.get_mut(&connection)) else {
            return;
        };
        if known.examined >= if known.proved { EXAMINED } else { EXAMINED_UNPROVED } {
            return;
        }
        known.examined += 1;
        let stay = Stay {
            connection,
            _users: known.users.clone(),
        };
        let Introduction {
            graph,
            version,
            ref key,
            patience,
        } = self.introduction;
        let asks = protocol == ASK;
        let credentials = Credentials {
            graph,
            asks,
            version,
            key: key.clone(),
            peer,
            peer_key,
            patience,
        };
        let roster = self.roster.clone();
        self.examined.spawn(async move {
            let verdict = |digest: &[u8; 32]| match asks {
                true => Verdict::Welcome(Guest::Asker(Box::new(credentials.clone()))),
                false => roster.verdict(&peer, digest).map(Guest::Edge),
            };
            let result = hello::accept(&mut stream, &credentials, verdict).await;
            Examined {
                peer,
                connection,
                lane: Lane { stream, stay },
                result,
            }
        });
    }

    fn serve(&mut self, lane: Lane, credentials: Credentials) {
        let (peer, connection) = (credentials.peer, lane.stay.connection);
        let Some(port) = self.ports.get_mut(&peer).filter(|port| port.served < SERVED) else {
            return;
        };
        let Some(known) = port.connections.get(&connection) else {
            return;
        };
        let seen = known.host.clone().unwrap_or_default();
        port.served += 1;
        let desk = self.desk.clone();
        self.serving.spawn(async move {
            desk.serve(lane, credentials, seen).await;
            peer
        });
    }

    fn on_examined(&mut self, examined: Examined) {
        let Examined {
            peer,
            connection,
            lane,
            result,
        } = examined;
        let graph = self.introduction.graph;
        let port = self.ports.get_mut(&peer);
        let Some(known) = port.and_then(|port| port.connections.get_mut(&connection)) else {
            return;
        };
        known.examined -= 1;
        let proved = known.proved;
        match result {
            Ok(Guest::Asker(credentials)) => {
                self.prove(peer, connection);
                self.serve(lane, *credentials);
            }
            Ok(Guest::Edge(arrivals)) => {
                self.prove(peer, connection);
                // An edge that is behind loses the stream; the peer tries again.
                let _ = arrivals.try_send(Arrival::Stream(lane));
            }
            Err(error) => {
                drop(lane);
                debug!(%graph, %peer, %error, "no hello");
                if error.proves() {
                    self.prove(peer, connection);
                }
                if let HelloError::Offence(offence) = error {
                    self.roster.blame(&peer, &offence);
                    // Whoever cannot say hello on a connection of its own is not the peer.
                    if !proved && matches!(offence, Offence::NoHello { .. }) {
                        self.close(peer, connection);
                    }
                }
            }
        }
    }

    fn on_listener(&mut self, reason: String) {
        let graph = self.introduction.graph;
        self.roster.tell(|| NetworkEvent::ListenFailed {
            graph,
            reason: reason.clone(),
        });
    }

    /// A connection that came to nothing. One that was closed before it said anything is no offence: that is how peers
    /// find out whether we still listen.
    fn on_refused(&mut self, address: Multiaddr, error: ListenError, peer: Option<PeerId>) {
        let graph = self.introduction.graph;
        debug!(%graph, %address, ?peer, %error, "connection refused");
        match (error, peer) {
            (ListenError::Denied { cause }, Some(peer)) if cause.downcast_ref::<NotListed>().is_some() => {
                let new = self.strangers.len() < REPORTED && self.strangers.insert(peer);
                if new {
                    self.roster.tell(|| NetworkEvent::Stranger {
                        graph,
                        peer,
                        address: address.clone(),
                    });
                }
            }
            (ListenError::Transport(TransportError::Other(error)), _) if !is_silence(&error) => {
                let host: Multiaddr = address.iter().take(1).collect();
                if self.rubbish.len() < REPORTED && self.rubbish.insert(host.to_string()) {
                    let offence = Offence::NoProtocol {
                        reason: error.to_string(),
                    };
                    let address = Some(address);
                    self.roster.tell(|| NetworkEvent::Offence {
                        graph,
                        peer: None,
                        address: address.clone(),
                        offence: offence.clone(),
                    });
                }
            }
            _ => {}
        }
    }
}

/// What a failed dial says of the address.
fn fault(error: &DialError) -> DialFault {
    if let DialError::WrongPeerId { obtained, .. } = error {
        return DialFault::OtherPeer(*obtained);
    }
    let DialError::Transport(attempts) = error else {
        return DialFault::NotOurs(error.to_string());
    };
    let Some((_, TransportError::Other(error))) = attempts.first() else {
        return DialFault::NotOurs(error.to_string());
    };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut last = error.to_string();
    while let Some(error) = cause {
        last = error.to_string();
        cause = match error.downcast_ref::<io::Error>() {
            Some(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => return DialFault::Refused,
                io::ErrorKind::TimedOut
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable => {
                    return DialFault::Silent;
                }
                // `source` of a wrapping I/O error passes over what it wraps.
                _ => error
                    .get_ref()
                    .map(|inner| inner as &(dyn std::error::Error + 'static)),
            },
            None => error.source(),
        };
    }
    // The library's wrappers hide the system's error but for its text; its own time-out never is one.
    match last.to_lowercase() {
        text if text.contains("refused") => DialFault::Refused,
        text if ["timeout", "timed out", "unreachable", "no route"]
            .iter()
            .any(|word| text.contains(word)) =>
        {
            DialFault::Silent
        }
        _ => DialFault::NotOurs(last),
    }
}

/// The other side closed. (A handshake that takes too long is another error, and is reported.) One that closes before its first word is "failed" to libp2p, as
/// is one that asks for another security only (which is how dialling the wrong one of our two ports ends).
fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected, TimedOut, UnexpectedEof};
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(NegotiationError::Failed) = error.downcast_ref() {
            return true;
        }
        cause = match error.downcast_ref::<io::Error>() {
            Some(error)
                if matches!(
                    error.kind(),
                    BrokenPipe | ConnectionReset | NotConnected | TimedOut | UnexpectedEof
                ) =>
            {
                return true;
            }
            // `source` of a wrapping I/O error passes over what it wraps.
            Some(error) => error
                .get_ref()
                .map(|inner| inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    false
}
