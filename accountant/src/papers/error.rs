//! The reasons why a figure was not computed.

use crate::account::answer::AccountError;
use crate::account::gossip::edges::EdgesError;
use crate::account::gossip::threat::GossipError;
use crate::losses::gaussian::GaussianError;

/// The reasons why a figure was not computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PaperError {
    /// The figure needs handwritten digits.
    #[error("this figure needs MNIST's test digits")]
    NoDigits,
    /// There are too few of them.
    #[error("fewer digits than parties to give them to")]
    FewDigits,
    /// The edges of the social graph are refused.
    #[error(transparent)]
    Edges(#[from] EdgesError),
    /// The social graph lacks the node that the paper looks at.
    #[error("has {found} nodes; the paper looks at node {target}")]
    Nodes {
        /// The number of nodes of the graph.
        found: usize,
        /// The node.
        target: usize,
    },
    /// ε, δ or a loss is out of range: our mistake, as all that follows.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
    /// The losses of an execution were not computed.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// A sensitivity under gossip was not computed.
    #[error(transparent)]
    Gossip(#[from] GossipError),
}
