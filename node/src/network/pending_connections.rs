//! Connections on their way in, whose other ends have not yet said who they are. Anybody can open
//! one and fall silent; a newcomer therefore always finds a place, if need be that of whoever has
//! been silent for longest.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use futures::{AsyncRead, AsyncWrite};
use libp2p::Multiaddr;
use libp2p::core::ConnectedPoint;
use libp2p::multiaddr::Protocol;

/// Connections of which nobody has said who is at the other end. A handshake takes some round trips
/// and each such connection some kB. Our choice: an attacker has to open 256 new ones while a
/// peer's handshake lasts.
const PLACES: usize = 256;

/// The peers that have been heard of, as opposed to anybody.
#[derive(Debug, Default)]
struct Newcomers {
    next: u64,
    entries: BTreeMap<u64, (IpAddr, Arc<Newcomer>)>,
    /// By the address of the other end, as libp2p reports it.
    numbers: BTreeMap<Multiaddr, VecDeque<u64>>,
    /// Hosts of the peer list, and those that peers have come from.
    known: BTreeSet<IpAddr>,
}

impl Newcomers {
    /// The oldest of the host with most of them; hosts that are known keep their places for as long
    /// as there are others.
    fn who_gives_way(&self) -> Option<u64> {
        let mut hosts: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        for (number, (host, _)) in &self.entries {
            hosts.entry(*host).or_insert((0, *number)).0 += 1;
        }
        let most = hosts
            .into_iter()
            .max_by_key(|(host, (count, _))| (!self.known.contains(host), *count));
        most.map(|(_, (_, oldest))| oldest)
    }
}

/// All connections to one port that are on their way in.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingConnections(Arc<Mutex<Newcomers>>);

impl PendingConnections {
    fn waiting(&self) -> MutexGuard<'_, Newcomers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A peer is, or may come, from this host.
    pub(super) fn know(&self, address: &Multiaddr) {
        if let Some(host) = host_of(address) {
            self.waiting().known.insert(host);
        }
    }

    /// Gives a connection that came in its place; one that we opened needs none.
    pub(super) fn enter<S>(&self, socket: S, point: &ConnectedPoint) -> Watched<S> {
        let ConnectedPoint::Listener { send_back_addr, .. } = point else {
            return Watched { socket, entry: None };
        };
        let entry = Arc::new(Newcomer::default());
        let mut waiting = self.waiting();
        if waiting.entries.len() >= PLACES
            && let Some(oldest) = waiting.who_gives_way()
            && let Some((_, silent)) = waiting.entries.remove(&oldest)
        {
            silent.become_(Fate::SentAway);
        }
        let number = waiting.next;
        waiting.next += 1;
        let host = host_of(send_back_addr).unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        waiting.entries.insert(number, (host, entry.clone()));
        let numbers = waiting.numbers.entry(send_back_addr.clone());
        numbers.or_default().push_back(number);
        drop(waiting);
        Watched {
            socket,
            entry: Some(NewcomersPlace {
                pending_connections: self.clone(),
                address: send_back_addr.clone(),
                number,
                entry,
            }),
        }
    }

    /// It is known who is at the other end.
    pub(super) fn leave(&self, point: &ConnectedPoint) {
        if let ConnectedPoint::Listener { send_back_addr, .. } = point {
            let mut waiting = self.waiting();
            // All circuits of a peer have one address: the first to come is the first to be known.
            let numbers = waiting.numbers.get_mut(send_back_addr);
            let number = numbers.and_then(VecDeque::pop_front);
            if let Some((_, entry)) = number.and_then(|number| waiting.entries.remove(&number)) {
                entry.become_(Fate::Inside);
            }
        }
    }
}

/// The host of an address. An IPv6 host has all addresses of its network, which stands for it.
fn host_of(address: &Multiaddr) -> Option<IpAddr> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(ip.into()),
        Protocol::Ip6(ip) => Some(Ipv6Addr::from(u128::from(ip) >> 64 << 64).into()),
        _ => None,
    }
}

/// The fate of a connection that came in; 0 stands for one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Fate {
    Inside = 1,
    SentAway = 2,
}

#[derive(Debug, Default)]
struct Newcomer {
    fate: AtomicU8,
    waker: AtomicWaker,
}

impl Newcomer {
    fn become_(&self, fate: Fate) {
        self.fate.store(fate as u8, Ordering::Release);
        self.waker.wake();
    }

    fn is(&self, fate: Fate) -> bool {
        self.fate.load(Ordering::Acquire) == fate as u8
    }
}

/// A place; given back when it is dropped.
#[derive(Debug)]
struct NewcomersPlace {
    pending_connections: PendingConnections,
    address: Multiaddr,
    number: u64,
    entry: Arc<Newcomer>,
}

impl Drop for NewcomersPlace {
    fn drop(&mut self) {
        let mut waiting = self.pending_connections.waiting();
        waiting.entries.remove(&self.number);
        if let Some(numbers) = waiting.numbers.get_mut(&self.address) {
            numbers.retain(|number| *number != self.number);
            if numbers.is_empty() {
                waiting.numbers.remove(&self.address);
            }
        }
    }
}

/// A connection that breaks when its place is somebody else's.
#[derive(Debug)]
pub(super) struct Watched<S> {
    socket: S,
    entry: Option<NewcomersPlace>,
}

impl<S> Watched<S> {
    /// Fails once it was sent away.
    fn stays(&mut self, context: &Context<'_>) -> io::Result<()> {
        let Some(guest) = &self.entry else { return Ok(()) };
        if guest.entry.is(Fate::Inside) {
            self.entry = None;
            return Ok(());
        }
        // First the waker, then the look: nobody is sent away in between unseen.
        guest.entry.waker.register(context.waker());
        if guest.entry.is(Fate::SentAway) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.stays(context)?;
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }

    fn poll_read_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &mut [io::IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stays(context)?;
        Pin::new(&mut self.socket).poll_read_vectored(context, buffers)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_close(context)
    }
}

#[cfg(test)]
mod tests {
    use futures::AsyncReadExt;
    use libp2p::core::Endpoint;

    use super::*;

    fn from(host: u8, port: u16) -> ConnectedPoint {
        let send_back_addr = format!("/ip4/10.0.0.{host}/tcp/{port}").parse().unwrap();
        ConnectedPoint::Listener {
            local_addr: Multiaddr::empty(),
            send_back_addr,
        }
    }

    /// Nothing ever comes.
    struct Silent;

    impl AsyncRead for Silent {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }
    }

    fn is_sent_away(watched: &mut Watched<Silent>) -> bool {
        let read = futures::FutureExt::now_or_never(watched.read(&mut [0]));
        read.is_some_and(|read| read.is_err())
    }

    #[test]
    fn who_is_silent_gives_way_and_hosts_of_peers_do_not() {
        let pending_connections = PendingConnections::default();
        pending_connections.know(&"/ip4/10.0.0.1/tcp/7001".parse().unwrap());
        let mut peers: Vec<_> = (0..200)
            .map(|port| pending_connections.enter(Silent, &from(1, port)))
            .collect();
        let mut crowd: Vec<_> = (0..300)
            .map(|port| pending_connections.enter(Silent, &from(2, port)))
            .collect();
        assert!(!peers.iter_mut().any(is_sent_away));
        let gone = crowd.iter_mut().map(is_sent_away).collect::<Vec<_>>();
        assert_eq!(gone.iter().filter(|gone| **gone).count(), 500 - PLACES);
        assert!(
            gone[..500 - PLACES].iter().all(|gone| *gone),
            "the oldest go first"
        );
        // Who has said its name needs no place, and keeps its connection.
        pending_connections.leave(&from(1, 7));
        let mut more: Vec<_> = (200..600)
            .map(|port| pending_connections.enter(Silent, &from(1, port)))
            .collect();
        assert!(!is_sent_away(&mut peers[7]));
        assert!(!is_sent_away(more.last_mut().unwrap()));
        drop((peers, crowd, more));
        let waiting = pending_connections.waiting();
        assert!(waiting.entries.is_empty() && waiting.numbers.is_empty());
    }

    #[test]
    fn a_place_is_of_the_latest_connection_from_its_address() {
        let pending_connections = PendingConnections::default();
        let closed = pending_connections.enter(Silent, &from(1, 7));
        let mut open = pending_connections.enter(Silent, &from(1, 7));
        drop(closed);
        assert_eq!(pending_connections.waiting().entries.len(), 1);
        pending_connections.leave(&from(1, 7));
        assert!(
            pending_connections.waiting().entries.is_empty(),
            "it has said its name"
        );
        let mut crowd: Vec<_> = (0..2 * PLACES as u16)
            .map(|port| pending_connections.enter(Silent, &from(1, 1_000 + port)))
            .collect();
        assert!(!is_sent_away(&mut open) && is_sent_away(&mut crowd[0]));
        assert_eq!(pending_connections.waiting().entries.len(), PLACES);
    }

    #[test]
    fn an_ipv6_network_is_one_host() {
        let host = |text: &str| host_of(&format!("/ip6/{text}/tcp/7").parse().unwrap()).unwrap();
        assert_eq!(host("2001:db8:0:1::1"), host("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(host("2001:db8:0:1::1"), host("2001:db8:0:2::1"));
        assert_eq!(host_of(&"/dns/a.example/tcp/7".parse().unwrap()), None);
    }

    #[test]
    fn what_we_opened_needs_no_place() {
        let pending_connections = PendingConnections::default();
        let dialled = ConnectedPoint::Dialer {
            address: Multiaddr::empty(),
            role_override: Endpoint::Dialer,
            port_use: libp2p::core::transport::PortUse::New,
        };
        assert!(pending_connections.enter(Silent, &dialled).entry.is_none());
    }
}
