//! Invariant 1, mass: Σ states + shares on the way + lost = Σ injections so far, to the bit, at
//! every event; after roll-back Σ finals of the agreed set = Σ x̃ over it.
//! (protocol/docs/phases.md)

use crate::lattice::payload::Payload;
use crate::lattice::vector::LatticeVector;
use crate::simulator::invariants::violation::Violation;

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
    if held == injected {
        Ok(())
    } else {
        Err(Violation::new("mass", "what is held is not what was injected"))
    }
}

/// The largest difference of two vectors' coordinates, in steps; ∞ if they have different lengths.
pub fn largest_difference(a: &LatticeVector, b: &LatticeVector) -> f64 {
    match a.len() == b.len() {
        true => a
            .steps()
            .zip(b.steps())
            .map(|(a, b)| a.abs_diff(b) as f64)
            .fold(0.0, f64::max),
        false => f64::INFINITY,
    }
}

/// Checks that an average × its number is within `steps` of what its parties entered.
pub fn check_average<'a>(
    sum: &LatticeVector,
    entered: impl IntoIterator<Item = &'a LatticeVector>,
    steps: f64,
) -> Result<(), Violation> {
    let exact = entered.into_iter().cloned().reduce(|mut sum, vector| {
        sum.add(&vector);
        sum
    });
    match exact {
        Some(exact) if largest_difference(sum, &exact) <= steps => Ok(()),
        _ => Err(Violation::new(
            "mass",
            "an average is further from what was entered than it says",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::cluster::tests::{integers, plan};

    #[test]
    fn one_step_too_much_or_too_little_is_seen() {
        let plan = plan(4, "", 3);
        let vector = |steps: [i128; 2]| integers(&plan, &steps);
        let injected = [vector([5, -3]), vector([1, 1])];
        assert_eq!(check(&[vector([4, 0]), vector([2, -2])], &injected), Ok(()));
        assert!(
            check(&[vector([4, 0]), vector([2, -1])], &injected).is_err(),
            "created"
        );
        assert!(check(&[vector([4, 0])], &injected).is_err(), "lost");
        assert!(check(&[], &injected).is_err());
    }

    #[test]
    fn an_average_that_is_off_by_more_than_it_says_is_seen() {
        let plan = plan(4, "", 3);
        let grid = plan.lattice().value_grid() as f64;
        let vector = |steps: [i128; 2]| integers(&plan, &steps);
        let entered = [vector([5, -3]), vector([1, 1])];
        assert_eq!(check_average(&vector([6, -2]), &entered, 0.0), Ok(()));
        assert_eq!(check_average(&vector([6, -3]), &entered, grid), Ok(()));
        assert!(check_average(&vector([6, -4]), &entered, grid).is_err());
        assert!(check_average(&vector([6, -2]), &[], grid).is_err());
    }
}
