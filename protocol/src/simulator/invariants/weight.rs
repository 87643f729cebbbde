//! Invariant 2, weight: as mass, with weights. (protocol/docs/phases.md)

use crate::lattice::grid::LatticeWeight;
use crate::simulator::invariants::violation::Violation;

/// Checks that the weights held (in states, on the way, lost) add up to those injected.
pub fn check(
    held: impl IntoIterator<Item = LatticeWeight>,
    injected: impl IntoIterator<Item = LatticeWeight>,
) -> Result<(), Violation> {
    let sum = |weights: &mut dyn Iterator<Item = LatticeWeight>| weights.map(|weight| weight.0).sum::<i128>();
    let (held, injected) = (sum(&mut held.into_iter()), sum(&mut injected.into_iter()));
    if held == injected {
        Ok(())
    } else {
        Err(Violation::new(
            "weight",
            format!("{held} is held, {injected} was injected"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_that_appears_or_vanishes_is_seen() {
        let weights = |list: &[i128]| list.iter().copied().map(LatticeWeight).collect::<Vec<_>>();
        assert_eq!(check(weights(&[3, -1]), weights(&[1, 1])), Ok(()));
        assert!(check(weights(&[3]), weights(&[1, 1])).is_err());
    }
}
