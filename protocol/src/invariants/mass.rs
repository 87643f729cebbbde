//! Invariant 1, mass: Σ states + shares on the way + lost = Σ injections so far, to the bit, at every event; after roll-back
//! Σ finals of the agreed set = Σ x̃ over it. (DESIGN, section 7.)

use super::Violation;
use crate::lattice::LatticeVector;
use crate::payload::Payload;

/// Checks that `held` (states, and shares on the way or lost) adds up to `injected`.
pub fn check<'a>(
    held: impl IntoIterator<Item = &'a LatticeVector>,
    injected: impl IntoIterator<Item = &'a LatticeVector>,
) -> Result<(), Violation> {
    let sum = |vectors: &mut dyn Iterator<Item = &'a LatticeVector>| {
        vectors.fold(None::<LatticeVector>, |sum, vector| {
            Some(match sum {
                None => vector.clone(),
                Some(mut sum) => {
                    sum.add(vector);
                    sum
                }
            })
        })
    };
    let (held, injected) = (sum(&mut held.into_iter()), sum(&mut injected.into_iter()));
    if held == injected { Ok(()) } else { Err(Violation::new("mass", "what is held is not what was injected")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::tests::{integers, plan};

    #[test]
    fn one_step_too_much_or_too_little_is_seen() {
        let plan = plan(4, "", 3);
        let vector = |steps: [i128; 2]| integers(&plan, &steps);
        let injected = [vector([5, -3]), vector([1, 1])];
        assert_eq!(check(&[vector([4, 0]), vector([2, -2])], &injected), Ok(()));
        assert!(check(&[vector([4, 0]), vector([2, -1])], &injected).is_err(), "created");
        assert!(check(&[vector([4, 0])], &injected).is_err(), "lost");
        assert!(check(&[], &injected).is_err());
    }
}
