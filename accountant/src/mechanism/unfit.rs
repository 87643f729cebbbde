//! Errors for runs that a mechanism cannot be accounted for.

use undertone_protocol::lattice::injection::InjectionError;
use undertone_protocol::topology::party::Party;

/// The reasons why a mechanism refuses a run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// A run without a round.
    #[error("must be at least 1")]
    NoRounds,
    /// More than this machine should be asked for.
    #[error("{size} must be at most {most}: this is too large to account exactly")]
    TooLarge {
        /// The key of the execution file at fault.
        place: &'static str,
        /// The product that is too large, in words.
        size: &'static str,
        /// The largest product allowed.
        most: usize,
    },
    /// A hand-over to several parties at once.
    #[error("party {from} sends to more than one party: with PPSC to one at most")]
    Receivers {
        /// The party that sends to several.
        from: Party,
    },
    /// Shares of the value, INCA's c, for another number of rounds.
    #[error("has {found} entries, expected {expected}: one more than rounds")]
    ValueShares {
        /// How many shares of the value there are.
        found: usize,
        /// How many there must be: one more than rounds.
        expected: usize,
    },
    /// An injection (c, Z) that is not valid.
    #[error(transparent)]
    Injection(#[from] InjectionError),
}

impl Unfit {
    /// The key of the execution file at fault.
    pub fn place(&self) -> &'static str {
        match self {
            Unfit::NoRounds => "rounds",
            Unfit::TooLarge { place, .. } => place,
            Unfit::Receivers { .. } => "out",
            Unfit::ValueShares { .. } => "injection.c",
            Unfit::Injection(_) => "injection",
        }
    }
}
