//! Where peers listen, and where we do: `/ip4`, `/ip6` and `/dns` addresses with a TCP port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use std::{fmt, io};

use libp2p::Multiaddr;
use libp2p::multiaddr::Protocol;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::network::config::NetworkError;

/// A checked address: an IP address or a host name, and a TCP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    host: Host,
    port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    /// A name, and which of its addresses count: all, only IPv4, only IPv6.
    Name(String, IpVersion),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IpVersion {
    Any,
    V4,
    V6,
}

impl Place {
    /// Reads exactly `/ip4|ip6|dns|dns4|dns6/HOST/tcp/PORT`; anything before, between or after that
    /// is refused.
    pub(super) fn parse(address: &Multiaddr) -> Result<Place, NetworkError> {
        let wrong = || NetworkError::Address {
            address: address.clone(),
        };
        let mut parts = address.iter();
        let host = match parts.next() {
            Some(Protocol::Ip4(ip)) => Host::Ip(ip.into()),
            Some(Protocol::Ip6(ip)) => Host::Ip(ip.into()),
            Some(Protocol::Dns(name)) => Host::Name(name.into_owned(), IpVersion::Any),
            Some(Protocol::Dns4(name)) => Host::Name(name.into_owned(), IpVersion::V4),
            Some(Protocol::Dns6(name)) => Host::Name(name.into_owned(), IpVersion::V6),
            _ => return Err(wrong()),
        };
        let Some(Protocol::Tcp(port)) = parts.next() else {
            return Err(wrong());
        };
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Place { host, port })
    }

    /// The IP address, unless it is a name.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ip(ip) => Some(ip),
            Host::Name(..) => None,
        }
    }

    /// All socket addresses that the place stands for now. A name is looked up anew each time,
    /// since a peer that comes back may have moved.
    pub(super) async fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.host {
            Host::Ip(ip) => Ok(vec![SocketAddr::new(*ip, self.port)]),
            Host::Name(name, family) => {
                let found = tokio::net::lookup_host((name.as_str(), self.port)).await?;
                Ok(found
                    .filter(|address| match family {
                        IpVersion::Any => true,
                        IpVersion::V4 => address.is_ipv4(),
                        IpVersion::V6 => address.is_ipv6(),
                    })
                    .collect())
            }
        }
    }

    /// Whether the place actively refuses connections: every address that it stands for answers
    /// "refused". Silence, an unknown name or an accepted connection is not a refusal. The probing
    /// connection is closed at once.
    pub(super) async fn refuses(&self, patience: Duration) -> bool {
        match timeout(patience, self.resolve()).await {
            Ok(Ok(addresses)) => Self::all_refuse(addresses, patience).await,
            _ => false,
        }
    }

    /// Whether there are addresses and each of them refuses connections.
    async fn all_refuse(addresses: Vec<SocketAddr>, patience: Duration) -> bool {
        let mut refused = false;
        for address in addresses {
            match timeout(patience, TcpStream::connect(address)).await {
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => refused = true,
                // A free port of this machine in the ephemeral range can be connected to itself.
                Ok(Ok(stream)) if stream.local_addr().ok() == stream.peer_addr().ok() => refused = true,
                _ => return false,
            }
        }
        refused
    }

    /// The address to bind: the listed one if it belongs to this machine, else (behind address
    /// translation, in a container) any address at the listed port; with what holds the port until
    /// somebody listens there. An occupied port is an error here, because libp2p sets
    /// `SO_REUSEPORT` and would share the port silently with another process of the same user.
    pub(super) async fn to_bind(&self, listed: &Multiaddr) -> Result<(SocketAddr, Holding), NetworkError> {
        let port = self.port;
        let candidates = self.resolve().await.unwrap_or_default();
        let v6 = candidates.first().is_some_and(SocketAddr::is_ipv6);
        let any = if v6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        };
        for address in candidates.into_iter().chain([SocketAddr::new(any, port)]) {
            match Holding::of(address) {
                Ok(holding) => return Ok((address, holding)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(NetworkError::PortInUse {
                        address: listed.clone(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
                Err(source) => {
                    return Err(NetworkError::Listen {
                        address: listed.clone(),
                        source,
                    });
                }
            }
        }
        let source = io::ErrorKind::AddrNotAvailable.into();
        Err(NetworkError::Listen {
            address: listed.clone(),
            source,
        })
    }
}

/// A socket that is bound to an address at which nobody listens. It never listens itself: a copy
/// that a child has from fork to exec would then keep the real listener out.
#[derive(Debug)]
pub(super) struct Holding {
    _bound: Option<TcpSocket>,
}

impl Holding {
    fn of(address: SocketAddr) -> io::Result<Holding> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        // Elsewhere than on Linux a socket that is bound keeps even its own listener out.
        Ok(Holding {
            _bound: cfg!(target_os = "linux").then_some(socket),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(ip) => write!(f, "{}", SocketAddr::new(*ip, self.port)),
            Host::Name(name, _) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// The address as libp2p writes it: `/ip4/…/tcp/…` or `/ip6/…/tcp/…`.
pub(super) fn to_multiaddr(address: SocketAddr) -> Multiaddr {
    Multiaddr::from(address.ip()).with(Protocol::Tcp(address.port()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::network::held_port::HeldPort;
    use crate::network::tests::nodes::free_port;

    fn place(text: &str) -> Result<Place, NetworkError> {
        Place::parse(&text.parse().expect("a multiaddress"))
    }

    #[test]
    fn takes_ip_and_dns_with_a_port_and_nothing_else() {
        assert_eq!(
            place("/ip4/127.0.0.1/tcp/7001").unwrap().to_string(),
            "127.0.0.1:7001"
        );
        assert_eq!(place("/ip6/::1/tcp/7001").unwrap().to_string(), "[::1]:7001");
        assert_eq!(
            place("/dns/alice.example/tcp/7001").unwrap().to_string(),
            "alice.example:7001"
        );
        for wrong in [
            "/ip4/127.0.0.1",
            "/ip4/127.0.0.1/udp/7001",
            "/tcp/7001",
            "/ip4/127.0.0.1/tcp/7001/ws",
            "/memory/5",
        ] {
            assert!(
                matches!(place(wrong), Err(NetworkError::Address { .. })),
                "{wrong} was taken"
            );
        }
    }

    #[tokio::test]
    async fn a_name_is_looked_up_and_filtered_by_family() {
        let found = place("/dns4/localhost/tcp/7").unwrap().resolve().await.unwrap();
        assert!(!found.is_empty() && found.iter().all(|a| a.is_ipv4() && a.port() == 7));
        // A machine may have no IPv6 at all.
        let found = place("/dns6/localhost/tcp/7").unwrap().resolve().await;
        assert!(found.is_err() || found.unwrap().iter().all(SocketAddr::is_ipv6));
    }

    #[tokio::test]
    async fn a_name_refuses_only_if_each_of_its_addresses_does() {
        let patience = Duration::from_secs(5);
        let [refuses, too, accepts] = [(); 3].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
        let _listener = TcpListener::bind(accepts).unwrap();
        for (addresses, expected) in [
            (vec![refuses, too], true),
            (vec![refuses, accepts], false),
            (vec![accepts, refuses], false),
            (vec![], false),
        ] {
            assert_eq!(
                Place::all_refuse(addresses.clone(), patience).await,
                expected,
                "{addresses:?}"
            );
        }
        let unknown = Place::parse(&"/dns/no-such-host.invalid/tcp/7".parse().unwrap()).unwrap();
        assert!(!unknown.refuses(patience).await, "nobody knows where it is");
    }

    #[tokio::test]
    async fn only_a_free_port_refuses() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let place = Place::parse(&to_multiaddr(address)).unwrap();
        assert!(place.refuses(Duration::from_secs(5)).await);
        let listener = TcpListener::bind(address).unwrap();
        assert!(!place.refuses(Duration::from_secs(5)).await);
        drop(listener);
        assert!(place.refuses(Duration::from_secs(5)).await);
    }

    #[tokio::test]
    async fn a_foreign_address_is_bound_at_its_port_on_any_interface() {
        // 192.0.2.1 is reserved for documentation (RFC 5737): never ours.
        let listed: Multiaddr = "/ip4/192.0.2.1/tcp/0".parse().unwrap();
        let (bound, _) = Place::parse(&listed).unwrap().to_bind(&listed).await.unwrap();
        assert_eq!(bound, "0.0.0.0:0".parse().unwrap());
    }

    #[tokio::test]
    async fn a_port_that_was_checked_is_held_without_listening_and_can_be_listened_on() {
        let port = free_port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listed = to_multiaddr(address);
        let place = Place::parse(&listed).unwrap();
        let (bound, holding) = place.to_bind(&listed).await.unwrap();
        assert_eq!(bound, address);
        assert!(place.refuses(Duration::from_secs(5)).await, "nobody listens yet");
        assert!(HeldPort::take(port).is_none(), "and nobody else can have it");
        // As a child does that was forked while the port was checked.
        let _copy = holding;
        let listener = TcpListener::bind(address).expect("the listener that it is held for");
        let again = place.to_bind(&listed).await;
        assert!(matches!(again, Err(NetworkError::PortInUse { .. })), "{again:?}");
        drop(listener);
        place.to_bind(&listed).await.expect("free again");
    }
}
