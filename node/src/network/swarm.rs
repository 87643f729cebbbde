//! The two swarms: which peers may connect, over which security, and which connections there are.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Duration,
};

use futures::StreamExt;
use libp2p::{
    Multiaddr, PeerId, Stream, StreamProtocol, Swarm, SwarmBuilder,
    allow_block_list::{self, AllowedPeers, NotAllowed},
    connection_limits::{self, ConnectionLimits},
    core::{
        transport::TransportError,
        upgrade::{NegotiationError, Version},
    },
    identity::Keypair,
    noise, plaintext,
    swarm::{
        ConnectionId, ListenError, NetworkBehaviour, SwarmEvent,
        dial_opts::{DialOpts, PeerCondition},
    },
    tcp,
};
use libp2p_stream::{Control, IncomingStreams};
use tokio::sync::{mpsc, watch};
use tracing::debug;

use super::{Graph, NetworkError, NetworkEvent, Offence, Reports, address, muxer};

/// The only protocol on our connections. Its number is that of the hello's layout, which never changes; versions are told
/// apart in the hello, so that both sides can name them.
pub(super) const STREAM: StreamProtocol = StreamProtocol::new("/undertone/stream/1");
/// One, and one that replaces it while the old one is still being closed.
const CONNECTIONS_PER_PEER: u32 = 2;
/// Connections in their security handshake, beyond one for each peer.
const STRANGERS_AT_ONCE: u32 = 32;
/// Different strangers, and different addresses that sent rubbish, that are reported; later ones are only logged.
const REPORTED: usize = 64;
/// Idle connections stay: an edge may be needed in the last round only.
const IDLE: Duration = Duration::from_secs(24 * 3600);
/// Payload of a yamux frame. Larger pieces save a quarter of the work on plaintext and none under Noise.
const PIECE_PRIVATE: usize = 16 << 10;
const PIECE_PUBLIC: usize = 64 << 10;

/// The order matters: whoever is denied by the first two must not leave a ghost in the third.
#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    allowed: allow_block_list::Behaviour<AllowedPeers>,
    limits: connection_limits::Behaviour,
    streams: libp2p_stream::Behaviour,
}

impl Behaviour {
    fn new(peers: &BTreeSet<PeerId>) -> Behaviour {
        let mut allowed = allow_block_list::Behaviour::default();
        for peer in peers {
            allowed.allow_peer(*peer);
        }
        let number = u32::try_from(peers.len()).unwrap_or(u32::MAX / 4);
        let limits = ConnectionLimits::default()
            .with_max_pending_incoming(Some(number.saturating_add(STRANGERS_AT_ONCE)))
            .with_max_established_per_peer(Some(CONNECTIONS_PER_PEER))
            .with_max_established(Some(number.saturating_mul(CONNECTIONS_PER_PEER)));
        Behaviour { allowed, limits: connection_limits::Behaviour::new(limits), streams: libp2p_stream::Behaviour::new() }
    }
}

/// A swarm of the given graph. `patience` bounds dialling and both handshakes of a connection.
pub(super) fn build(
    graph: Graph,
    key: &Keypair,
    peers: &BTreeSet<PeerId>,
    patience: Duration,
) -> Result<Swarm<Behaviour>, NetworkError> {
    let setup = |error: &dyn std::fmt::Display| NetworkError::Setup { reason: error.to_string() };
    let tcp = SwarmBuilder::with_existing_identity(key.clone()).with_tokio();
    let configure = |config: libp2p::swarm::Config| {
        config.with_idle_connection_timeout(IDLE).with_substream_upgrade_protocol_override(Version::V1Lazy)
    };
    // The builder's type differs with the security, up to the finished swarm.
    let swarm = match graph {
        Graph::Private => tcp
            .with_tcp(tcp::Config::default(), noise::Config::new, || muxer::Config::new(PIECE_PRIVATE))
            .map_err(|error| setup(&error))?
            .with_behaviour(|_| Behaviour::new(peers))
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
            .with_behaviour(|_| Behaviour::new(peers))
            .map_err(|error| setup(&error))?
            .with_swarm_config(configure)
            .with_connection_timeout(patience)
            .build(),
    };
    Ok(swarm)
}

/// Starts to listen and returns the address that it became (port 0 becomes a real one).
pub(super) async fn listen(swarm: &mut Swarm<Behaviour>, listed: &Multiaddr) -> Result<Multiaddr, NetworkError> {
    let failed = |source| NetworkError::Listen { address: listed.clone(), source };
    let bound = address::Place::parse(listed)?.to_bind(listed).await?;
    swarm.listen_on(address::to_multiaddr(bound)).map_err(|error| match error {
        TransportError::Other(source) => failed(source),
        TransportError::MultiaddrNotSupported(address) => NetworkError::Address { address },
    })?;
    loop {
        match swarm.select_next_some().await {
            SwarmEvent::NewListenAddr { address, .. } => return Ok(address),
            SwarmEvent::ListenerClosed { reason: Err(source), .. } => return Err(failed(source)),
            SwarmEvent::ListenerClosed { .. } => return Err(failed(io::ErrorKind::NotConnected.into())),
            _ => {}
        }
    }
}

/// What an edge knows of its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    /// Connections that are not being closed.
    pub(super) live: usize,
    /// The newest that there ever was; ids grow.
    pub(super) newest: Option<ConnectionId>,
    /// Dials that came to nothing.
    pub(super) failed_dials: u64,
}

/// What edges ask of the swarm.
#[derive(Debug)]
pub(super) enum Command {
    /// Dial once.
    Dial { peer: PeerId, addresses: Vec<Multiaddr> },
    /// Close the peer's connections up to this one.
    CloseThrough { peer: PeerId, last: Option<ConnectionId> },
    /// Close the peer's connections that came after this one.
    CloseAfter { peer: PeerId, last: Option<ConnectionId> },
}

/// Where one peer's events go.
pub(super) struct Port {
    pub(super) link: watch::Sender<Link>,
    pub(super) inbound: mpsc::Sender<Stream>,
    pub(super) live: BTreeSet<ConnectionId>,
}

/// The task that drives one swarm. It never waits for an edge or for the driver.
pub(super) struct Driver {
    graph: Graph,
    swarm: Swarm<Behaviour>,
    incoming: IncomingStreams,
    commands: mpsc::Receiver<Command>,
    ports: BTreeMap<PeerId, Port>,
    reports: Reports,
    strangers: BTreeSet<PeerId>,
    rubbish: BTreeSet<String>,
}

impl Driver {
    /// Takes over a swarm that listens. Returns the control with which edges open streams.
    pub(super) fn new(
        graph: Graph,
        swarm: Swarm<Behaviour>,
        commands: mpsc::Receiver<Command>,
        ports: BTreeMap<PeerId, Port>,
        reports: Reports,
    ) -> (Driver, Control) {
        let mut control = swarm.behaviour().streams.new_control();
        let incoming = control.accept(STREAM).expect("a new behaviour has no protocols");
        let (strangers, rubbish) = (BTreeSet::new(), BTreeSet::new());
        (Driver { graph, swarm, incoming, commands, ports, reports, strangers, rubbish }, control)
    }

    /// Runs until the last edge has dropped its sender of commands.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_event(event),
                Some((peer, stream)) = self.incoming.next() => {
                    if let Some(port) = self.ports.get(&peer) {
                        // A peer that opens more than is looked at loses the stream.
                        let _ = port.inbound.try_send(stream);
                    }
                }
                command = self.commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => return,
                },
            }
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Dial { peer, addresses } => {
                // A port of its own: libp2p would dial from the listening port, and a second dial within a minute would
                // meet the first one's remains (TIME_WAIT).
                let options =
                    DialOpts::peer_id(peer).condition(PeerCondition::Always).addresses(addresses).allocate_new_port().build();
                if let Err(error) = self.swarm.dial(options) {
                    debug!(graph = %self.graph, %peer, %error, "dial refused");
                    self.update(peer, |_, link| link.failed_dials += 1);
                }
            }
            Command::CloseThrough { peer, last } => self.close(peer, |id| Some(id) <= last),
            Command::CloseAfter { peer, last } => self.close(peer, |id| Some(id) > last),
        }
    }

    fn close(&mut self, peer: PeerId, which: impl Fn(ConnectionId) -> bool) {
        let Some(port) = self.ports.get(&peer) else { return };
        let closing: Vec<_> = port.live.iter().copied().filter(|id| which(*id)).collect();
        for id in &closing {
            self.swarm.close_connection(*id);
        }
        self.update(peer, |live, _| live.retain(|id| !closing.contains(id)));
    }

    fn update(&mut self, peer: PeerId, change: impl FnOnce(&mut BTreeSet<ConnectionId>, &mut Link)) {
        if let Some(port) = self.ports.get_mut(&peer) {
            let mut link = *port.link.borrow();
            change(&mut port.live, &mut link);
            link.live = port.live.len();
            port.link.send_replace(link);
        }
    }

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::ConnectionEstablished { peer_id, connection_id, .. } => self.update(peer_id, |live, link| {
                live.insert(connection_id);
                link.newest = link.newest.max(Some(connection_id));
            }),
            SwarmEvent::ConnectionClosed { peer_id, connection_id, cause, .. } => {
                debug!(graph = %self.graph, peer = %peer_id, ?cause, "connection closed");
                self.update(peer_id, |live, _| live.retain(|id| *id != connection_id));
            }
            SwarmEvent::OutgoingConnectionError { peer_id: Some(peer), error, .. } => {
                debug!(graph = %self.graph, %peer, %error, "dial failed");
                self.update(peer, |_, link| link.failed_dials += 1);
            }
            SwarmEvent::IncomingConnectionError { send_back_addr, error, peer_id, .. } => {
                self.on_refused(send_back_addr, error, peer_id);
            }
            SwarmEvent::ListenerError { error, .. } => self.on_listener(error.to_string()),
            SwarmEvent::ListenerClosed { reason, .. } => {
                self.on_listener(reason.err().map_or("closed".to_owned(), |error| error.to_string()));
            }
            _ => {}
        }
    }

    fn on_listener(&mut self, reason: String) {
        self.reports.try_tell(NetworkEvent::ListenFailed { graph: self.graph, reason });
    }

    /// A connection that came to nothing. One that was closed before it said anything is no offence: that is how peers
    /// find out whether we still listen.
    fn on_refused(&mut self, address: Multiaddr, error: ListenError, peer: Option<PeerId>) {
        debug!(graph = %self.graph, %address, ?peer, %error, "connection refused");
        match (error, peer) {
            (ListenError::Denied { cause }, Some(peer)) if cause.downcast_ref::<NotAllowed>().is_some() => {
                let new = self.strangers.len() < REPORTED && self.strangers.insert(peer);
                if new {
                    self.reports.try_tell(NetworkEvent::Stranger { graph: self.graph, peer, address });
                }
            }
            (ListenError::Transport(TransportError::Other(error)), _) if !is_silence(&error) => {
                let host: Multiaddr = address.iter().take(1).collect();
                if self.rubbish.len() < REPORTED && self.rubbish.insert(host.to_string()) {
                    let offence = Offence::NoProtocol { reason: error.to_string() };
                    let (graph, address) = (self.graph, Some(address));
                    self.reports.try_tell(NetworkEvent::Offence { graph, peer: None, address, offence });
                }
            }
            _ => {}
        }
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
            Some(error) if matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected | TimedOut | UnexpectedEof) => {
                return true;
            }
            // `source` of a wrapping I/O error passes over what it wraps.
            Some(error) => error.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    false
}
