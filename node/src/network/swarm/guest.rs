//! Peers that open a stream, once their hello was checked.

use libp2p::PeerId;
use libp2p::swarm::ConnectionId;
use tokio::sync::mpsc;

use crate::network::hello::{Credentials, HelloError};
use crate::network::lane::Lane;
use crate::network::peer_table::Arrival;

/// A hello that was checked.
pub(super) struct Examined {
    pub(super) peer: PeerId,
    pub(super) connection: ConnectionId,
    pub(super) lane: Lane,
    pub(super) result: Result<Guest, HelloError>,
}

/// A peer that has said hello.
pub(super) enum Guest {
    /// A neighbour in an attached run, with where its streams go.
    Edge(mpsc::Sender<Arrival>),
    /// Somebody who wants to ask questions.
    Asker(Box<Credentials>),
}
