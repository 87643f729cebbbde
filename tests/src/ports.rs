//! Ports of this machine for nodes that are still to be started.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicU16, Ordering};

use socket2::{Domain, Socket, Type};

/// Where ports are taken from: below those that documents name, from which `undertone local` gives
/// ports to its nodes, and from which systems give them to outgoing connections.
const FIRST: u16 = 2_000;
const COUNT: u16 = 5_000;

/// Ports that nobody else takes for as long as this lives. Whoever is told of one can listen there
/// meanwhile, any number of times; until then it refuses connections.
#[derive(Debug)]
pub struct Ports {
    numbers: Vec<u16>,
    _held: Vec<Socket>,
}

impl Ports {
    /// Holds this many ports.
    pub fn hold(count: usize) -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // Processes begin at different ports. Within one they come in turn, so that one whose
        // connections have just been closed is not the next to be given.
        let start = (std::process::id() % 50) as u16 * 100;
        let fresh = || FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT;
        let tries = (0..COUNT).map(|_| fresh());
        let (numbers, held): (Vec<u16>, Vec<Socket>) = tries
            .filter_map(|port| Some((port, hold(port)?)))
            .take(count)
            .unzip();
        assert_eq!(numbers.len(), count, "free ports");
        Ports { numbers, _held: held }
    }
}

impl Deref for Ports {
    type Target = [u16];

    fn deref(&self) -> &[u16] {
        &self.numbers
    }
}

/// A socket that is bound to a port and does not listen. `None`: somebody has the port.
fn hold(port: u16) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    // First without SO_REUSEADDR, which would share the port with others who hold it; then with
    // it, so that a listener, which always has it, shares the port with us.
    socket
        .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())
        .ok()?;
    socket.set_reuse_address(true).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn held_ports_are_given_once_refuse_connections_and_can_be_listened_on() {
        let ports = Ports::hold(3);
        for &port in ports.iter() {
            let address = (Ipv4Addr::LOCALHOST, port);
            assert!(hold(port).is_none(), "{port} is given twice");
            let refused = TcpStream::connect(address).expect_err("nobody listens");
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            for _ in 0..2 {
                let _listener = TcpListener::bind(address).expect("whoever is told can listen");
                TcpStream::connect(address).expect("somebody listens");
                assert!(hold(port).is_none(), "{port} is given twice");
            }
        }
        let numbers = ports.to_vec();
        drop(ports);
        // Others may have taken them by now, but not all.
        assert!(
            numbers.iter().any(|&port| hold(port).is_some()),
            "they are let go of"
        );
    }
}
