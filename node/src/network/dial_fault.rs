//! The finding where a peer should be.

use libp2p::PeerId;
use thiserror::Error;

/// The reasons why nobody answered at an address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DialFault {
    /// Nobody listens at the address.
    #[error("it refuses connections")]
    Refused,
    /// It took the connection and closed it before a word was said.
    #[error("it closed the connection")]
    Closed,
    /// Nothing came back in time.
    #[error("it does not answer")]
    Silent,
    /// The name stands for no address.
    #[error("its name is not known")]
    Unknown,
    /// It has no address, and no relay is listed or can be reached.
    #[error("it has no address, and no relay reaches it")]
    NoRelay,
    /// A relay says that it keeps no place there.
    #[error("it is at no relay: it does not run, or reaches none")]
    NotAtRelay,
    /// Another identity is there.
    #[error("{0} answers there")]
    OtherPeer(PeerId),
    /// Something else listens there, or we for another graph.
    #[error("what answers there does not speak our protocol ({0})")]
    NotOurs(String),
}
