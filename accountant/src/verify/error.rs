//! The reasons why a plan's claims are refused.

use undertone_protocol::lattice::injection::InjectionError;

use crate::class::claim_error::ClaimError;
use crate::execution::error::ExecutionError;
use crate::losses::gaussian::GaussianError;

/// The reasons why a plan's claims are refused. Always the plan's fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum VerifyError {
    /// A claim of a smaller loss than the true one.
    #[error("claims[{index}] ({what}): the plan says mu {claimed}, its own schedule and noise give {found}")]
    Loss {
        /// Index of the claim in the plan's list.
        index: usize,
        /// The claim, in words.
        what: String,
        /// The value that the plan states.
        claimed: f64,
        /// The value that follows from the plan's own schedule and noise.
        found: f64,
    },
    /// A claim whose ε does not follow from its loss μ.
    #[error(
        "claims[{index}] ({what}): epsilon {claimed} is below {found}, which follows from its mu at its delta"
    )]
    Epsilon {
        /// Index of the claim in the plan's list.
        index: usize,
        /// The claim, in words.
        what: String,
        /// The value that the plan states.
        claimed: f64,
        /// The value that follows from the plan's own schedule and noise.
        found: f64,
    },
    /// A claim for another δ than the plan's privacy target.
    #[error("claims[{index}] ({what}): delta {claimed} is not the plan's delta {expected}")]
    Delta {
        /// Index of the claim in the plan's list.
        index: usize,
        /// The claim, in words.
        what: String,
        /// The δ of the plan's claim.
        claimed: f64,
        /// The δ of the plan's privacy target.
        expected: f64,
    },
    /// A claim that leaves out what sampling its noise adds to δ.
    #[error(
        "claims[{index}] ({what}): sampling_delta {claimed:e} is below {found:e}, what the plan's lattice adds to delta"
    )]
    Sampling {
        /// Index of the claim in the plan's list.
        index: usize,
        /// The claim, in words.
        what: String,
        /// The value that the plan states.
        claimed: f64,
        /// The value that follows from the plan's own lattice.
        found: f64,
    },
    /// A claim that this version cannot establish.
    #[error("claims[{index}] ({what}): this cannot be established for this plan")]
    Unknown {
        /// Index of the claim in the plan's list.
        index: usize,
        /// The claim, in words.
        what: String,
    },
    /// A headline for smaller coalitions than the plan's privacy target names.
    #[error("claims[{index}] ({what}): it holds as headline, but privacy.colluding is {colluding}")]
    Size {
        /// Index of the claim in the plan's list.
        index: usize,
        /// The claim, in words.
        what: String,
        /// The parties of a coalition that the plan's privacy target names.
        colluding: usize,
    },
    /// A plan without one of the claims that are proved of all others together.
    #[error("claims: no theorem covers {faults} against all other parties together; plan again")]
    NoTheorem {
        /// The fault set, in words.
        faults: &'static str,
    },
    /// No sure claim for a fault set.
    #[error("claims: none that holds as headline covers {faults}")]
    Missing {
        /// The fault set, in words.
        faults: &'static str,
    },
    /// The headline exceeds the target.
    #[error("privacy.epsilon: the plan promises {promised}, its claims only hold for {found}")]
    Budget {
        /// The ε of the plan's privacy target.
        promised: f64,
        /// The ε of its headline.
        found: f64,
    },
    /// A loss that machines may judge differently.
    #[error(
        "privacy.epsilon: a loss that the gate may meet, mu {loss}, is within 1e-9 of the budget's {budget}, where two machines may decide differently; plan again, or with another epsilon"
    )]
    Clearance {
        /// The loss.
        loss: f64,
        /// The loss that ε and δ allow one release.
        budget: f64,
    },
    /// A predicted number that does not follow from the plan.
    #[error("predicted.{field}: the plan says {claimed:?}, its own schedule and noise give {found:?}")]
    Predicted {
        /// The key of the number.
        field: &'static str,
        /// The value that the plan states, if it does.
        claimed: Option<f64>,
        /// The value that follows from the plan's own schedule and noise.
        found: Option<f64>,
    },
    /// Noise that is not that of the theorem which the plan names.
    #[error("mechanism.pairwise_std: the plan says {claimed}, the theorem that it names gives {found:?}")]
    PairwiseStd {
        /// The value that the plan states.
        claimed: f64,
        /// The value that the theorem gives, if it gives any.
        found: Option<f64>,
    },
    /// The injection is refused.
    #[error(transparent)]
    Injection(#[from] InjectionError),
    /// The schedule is refused.
    #[error(transparent)]
    Execution(#[from] ExecutionError),
    /// The plan's numbers allow no claim.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// ε or δ out of range.
    #[error(transparent)]
    Gaussian(#[from] GaussianError),
}
