//! A stream, and what keeps the connection under it open.

use std::convert::Infallible;
use std::sync::Arc;

use libp2p::Stream;
use libp2p::swarm::{ConnectionId, StreamUpgradeError};
use thiserror::Error;

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

/// The reasons why no stream was opened on a connection.
#[derive(Debug, Error)]
pub enum NotOpened {
    /// The connection closed first.
    #[error("the connection is gone")]
    Lost,
    /// The peer does not speak the protocol, or the connection broke.
    #[error(transparent)]
    Refused(#[from] StreamUpgradeError<Infallible>),
}
