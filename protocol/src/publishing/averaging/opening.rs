//! The opening that a node commits to before anybody averages.

use crate::averaging::entry::FinalEntry;
use crate::averaging::integers;
use crate::averaging::terms::AveragingTerms;
use crate::lattice::grid::LatticeWeight;
use crate::publishing::interface::FinalError;

/// A final's opening and entry: what this node commits to.
pub(super) struct Opening {
    pub(super) values: Vec<i64>,
    pub(super) bytes: Vec<u8>,
    /// The entry.
    pub(super) entry: FinalEntry,
}

impl Opening {
    /// The opening of a gated final: `value` in steps of the lattice.
    ///
    /// # Errors
    /// A coordinate beyond what an opening has room for, which no honest final has.
    pub(super) fn of(
        terms: &AveragingTerms,
        value: impl Iterator<Item = i128>,
        weight: LatticeWeight,
    ) -> Result<Self, FinalError> {
        let wide: Vec<i128> = value.map(|steps| terms.opening(steps)).collect();
        let range = wide.iter().map(|x| x.unsigned_abs()).max().unwrap_or(0);
        let mut bytes = vec![0; wide.len() * terms.opening_bytes];
        let fits = integers::write(wide.iter().copied(), terms.opening_bytes, &mut bytes);
        if !fits || range >= 1 << 47 {
            return Err(FinalError::OwnOpening);
        }
        let entry = FinalEntry::new(weight, range as u64, &bytes);
        Ok(Opening {
            values: wide.into_iter().map(|x| x as i64).collect(),
            bytes,
            entry,
        })
    }
}
