//! Makes a swarm of one graph: its security, its limits, where it listens.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::core::muxing::StreamMuxerBox;
use libp2p::core::transport::timeout::TransportTimeout;
use libp2p::core::transport::{Transport, TransportError};
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::swarm::{self, NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, StreamProtocol, Swarm, noise, ping, plaintext, tcp};
use undertone_protocol::messages::notice::Network;

use crate::network::address;
use crate::network::config::{NetworkError, Patience};
use crate::network::door::Door;
use crate::network::muxer::Yamux;
use crate::network::peer_table::PeerTable;

/// Connections of one peer id, those that are being closed included: not reached unless closing
/// takes long.
const CONNECTIONS_PER_PEER: u32 = 64;

/// Inbound streams of one connection that have not named their protocol.
const NEGOTIATING: usize = 8;

/// Connections without a stream are closed after this. An edge that is up has streams.
const IDLE: Duration = Duration::from_secs(10);

/// Payload of a yamux frame. Larger pieces save a quarter of the work on plaintext and none under
/// Noise.
const PIECE_PRIVATE: usize = 16 << 10;

const PIECE_PUBLIC: usize = 64 << 10;

/// The order matters: the door must not see whom the limits keep out, and only who gets through it
/// is pinged.
#[derive(NetworkBehaviour)]
pub(in crate::network) struct Behaviour {
    pub(super) limits: connection_limits::Behaviour,
    pub(super) door: Door,
    pub(super) ping: ping::Behaviour,
}

impl Behaviour {
    fn new(peer_table: &Arc<PeerTable>, protocols: &[StreamProtocol], every: Duration) -> Behaviour {
        let limits = ConnectionLimits::default().with_max_established_per_peer(Some(CONNECTIONS_PER_PEER));
        let door = Door::new(peer_table.clone(), protocols.to_vec());
        Behaviour {
            limits: connection_limits::Behaviour::new(limits),
            door,
            ping: ping::Behaviour::new(ping::Config::new().with_interval(every).with_timeout(every)),
        }
    }
}

/// A swarm of the given graph. `patience.dial` bounds dialling and both handshakes of a connection;
/// who comes in waits in the table of pending connections until its handshake is over.
pub(in crate::network) fn build(
    graph: Network,
    key: &Keypair,
    peer_table: &Arc<PeerTable>,
    protocols: &[StreamProtocol],
    patience: &Patience,
) -> Result<Swarm<Behaviour>, NetworkError> {
    let setup = |error: &dyn std::fmt::Display| NetworkError::Setup {
        reason: error.to_string(),
    };
    let waiting = peer_table.pending_connections().clone();
    let sockets = tcp::tokio::Transport::new(tcp::Config::default())
        .map(move |socket, point| waiting.enter(socket, &point))
        .upgrade(Version::V1Lazy);
    let inside = peer_table.pending_connections().clone();
    // The transports' types differ with the security, until they are boxed.
    let transport = match graph {
        Network::Private => sockets
            .authenticate(noise::Config::new(key).map_err(|error| setup(&error))?)
            .multiplex(Yamux::new(PIECE_PRIVATE))
            .map(move |(peer, muxer), point| {
                inside.leave(&point);
                (peer, StreamMuxerBox::new(muxer))
            })
            .boxed(),
        Network::Public => sockets
            .authenticate(plaintext::Config::new(key))
            .multiplex(Yamux::new(PIECE_PUBLIC))
            .map(move |(peer, muxer), point| {
                inside.leave(&point);
                (peer, StreamMuxerBox::new(muxer))
            })
            .boxed(),
    };
    let config = swarm::Config::with_tokio_executor()
        .with_idle_connection_timeout(IDLE)
        .with_max_negotiating_inbound_streams(NEGOTIATING)
        .with_substream_upgrade_protocol_override(Version::V1Lazy);
    Ok(Swarm::new(
        TransportTimeout::new(transport, patience.dial).boxed(),
        Behaviour::new(peer_table, protocols, patience.ping),
        key.public().to_peer_id(),
        config,
    ))
}

/// Starts to listen and returns the address that it became (port 0 becomes a real one).
pub(in crate::network) async fn listen(
    swarm: &mut Swarm<Behaviour>,
    listed: &Multiaddr,
) -> Result<Multiaddr, NetworkError> {
    let failed = |source| NetworkError::Listen {
        address: listed.clone(),
        source,
    };
    // The port is held until the swarm listens: nobody else can take it in between.
    let (bound, _holding) = address::Place::parse(listed)?.to_bind(listed).await?;
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
