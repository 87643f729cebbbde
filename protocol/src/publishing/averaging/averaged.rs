//! What averaging comes to: a mean and its bound, or none.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::lattice::grid::LatticeWeight;
use crate::topology::party::Party;

/// What averaging came to.
#[derive(Clone, Debug)]
pub(super) struct Averaged {
    /// Whose finals are in the mean.
    pub(super) included: BTreeSet<Party>,
    /// The mean with its bound; none if none was verified.
    pub(super) mean: Option<Arc<VerifiedMean>>,
    /// Whether these are all of E's, the bound is within ν/2, and a quorum says that it holds a
    /// mean [near](crate::averaging::sketch) to this one.
    pub(super) whole: bool,
    /// Where no quorum does, who says that it holds another one: somebody has lied, and no bound is
    /// known.
    pub(super) contradicted: BTreeSet<Party>,
}

/// A verified mean.
#[derive(Clone)]
pub(super) struct VerifiedMean {
    /// An average of openings × their number: about the sum of finals, in steps of the lattice.
    pub(super) sum: Vec<i128>,
    /// Σ of the weights, exact.
    pub(super) weight: LatticeWeight,
    /// Each coordinate of `sum` is within this of the exact sum of the finals, in steps.
    pub(super) steps: f64,
    /// Each coordinate of the result is within this of the exact one, in standard errors.
    pub(super) standard_errors: f64,
}

impl std::fmt::Debug for VerifiedMean {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "VerifiedMean({} coordinates, within {})",
            self.sum.len(),
            self.standard_errors
        )
    }
}
