//! `/undertone/group/1`: connections of a lobby, the only ones for strangers.
//!
//! Each is Noise over TCP on a port of its own, whose prologue is the protocol's name: nobody is
//! talked into another protocol, and both ends know each other's key from the first frame on.
//! Frames go behind their length (4 bytes, big endian).

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, StreamExt};
use libp2p::core::transport::{Boxed, DialOpts, ListenerId, PortUse, Transport, TransportEvent};
use libp2p::core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade};
use libp2p::core::{ConnectedPoint, Endpoint};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::{Multiaddr, PeerId, noise, tcp};
use thiserror::Error;
use tokio::time::timeout;

use crate::network::address::{self, Place, Whereabouts};
use crate::network::config::NetworkError;

/// In the prologue of both ends' handshakes.
const PROTOCOL: &[u8] = b"/undertone/group/1";
/// Bytes that are allocated ahead of what arrived.
const PIECE: usize = 64 << 10;
/// How long one attempt to reach the host and its handshake may take.
const DIAL: Duration = Duration::from_secs(10);

/// An encrypted connection.
pub(crate) type Secured = noise::Output<tcp::tokio::TcpStream>;

/// A connection on its way in: whence, and its handshake.
pub(crate) struct IncomingConnection {
    /// The other end's address.
    pub(crate) from: Option<IpAddr>,
    /// Ends with the key that the other end holds. It has no time limit.
    pub(crate) handshake: Box<dyn Future<Output = io::Result<(PeerId, Secured)>> + Send + Unpin>,
}

fn transport(key: &Keypair) -> Result<Boxed<(PeerId, Secured)>, NetworkError> {
    let noise = noise::Config::new(key).map_err(|error| NetworkError::Setup {
        reason: error.to_string(),
    })?;
    let noise = noise.with_prologue(PROTOCOL.to_vec());
    let sockets = tcp::tokio::Transport::new(tcp::Config::default());
    let secured = sockets.and_then(move |socket, point: ConnectedPoint| match point {
        ConnectedPoint::Dialer { .. } => noise.upgrade_outbound(socket, "/noise"),
        ConnectedPoint::Listener { .. } => noise.upgrade_inbound(socket, "/noise"),
    });
    Ok(secured.boxed())
}

/// Where guests come in.
pub(crate) struct LobbyListener(Boxed<(PeerId, Secured)>);

impl LobbyListener {
    /// Listens at these addresses.
    ///
    /// # Errors
    /// One of them is not an address, is in use, or cannot be listened at.
    pub(crate) async fn at(key: &Keypair, listed: &[Multiaddr]) -> Result<LobbyListener, NetworkError> {
        let mut transport = transport(key)?;
        let mut bound = Vec::new();
        for listed in listed {
            for holding in Place::parse(listed)?.to_bind(listed, &bound).await? {
                let at = address::to_multiaddr(holding.address);
                transport
                    .listen_on(ListenerId::next(), at)
                    .map_err(|error| NetworkError::Listen {
                        address: listed.clone(),
                        source: io::Error::other(error.to_string()),
                    })?;
                bound.push(holding.address);
            }
        }
        Ok(LobbyListener(transport))
    }

    /// The next connection. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> IncomingConnection {
        loop {
            if let Some(TransportEvent::Incoming {
                upgrade,
                send_back_addr,
                ..
            }) = self.0.next().await
            {
                let ip = |part| match part {
                    Protocol::Ip4(ip) => Some(IpAddr::from(ip)),
                    Protocol::Ip6(ip) => Some(IpAddr::from(ip)),
                    _ => None,
                };
                return IncomingConnection {
                    from: send_back_addr.iter().find_map(ip),
                    handshake: Box::new(upgrade),
                };
            }
        }
    }
}

/// The reasons why a host is not reached.
#[derive(Debug, Error)]
pub(crate) enum NotReached {
    /// None of the addresses leads anywhere, or there is no handshake.
    #[error("nobody answers at {0}")]
    Nobody(String),
    /// Somebody else answers.
    #[error("another key than the host's answers at {0}")]
    Other(String),
    /// We have no address or key to dial with.
    #[error(transparent)]
    Setup(#[from] NetworkError),
}

/// Connects to the host: at the first of its addresses where its key answers.
///
/// # Errors
/// None does.
pub(crate) async fn dial(key: &Keypair, host: PeerId, listed: &[Multiaddr]) -> Result<Secured, NotReached> {
    let places = Whereabouts::parse(listed)?;
    let shown = places.to_string();
    let mut other = false;
    for at in places.resolve(DIAL).await {
        let mut transport = transport(key)?;
        let options = DialOpts {
            role: Endpoint::Dialer,
            port_use: PortUse::New,
        };
        let Ok(dialled) = transport.dial(address::to_multiaddr(at), options) else {
            continue;
        };
        match timeout(DIAL, dialled).await {
            Ok(Ok((found, secured))) if found == host => return Ok(secured),
            Ok(Ok(_)) => other = true,
            _ => {}
        }
    }
    Err(match other {
        true => NotReached::Other(shown),
        false => NotReached::Nobody(shown),
    })
}

/// Writes a frame behind its length.
///
/// # Errors
/// The connection broke.
pub(crate) async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    // Our own frames are below the limits, which are far below 2^32.
    let length = (frame.len() as u32).to_be_bytes();
    stream.write_all(&[&length, frame].concat()).await?;
    stream.flush().await
}

/// Reads a frame of at most `limit` bytes.
///
/// # Errors
/// The connection broke, or the frame is longer.
pub(crate) async fn read_frame(stream: &mut (impl AsyncRead + Unpin), limit: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > limit {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = Vec::new();
    while frame.len() < length {
        let filled = frame.len();
        frame.resize((filled + PIECE).min(length), 0);
        stream.read_exact(&mut frame[filled..]).await?;
    }
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::nodes::free_port;

    #[tokio::test]
    async fn both_ends_know_each_other_and_another_host_or_protocol_is_none() {
        let [host, guest, stranger] = [(); 3].map(|()| Keypair::generate_ed25519());
        let at: Vec<Multiaddr> = vec![
            format!("/ip4/127.0.0.1/tcp/{}", free_port())
                .parse()
                .expect("an address"),
        ];
        let mut listener = LobbyListener::at(&host, &at).await.expect("free");
        let serve = async {
            loop {
                let newcomer = listener.next().await;
                assert!(newcomer.from.is_some_and(|ip| ip.is_loopback()));
                if let Ok((id, mut secured)) = newcomer.handshake.await {
                    write_frame(&mut secured, &id.to_bytes()).await.expect("it reads");
                }
            }
        };
        let (id, stranger) = (host.public().to_peer_id(), stranger.public().to_peer_id());
        let dialling = async {
            let mut secured = dial(&guest, id, &at).await.expect("it is there");
            let seen = read_frame(&mut secured, 64).await.expect("a frame");
            assert_eq!(seen, guest.public().to_peer_id().to_bytes());
            let mut secured = dial(&guest, id, &at).await.expect("it is there");
            read_frame(&mut secured, 10)
                .await
                .expect_err("38 bytes are more than 10");
            assert!(matches!(
                dial(&guest, stranger, &at).await,
                Err(NotReached::Other(_))
            ));
            let noise = noise::Config::new(&guest).expect("a key");
            let mut sockets = tcp::tokio::Transport::new(tcp::Config::default());
            let options = DialOpts {
                role: Endpoint::Dialer,
                port_use: PortUse::New,
            };
            let socket = sockets
                .dial(at[0].clone(), options)
                .expect("an address")
                .await
                .expect("it is there");
            assert!(
                noise.upgrade_outbound(socket, "/noise").await.is_err(),
                "without the prologue"
            );
        };
        tokio::select! { () = serve => {}, () = dialling => {} }
        drop(listener);
        assert!(matches!(dial(&guest, id, &at).await, Err(NotReached::Nobody(_))));
    }
}
