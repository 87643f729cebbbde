//! The reasons why no claim can be stated.

use undertone_protocol::lattice::injection::InjectionError;

use crate::execution::error::ExecutionError;
use crate::losses::gaussian::GaussianError;

/// The largest r = σ_Δ²/σ*² that calibration looks for (σ* the deviation of a party's own noise,
/// σ_Δ that of the noise that cancels).
pub(crate) const LARGEST_RATIO: f64 = 1e6;

/// σ_Δ²/σ*² up to which losses are stated: what calibration looks for, and its rounding. Beyond,
/// what the sum of the finals says of a value drowns in the rounding of what has cancelled in it:
/// at 1e7 fast paths are in doubt now and then, at 1e12 they were seen to be off by 3e-4.
pub(crate) const MOST_RATIO: f64 = LARGEST_RATIO * (1.0 + 1e-6);

/// The reasons why a plan's numbers cannot be stated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClaimError {
    /// ε or δ out of range.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
    /// The schedule or the injection is refused.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// The injection is refused.
    #[error(transparent)]
    Injection(InjectionError),
    /// Without independent noise nothing but computing every system bounds the loss, and these are
    /// too many.
    #[error(
        "there are too many coalitions and faults to compute them all, and without independent noise no theorem stands in"
    )]
    TooMany,
    /// A noise of nothing, or noises of sizes that have nothing to do with each other.
    #[error(
        "mechanism: independent_std and correlated_std must be positive numbers, the second at most {} times the first, found {independent_std} and {correlated_std}",
        LARGEST_RATIO.sqrt()
    )]
    Noise {
        /// The deviation σ* of a party's own noise.
        independent_std: f64,
        /// The deviation σ_Δ of the noise that cancels.
        correlated_std: f64,
    },
}
