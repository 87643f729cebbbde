//! Makes a swarm of one graph: its security, its limits, where it listens.

use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncRead, AsyncWrite, StreamExt};
use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::timeout::TransportTimeout;
use libp2p::core::transport::{Boxed, OrTransport, Transport, TransportError};
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::swarm::{self, NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm, noise, ping, plaintext, relay, tcp};
use undertone_protocol::messages::notice::Network;

use crate::network::address;
use crate::network::config::{NetworkError, Patience};
use crate::network::door::Door;
use crate::network::metered::{Metered, Meters};
use crate::network::muxer::Yamux;
use crate::network::peer_table::PeerTable;
use crate::network::pending_connections::PendingConnections;
use crate::network::relays::Relays;

/// Connections of one peer id, those that are being closed included: not reached unless closing
/// takes long.
const CONNECTIONS_PER_PEER: u32 = 64;

/// Inbound streams of one connection that have not named their protocol. A relay opens ten at a
/// time.
const NEGOTIATING: usize = 16;

/// Connections without a stream are closed after this. An edge that is up has streams.
const IDLE: Duration = Duration::from_secs(10);

/// Payload of a yamux frame. Larger pieces save a quarter of the work on plaintext and none under
/// Noise.
const PIECE_PRIVATE: usize = 16 << 10;

const PIECE_PUBLIC: usize = 64 << 10;

/// For how long a relay keeps a place; who wants it longer asks again before.
const RESERVATION: Duration = Duration::from_secs(3600);
/// The longest circuit: no run takes a week.
const CIRCUIT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Places at a relay that one peer may keep: its old one and a new one.
const RESERVATIONS_PER_PEER: usize = 2;
/// How often a peer may ask for a place at once; then every two seconds.
const RESERVATIONS_AT_ONCE: NonZeroU32 = NonZeroU32::new(30).expect("more than none");
/// A relay has room for at least so many peers.
const LISTED: usize = 256;
/// The most circuits over a relay, however many peers are listed. Our choice: two for each pair of
/// 45 peers, and some 25 kB each while nothing is sent.
const MOST_CIRCUITS: usize = 4096;

/// The order matters: the door must not see whom the limits keep out, and only who gets through it
/// is pinged, relayed or looked for.
#[derive(NetworkBehaviour)]
pub(in crate::network) struct Behaviour {
    pub(super) limits: connection_limits::Behaviour,
    pub(super) door: Door,
    /// Uses relays.
    pub(super) client: Toggle<relay::client::Behaviour>,
    /// Is one.
    pub(super) relay: Toggle<relay::Behaviour>,
    pub(super) ping: ping::Behaviour,
}

/// The parts that a swarm is made of.
pub(in crate::network) struct Making<'a> {
    pub(in crate::network) key: &'a Keypair,
    pub(in crate::network) peer_table: &'a Arc<PeerTable>,
    /// The relays of the encrypted swarm.
    pub(in crate::network) relays: &'a Arc<Relays>,
    /// The bytes that it passes on for listed peers, if it is a relay.
    pub(in crate::network) meters: Option<Meters>,
    /// `dial` and `circuit` bound reaching a peer and both handshakes of a connection; who comes in
    /// waits in the table of pending connections until its handshake is over.
    pub(in crate::network) patience: &'a Patience,
}

type Handshaken = Boxed<(PeerId, StreamMuxerBox)>;

impl Making<'_> {
    /// A swarm of the given graph.
    pub(in crate::network) fn swarm(
        &self,
        graph: Network,
        protocols: &[StreamProtocol],
    ) -> Result<Swarm<Behaviour>, NetworkError> {
        let own = self.key.public().to_peer_id();
        let sockets = tcp::tokio::Transport::new(tcp::Config::default());
        let (transport, client) = match graph {
            Network::Private => {
                let (circuits, client) = relay::client::new(own);
                let direct = self.encrypted(sockets)?;
                let direct = TransportTimeout::new(direct, self.patience.dial);
                let relayed = self.encrypted(circuits)?;
                let relayed = TransportTimeout::new(relayed, self.patience.circuit);
                let either = OrTransport::new(relayed, direct);
                (either.map(|way, _| way.into_inner()).boxed(), Some(client))
            }
            Network::Public => {
                let plain = TransportTimeout::new(self.plain(sockets), self.patience.dial);
                (plain.boxed(), None)
            }
        };
        let config = swarm::Config::with_tokio_executor()
            .with_idle_connection_timeout(IDLE)
            .with_max_negotiating_inbound_streams(NEGOTIATING)
            .with_substream_upgrade_protocol_override(Version::V1Lazy);
        let limits = ConnectionLimits::default().with_max_established_per_peer(Some(CONNECTIONS_PER_PEER));
        let every = self.patience.ping;
        let behaviour = Behaviour {
            limits: connection_limits::Behaviour::new(limits),
            door: Door::new(self.peer_table.clone(), protocols.to_vec()),
            client: client.into(),
            relay: self.meters.clone().map(|meters| self.relay(own, meters)).into(),
            ping: ping::Behaviour::new(ping::Config::new().with_interval(every).with_timeout(every)),
        };
        Ok(Swarm::new(transport, behaviour, own, config))
    }

    /// Connections that Noise secures, over sockets or over circuits.
    fn encrypted<T>(&self, transport: T) -> Result<Handshaken, NetworkError>
    where
        T: Transport + Send + Unpin + 'static,
        T::Output: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        T::Error: Send + Sync + 'static,
        T::Dial: Send,
        T::ListenerUpgrade: Send,
    {
        let (waiting, inside) = self.waiting_room();
        let (relays, peer_table) = (self.relays.clone(), self.peer_table.clone());
        let (meters, relays_others) = (self.meters.clone(), self.meters.is_some());
        let noise = noise::Config::new(self.key).map_err(|error| NetworkError::Setup {
            reason: error.to_string(),
        })?;
        Ok(transport
            .map(move |socket, point| waiting.enter(socket, &point))
            .upgrade(Version::V1Lazy)
            .authenticate(noise)
            .multiplex_ext(move |peer, _| match relays_others || relays.has(peer) {
                true => Yamux::of_relay(PIECE_PRIVATE, peer_table.len()),
                false => Yamux::new(PIECE_PRIVATE),
            })
            .map(move |(peer, muxer), point| {
                inside.leave(&point);
                let muxer = match meters {
                    Some(meters) => StreamMuxerBox::new(Metered::new(muxer, peer, meters)),
                    None => StreamMuxerBox::new(muxer),
                };
                (peer, muxer)
            })
            .boxed())
    }

    /// Connections that nothing secures.
    fn plain(&self, sockets: tcp::tokio::Transport) -> Handshaken {
        let (waiting, inside) = self.waiting_room();
        sockets
            .map(move |socket, point| waiting.enter(socket, &point))
            .upgrade(Version::V1Lazy)
            .authenticate(plaintext::Config::new(self.key))
            .multiplex(Yamux::new(PIECE_PUBLIC))
            .map(move |(peer, muxer), point| {
                inside.leave(&point);
                (peer, StreamMuxerBox::new(muxer))
            })
            .boxed()
    }

    /// Where those wait who have not said who they are: its way in and its way out.
    fn waiting_room(&self) -> (PendingConnections, PendingConnections) {
        let room = self.peer_table.pending_connections();
        (room.clone(), room.clone())
    }

    /// A relay for listed peers: the door lets nobody else connect. No limit counts bytes, or
    /// hosts, of which a group behind one address has one.
    fn relay(&self, own: PeerId, meters: Meters) -> relay::Behaviour {
        // A list may grow while it runs.
        let listed = self.peer_table.len().max(LISTED);
        let burst = NonZeroU32::new(10 * listed as u32).unwrap_or(NonZeroU32::MAX);
        let config = relay::Config {
            max_reservations: RESERVATIONS_PER_PEER * listed,
            max_reservations_per_peer: RESERVATIONS_PER_PEER,
            reservation_duration: RESERVATION,
            reservation_rate_limiters: vec![],
            max_circuits: (listed * listed).min(MOST_CIRCUITS),
            max_circuits_per_peer: 4 * listed,
            max_circuit_duration: CIRCUIT,
            max_circuit_bytes: 0,
            circuit_src_rate_limiters: vec![],
        };
        // libp2p gives back one turn in each interval.
        let mut config = config
            .circuit_src_per_peer(burst, Duration::from_secs(60) / burst.get())
            .reservation_rate_per_peer(RESERVATIONS_AT_ONCE, Duration::from_secs(2));
        let table = self.peer_table.clone();
        let within_the_day = move |peer: PeerId, _: &Multiaddr, _: std::time::Instant| {
            !table.is_barred(&peer) && meters.may_open(&peer, table.len(), tokio::time::Instant::now())
        };
        config.circuit_src_rate_limiters.push(Box::new(within_the_day));
        let table = self.peer_table.clone();
        let trusted = move |peer: PeerId, _: &Multiaddr, _: std::time::Instant| !table.is_barred(&peer);
        config.reservation_rate_limiters.push(Box::new(trusted));
        let mut relay = relay::Behaviour::new(own, config);
        // It is one because it is listed, not because it was dialled back.
        relay.set_status(Some(relay::Status::Enable));
        relay
    }
}

/// Starts to listen; returns the first address that it became (port 0 becomes a real one), an empty
/// one if there is nothing to listen at.
pub(in crate::network) async fn listen(
    swarm: &mut Swarm<Behaviour>,
    listed: &[Multiaddr],
) -> Result<Multiaddr, NetworkError> {
    let (mut first, mut bound) = (None, Vec::new());
    for listed in listed {
        // The ports are held until the swarm listens: nobody else can take them in between. Two
        // listed addresses may stand for every address of this machine.
        let free = address::Place::parse(listed)?.to_bind(listed, &bound).await?;
        for holding in free {
            let address = listen_at(swarm, listed, address::to_multiaddr(holding.address)).await?;
            // A relay tells its clients where it is; these have it from their lists.
            swarm.add_external_address(address.clone());
            bound.push(holding.address);
            first.get_or_insert(address);
        }
    }
    Ok(first.unwrap_or_else(Multiaddr::empty))
}

async fn listen_at(
    swarm: &mut Swarm<Behaviour>,
    listed: &Multiaddr,
    address: Multiaddr,
) -> Result<Multiaddr, NetworkError> {
    let failed = |source| NetworkError::Listen {
        address: listed.clone(),
        source,
    };
    swarm.listen_on(address).map_err(|error| match error {
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
