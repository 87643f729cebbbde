//! A port of this machine for a node that is still to be started.

use std::net::Ipv4Addr;

use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that nobody else takes for as long as this lives. Code that is given it can
/// listen there meanwhile, any number of times; until then it refuses connections.
#[derive(Debug)]
pub(crate) struct HeldPort {
    _bound: TcpSocket,
}

impl HeldPort {
    /// Takes a port. `None`: somebody has it.
    pub(crate) fn take(number: u16) -> Option<HeldPort> {
        let bound = TcpSocket::new_v4().ok()?;
        // First without SO_REUSEADDR, which would share the port with others who hold it; then with
        // it, so that a listener, which always has it, shares the port with us.
        bound.set_reuseaddr(false).ok()?;
        bound.bind((Ipv4Addr::LOCALHOST, number).into()).ok()?;
        bound.set_reuseaddr(true).ok()?;
        Some(HeldPort { _bound: bound })
    }
}
