//! Offences and failures while mixing, without values.

use thiserror::Error;

use crate::lattice::packed::VectorError;
use crate::messages::log::ShareId;

/// A forbidden action of a peer.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MixingOffence {
    /// The peer sent a share that the schedule does not have.
    #[error("a share that is not due: round {}, from {} to {}", .0.round, .0.from, .0.to)]
    NotDue(ShareId),
    /// The peer sent, early, a share of another length than the plan's.
    #[error("its share of round {round} has {bytes} bytes, which is not the plan's length")]
    Length {
        /// The round of the share.
        round: u32,
        /// The length of the share's values.
        bytes: usize,
    },
    /// The peer sent a share with a weight that no honest one has.
    #[error("its share of round {0} carries an impossible weight")]
    Weight(u32),
    /// The peer sent a share with values that no honest one has.
    #[error("its share of round {round}: {reason}")]
    Values {
        /// The round of the share.
        round: u32,
        /// The error in the values.
        reason: VectorError,
    },
    /// The peer answered a share that it was not sent, or in an impossible round.
    #[error("an answer to no share that it was sent: round {}, to {}", .0.round, .0.to)]
    NotSent(ShareId),
    /// The peer gave another answer before.
    #[error("two different answers to the share of round {0}")]
    TwoAnswers(u32),
}

/// A failure of this node: its shares of a round are too large for the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this node's shares of round {round} do not fit on the wire and were not sent")]
pub struct Unsendable {
    /// The round of the shares.
    pub round: u32,
}
