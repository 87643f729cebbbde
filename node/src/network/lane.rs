//! A stream, and what keeps the connection under it open.

use std::sync::Arc;

use libp2p::Stream;
use libp2p::swarm::ConnectionId;

/// Keeps a connection in use for as long as it lives.
#[derive(Clone, Debug)]
pub(super) struct Stay {
    pub(super) connection: ConnectionId,
    /// Counted by the swarm's task.
    pub(super) _users: Arc<()>,
}

/// A stream and its hold on the connection that it is on.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stream: Stream,
    pub(super) stay: Stay,
}
