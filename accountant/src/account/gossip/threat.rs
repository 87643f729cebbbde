//! The threat in gossip averaging: the observers and their view, the target's loss, and the reasons
//! why there is no answer.

use serde::Serialize;

use crate::account::answer::{finite, is_false};
use crate::account::gossip::edges::EdgesError;
use crate::account::gossip::weights::WeightsError;

/// Rows that the covariance of what is observed may have at most: 512 MiB, and seconds to
/// factorise.
pub(super) const LARGEST_GRAM: usize = 1 << 13;

/// The observers' view of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObserversView {
    /// The weighted sum over the neighbourhood, as secure summation gives it.
    Sum,
    /// Their own message: state, contribution and noise.
    Messages,
}

/// Whether observers know the noise that they added themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObserversNoise {
    /// Their own noise protects others as all noise does.
    Unknown,
    /// Their own noise protects nobody (SecLDP).
    Known,
}

/// The observers of a run, their view, and for how long they look.
#[derive(Debug, Clone, Copy)]
pub struct Threat<'a> {
    /// The nodes that look, each once.
    pub observers: &'a [usize],
    /// For how many rounds they look.
    pub rounds: usize,
    /// Their view of a round.
    pub view: ObserversView,
    /// Whether they know the noise that they added themselves.
    pub noise: ObserversNoise,
}

/// The squared sensitivity of a target's contributions, at unit sensitivity and unit noise variance
/// a round.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Sensitivity {
    /// A lower bound on the largest squared sensitivity: that of contribution 1 in every round.
    /// Infinite if the contributions are seen without noise.
    #[serde(rename = "sensitivity_squared_lower", serialize_with = "finite")]
    pub lower: f64,
    /// An upper bound on the largest squared sensitivity, for contributions of any dimension. It is
    /// min(1ᵀ|M|1, T λ_max(M)) of the matrix M of [`crate::account::gossip`] and T rounds, rounded
    /// up.
    #[serde(rename = "sensitivity_squared_upper", serialize_with = "finite")]
    pub upper: f64,
    /// Present, and true, if both numbers are infinite.
    #[serde(skip_serializing_if = "is_false")]
    pub unbounded: bool,
}

impl Sensitivity {
    pub(super) const UNBOUNDED: Self = Sensitivity {
        lower: f64::INFINITY,
        upper: f64::INFINITY,
        unbounded: true,
    };
    pub(super) const NONE: Self = Sensitivity {
        lower: 0.0,
        upper: 0.0,
        unbounded: false,
    };
}

/// The reasons why there is no answer about gossip averaging.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GossipError {
    /// The edge list is refused.
    #[error(transparent)]
    Edges(#[from] EdgesError),
    /// The weights are refused.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// No rounds at all.
    #[error("--rounds must be at least 1")]
    Rounds,
    /// A target beyond the graph.
    #[error("--target {found} is out of range: nodes count from 0 to {}", nodes - 1)]
    Target {
        /// The target that was asked for.
        found: usize,
        /// How many nodes the graph has.
        nodes: usize,
    },
    /// An observer beyond the graph.
    #[error("--observers: {found} is out of range: nodes count from 0 to {}", nodes - 1)]
    Observer {
        /// The observer that was asked for.
        found: usize,
        /// How many nodes the graph has.
        nodes: usize,
    },
    /// An observer named twice, or none at all.
    #[error("--observers must name at least one node, each once{}", repeated.map(|node| format!("; {node} is listed twice")).unwrap_or_default())]
    Observers {
        /// The observer that is listed twice; none if nobody is named.
        repeated: Option<usize>,
    },
    /// Matrices of a sequence with different sizes.
    #[error("the weights of round {round} are for {found} nodes, those of round 1 for {expected}")]
    Nodes {
        /// The round with another size, from 1.
        round: usize,
        /// How many nodes that round's weights are for.
        found: usize,
        /// How many nodes the weights of round 1 are for.
        expected: usize,
    },
    /// More than this machine should be asked for.
    #[error(
        "--rounds {rounds} times {observers} observers is too large to account exactly: at most {LARGEST_GRAM} together"
    )]
    TooLarge {
        /// How many rounds were asked for.
        rounds: usize,
        /// How many observers were named.
        observers: usize,
    },
    /// Observations so nearly dependent that rounding has eaten the smallest pivot.
    #[error(
        "the observations of these observers are too nearly dependent to account for in 64-bit arithmetic: leave one of them out"
    )]
    NearlyDependent,
}

impl GossipError {
    /// The flag of the command line at fault.
    pub fn flag(&self) -> &'static str {
        match self {
            GossipError::Edges(_) => "--graph",
            GossipError::Weights(_) | GossipError::Nodes { .. } => "--weights",
            GossipError::Rounds | GossipError::TooLarge { .. } => "--rounds",
            GossipError::Target { .. } => "--target",
            GossipError::Observer { .. } | GossipError::Observers { .. } | GossipError::NearlyDependent => {
                "--observers"
            }
        }
    }
}

impl Threat<'_> {
    pub(super) fn check(&self, nodes: usize) -> Result<(), GossipError> {
        if self.rounds == 0 {
            return Err(GossipError::Rounds);
        }
        let mut sorted = self.observers.to_vec();
        sorted.sort_unstable();
        let repeated = sorted
            .windows(2)
            .find(|pair| pair[0] == pair[1])
            .map(|pair| pair[0]);
        if sorted.is_empty() || repeated.is_some() {
            return Err(GossipError::Observers { repeated });
        }
        if let Some(&found) = self.observers.iter().find(|&&observer| observer >= nodes) {
            return Err(GossipError::Observer { found, nodes });
        }
        match self.rounds.checked_mul(self.observers.len()) {
            Some(size) if size <= LARGEST_GRAM => Ok(()),
            _ => Err(GossipError::TooLarge {
                rounds: self.rounds,
                observers: self.observers.len(),
            }),
        }
    }

    /// Whether `target`'s contributions stand open: it is one of those who know what noise they
    /// added.
    pub(super) fn exposes(&self, target: usize) -> bool {
        self.noise == ObserversNoise::Known && self.observers.contains(&target)
    }

    /// The power of the gossip matrix W in the block of one's own round, and how many rounds say
    /// anything.
    ///
    /// Observers who know their noise know from their messages just θₜ, that is the sums of the
    /// round before.
    pub(super) fn shape(&self) -> Shape {
        match (self.view, self.noise) {
            (ObserversView::Sum, _) => Shape {
                first: 1,
                rounds: self.rounds,
            },
            (ObserversView::Messages, ObserversNoise::Unknown) => Shape {
                first: 0,
                rounds: self.rounds,
            },
            (ObserversView::Messages, ObserversNoise::Known) => Shape {
                first: 1,
                rounds: self.rounds - 1,
            },
        }
    }
}

/// The blocks of H that are not zero, H being the observations as functions of the contributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// The power of the gossip matrix W in the block of one's own round: S W^(t−s+first) for what
    /// observers S see in round t of a contribution in round s.
    pub(super) first: usize,
    /// How many rounds say anything: t and s run from 1 to this.
    pub(super) rounds: usize,
}
