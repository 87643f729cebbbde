//! The change that many releases make to a plan's statements: those of a training, whose iterations
//! are all released.

use undertone_protocol::plan::claim::{Claim, Faults};
use undertone_protocol::plan::draft::Draft;

use crate::losses::gaussian::{self, GaussianError};
use crate::losses::releases::together;

/// The claims of all of a draft's releases together, from those of one.
///
/// A coalition is fixed for the whole training, and so are those who depart: a release's loss is
/// what the claim says whoever they are, so that squares add up. What leaves before publishing is
/// that of one release: all before it are published.
pub(crate) fn over_releases(draft: &Draft, claims: Vec<Claim>) -> Result<Vec<Claim>, GaussianError> {
    let releases = draft.protected_releases();
    if releases <= 1 {
        return Ok(claims);
    }
    let of_all = |claim: Claim| {
        if claim.faults == Faults::BeforePublishing {
            return Ok(claim);
        }
        let mu = together(claim.mu, releases);
        Ok(Claim {
            mu,
            epsilon: gaussian::epsilon(claim.delta, mu)?,
            ..claim
        })
    };
    claims.into_iter().map(of_all).collect()
}
