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

    /// The addresses to bind: the listed ones that belong to this machine, else (behind address
    /// translation, in a container) every address of either family at the listed port; with what
    /// holds the ports until somebody listens there; without those that are bound by us already. An
    /// occupied port is an error here, because
    /// libp2p sets `SO_REUSEPORT` and would share the port silently with another process of the
    /// same user.
    pub(super) async fn to_bind(
        &self,
        listed: &Multiaddr,
        bound: &[SocketAddr],
    ) -> Result<Vec<Bound>, NetworkError> {
        let every: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        let every = every.map(|ip| SocketAddr::new(ip, self.port));
        let covered = |address: &SocketAddr| bound.contains(address) || bound.contains(&every[0]);
        let (mut own, mut had) = (Vec::new(), false);
        for address in self.resolve().await.unwrap_or_default() {
            match covered(&address) {
                true => had = true,
                false => own.extend(Bound::at(address, listed)?),
            }
        }
        if own.is_empty() && !had {
            for address in every {
                own.extend(Bound::at(address, listed)?);
            }
        }
        match own.is_empty() && !had {
            false => Ok(own),
            true => Err(NetworkError::Listen {
                address: listed.clone(),
                source: io::ErrorKind::AddrNotAvailable.into(),
            }),
        }
    }
}

/// All addresses of one peer on one graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Whereabouts {
    places: Vec<Place>,
    /// They come from a plan, and the operator has a list: what they lead to inside of this
    /// machine's own networks is none of the plan's business.
    outside_only: bool,
}

impl Whereabouts {
    pub(super) fn parse(addresses: &[Multiaddr]) -> Result<Whereabouts, NetworkError> {
        let places = addresses.iter().map(Place::parse).collect::<Result<_, _>>()?;
        Ok(Whereabouts {
            places,
            outside_only: false,
        })
    }

    /// Leaves out what leads inside.
    pub(super) fn outside_only(mut self) -> Whereabouts {
        self.outside_only = true;
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The IP addresses, without those that names stand for.
    pub(super) fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.places.iter().filter_map(Place::ip)
    }

    /// All socket addresses that the places stand for now, each once. Names are looked up anew each
    /// time, since a peer that comes back may have moved; one that stands for nothing is left out.
    pub(super) async fn resolve(&self, patience: Duration) -> Vec<SocketAddr> {
        let found = self.places.iter().map(|place| timeout(patience, place.resolve()));
        let found = futures::future::join_all(found).await;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found.into_iter().flatten().flatten().flatten() {
            if !(addresses.contains(&address) || self.outside_only && is_inside(address.ip())) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// Whether there are addresses and all of them actively refuse connections. Silence, an unknown
    /// name or an accepted connection is not a refusal. The probing connection is closed at once.
    pub(super) async fn refuse(&self, patience: Duration) -> bool {
        all_refuse(self.resolve(patience).await, patience).await
    }

    /// Whether one of them takes a connection, which is closed at once.
    pub(super) async fn take(&self, patience: Duration) -> bool {
        for address in self.resolve(patience).await {
            if probe(address, patience).await == Probed::Taken {
                return true;
            }
        }
        false
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, place) in self.places.iter().enumerate() {
            write!(f, "{}{place}", if number > 0 { " or " } else { "" })?;
        }
        Ok(())
    }
}

/// Whether an address leads to this machine, its link or a private network, also where an IPv6
/// address stands for it.
fn is_inside(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
    }
}

/// The fate of a connection that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probed {
    Taken,
    Refused,
    /// Silence, or an error that says nothing about who listens.
    None,
}

async fn probe(address: SocketAddr, patience: Duration) -> Probed {
    match timeout(patience, TcpStream::connect(address)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => Probed::Refused,
        // A free port of this machine in the ephemeral range can be connected to itself.
        Ok(Ok(stream)) if stream.local_addr().ok() == stream.peer_addr().ok() => Probed::Refused,
        Ok(Ok(_)) => Probed::Taken,
        Ok(Err(_)) | Err(_) => Probed::None,
    }
}

/// Whether there are addresses and each of them refuses connections.
async fn all_refuse(addresses: Vec<SocketAddr>, patience: Duration) -> bool {
    let mut refused = false;
    for address in addresses {
        match probe(address, patience).await {
            Probed::Refused => refused = true,
            Probed::Taken | Probed::None => return false,
        }
    }
    refused
}

/// An address to listen at, and what keeps others from it until somebody does.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) address: SocketAddr,
    _holding: Holding,
}

impl Bound {
    /// `None`: the address is none of this machine's.
    fn at(address: SocketAddr, listed: &Multiaddr) -> Result<Option<Bound>, NetworkError> {
        let listed = listed.clone();
        match Holding::of(address) {
            Ok(_holding) => Ok(Some(Bound { address, _holding })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(NetworkError::PortInUse { address: listed })
            }
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(None),
            // A machine without IPv6.
            Err(_) if address == SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port()) => Ok(None),
            Err(source) => Err(NetworkError::Listen {
                address: listed,
                source,
            }),
        }
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
        if address.is_ipv6() {
            // Else it would keep our own IPv4 socket out.
            rustix::net::sockopt::set_ipv6_v6only(&socket, true)?;
        }
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

    fn places(texts: &[&str]) -> Whereabouts {
        let addresses = texts.iter().map(|text| text.parse().expect("a multiaddress"));
        Whereabouts::parse(&addresses.collect::<Vec<_>>()).expect("addresses")
    }

    #[tokio::test]
    async fn a_plan_leads_nobody_inside() {
        let patience = Duration::from_secs(5);
        let inside = [
            "/ip4/127.0.0.1/tcp/7",
            "/ip4/10.1.2.3/tcp/7",
            "/ip4/192.168.0.1/tcp/7",
            "/ip4/169.254.169.254/tcp/80",
            "/ip4/0.0.0.0/tcp/7",
            "/ip6/::1/tcp/7",
            "/ip6/fd00::1/tcp/7",
            "/ip6/fe80::1/tcp/7",
            "/ip6/::ffff:127.0.0.1/tcp/7",
            "/dns4/localhost/tcp/7",
        ];
        for text in inside {
            let of_the_list = places(&[text]);
            assert!(!of_the_list.resolve(patience).await.is_empty(), "{text}");
            let of_a_plan = of_the_list.outside_only();
            assert_eq!(of_a_plan.resolve(patience).await, [], "{text}");
        }
        let both = places(&["/ip4/127.0.0.1/tcp/7", "/ip4/192.0.2.1/tcp/7"]);
        assert_eq!(both.resolve(patience).await.len(), 2);
        let outside = both.outside_only().resolve(patience).await;
        assert_eq!(outside, ["192.0.2.1:7".parse().unwrap()]);
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
                all_refuse(addresses.clone(), patience).await,
                expected,
                "{addresses:?}"
            );
        }
        let unknown = places(&["/dns/no-such-host.invalid/tcp/7"]);
        assert!(!unknown.refuse(patience).await, "nobody knows where it is");
        assert!(!places(&[]).refuse(patience).await, "it has no address");
    }

    #[tokio::test]
    async fn only_a_free_port_refuses() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let places = Whereabouts::parse(&[to_multiaddr(address)]).unwrap();
        let patience = Duration::from_secs(5);
        assert!(places.refuse(patience).await && !places.take(patience).await);
        let listener = TcpListener::bind(address).unwrap();
        assert!(!places.refuse(patience).await && places.take(patience).await);
        drop(listener);
        assert!(places.refuse(patience).await);
    }

    #[tokio::test]
    async fn a_foreign_address_is_bound_at_its_port_on_any_interface() {
        // 192.0.2.1 is reserved for documentation (RFC 5737): never ours.
        let listed: Multiaddr = format!("/ip4/192.0.2.1/tcp/{}", free_port()).parse().unwrap();
        let place = Place::parse(&listed).unwrap();
        let bound = place.to_bind(&listed, &[]).await.unwrap();
        assert_eq!(
            bound[0].address,
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, place.port))
        );
        // A machine may have no IPv6 at all.
        let every = SocketAddr::from((Ipv6Addr::UNSPECIFIED, place.port));
        assert!(bound[1..].iter().all(|bound| bound.address == every));
    }

    #[tokio::test]
    async fn a_port_that_was_checked_is_held_without_listening_and_can_be_listened_on() {
        let port = free_port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listed = to_multiaddr(address);
        let place = Place::parse(&listed).unwrap();
        let bound = place.to_bind(&listed, &[]).await.unwrap();
        assert_eq!(bound[0].address, address);
        let places = Whereabouts::parse(std::slice::from_ref(&listed)).unwrap();
        assert!(places.refuse(Duration::from_secs(5)).await, "nobody listens yet");
        assert!(HeldPort::take(port).is_none(), "and nobody else can have it");
        // As a child does that was forked while the port was checked.
        let _copy = bound;
        let listener = TcpListener::bind(address).expect("the listener that it is held for");
        let again = place.to_bind(&listed, &[]).await;
        assert!(matches!(again, Err(NetworkError::PortInUse { .. })), "{again:?}");
        drop(listener);
        place.to_bind(&listed, &[]).await.expect("free again");
    }
}
