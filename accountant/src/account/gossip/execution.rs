//! `account gossip --execution`: what a coalition learned in a run of gossip averaging.

use std::collections::BTreeMap;

use serde::Serialize;
use undertone_protocol::topology::party::Party;

use crate::account::answer::{AccountError, check_scale};
use crate::execution::gossip::GossipRun;
use crate::execution::gossip_file::MOST_NOISES;
use crate::losses::contributions::ContributionLoss;
use crate::losses::gaussian;

/// The answer of `account gossip --execution`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GossipAccount {
    /// The largest loss μ over parties outside of the coalition, if all contributions of a party
    /// may change: the root of the largest `upper`.
    pub mu: f64,
    /// ε of the loss `mu` at `delta`.
    pub epsilon: f64,
    /// The δ that was asked for.
    pub delta: f64,
    /// The squared losses of each party outside of the coalition, the squared sensitivity included.
    pub losses: BTreeMap<Party, ContributionLoss>,
    /// The error that noise adds to the estimates, see
    /// [`GossipOutcome`](crate::execution::gossip::GossipOutcome); null if nobody is there in the
    /// last round.
    pub noise_error: Option<f64>,
    /// The error that unequal weights add to the estimates, see
    /// [`GossipOutcome`](crate::execution::gossip::GossipOutcome); null if nobody is there in the
    /// last round.
    pub weight_error: Option<f64>,
}

/// The reasons why there is no answer about a run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GossipAccountError {
    /// The file or a flag is refused.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// Rounding has eaten the smallest of what is seen.
    #[error(
        "what the coalition sees is too nearly dependent to account for in 64-bit arithmetic \
         (at most {MOST_NOISES} noises): leave a member out, or a round"
    )]
    NearlyDependent,
}

/// The losses in a run (a file, see [`GossipRun::parse`]) of contributions of this sensitivity.
///
/// # Errors
/// The file, the sensitivity or δ is refused, or what is seen is too nearly dependent.
pub fn run(text: &str, sensitivity: f64, delta: f64) -> Result<GossipAccount, GossipAccountError> {
    let run = GossipRun::parse(text).map_err(AccountError::from)?;
    check_scale("--sensitivity", sensitivity)?;
    gaussian::epsilon(delta, 0.0).map_err(AccountError::from)?;
    let outcome = run.outcome().map_err(|_| GossipAccountError::NearlyDependent)?;
    let square = sensitivity * sensitivity;
    let scaled = |(party, loss): (Party, ContributionLoss)| (party, loss.times(square));
    let losses: BTreeMap<Party, ContributionLoss> = outcome.losses.into_iter().map(scaled).collect();
    let worst = losses.values().map(|loss| loss.upper).fold(0.0, f64::max);
    let mu = worst.sqrt() * (1.0 + gaussian::SLACK);
    Ok(GossipAccount {
        mu,
        epsilon: gaussian::epsilon(delta, mu).map_err(AccountError::from)?,
        delta,
        losses,
        noise_error: outcome.noise_error,
        weight_error: outcome.weight_error,
    })
}
