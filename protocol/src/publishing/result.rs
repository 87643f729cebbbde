//! The result of publishing: a sum of finals, and how exact it is.

use std::collections::BTreeSet;

use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::lattice::packed::PackedVector;
use crate::lattice::payload::{Coefficient, Payload, Ratio};
use crate::lattice::vector::LatticeVector;
use crate::mixing::portion::{Portion, Resting};
use crate::plan::checked::Plan;
use crate::topology::party::Party;

/// The largest error of an average, if nobody lied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Each coordinate of the sum is within this of the exact sum of the included finals, in
    /// lattice steps.
    pub steps: f64,
    /// Each coordinate of the result is within this of the exact one, in standard errors.
    pub standard_errors: f64,
    /// Two nodes' averages are within this of each other, in standard errors: this node's own bound
    /// and the largest that another may have, half of the plan's ν.
    pub apart: f64,
}

/// A sum of finals: public.
#[derive(Clone)]
pub struct Sum {
    /// The sum of the states, in lattice steps.
    pub value: LatticeVector,
    /// The sum of the weights.
    pub weight: LatticeWeight,
}

impl std::fmt::Debug for Sum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Sum({} coordinates, weight {})",
            self.value.len(),
            self.weight.0
        )
    }
}

impl Sum {
    /// The sum of these finals; `None` for no final, or where one of them is lacking.
    pub(crate) fn of(
        lattice: &Lattice,
        finals: impl Iterator<Item = Option<Resting<LatticeVector, LatticeWeight>>>,
    ) -> Option<Self> {
        let mut weight = 0;
        let values = finals.map(|it| {
            let Portion { value, weight: own } = it.ok_or(())?;
            weight += own.0;
            Ok::<_, ()>(value)
        });
        let value = sum_of_vectors(values).ok().flatten()?;
        Some(Sum {
            value: lattice.sum(value),
            weight: LatticeWeight(weight),
        })
    }

    /// Whether the sum is one that the parties' values and noise can have: of residues, no further
    /// out than the plan says. Integers that are too large are refused final by final.
    pub(crate) fn is_in_range(&self, lattice: &Lattice) -> bool {
        lattice.ring().is_none() || self.value.within(lattice.own_reach.unsigned_abs())
    }

    /// The sum with its weight: where weights do not travel the plan says what those of `included`
    /// come to.
    pub(crate) fn weighed(self, plan: &Plan, included: &BTreeSet<Party>) -> Self {
        if plan.lattice().ring().is_none() {
            return self;
        }
        let units = included.iter().map(|&party| i128::from(plan.weight_units(party)));
        Sum {
            weight: LatticeWeight(units.sum()),
            ..self
        }
    }
}

/// Number of a sum's vectors in memory at once. Our choice: the sum itself goes through the
/// caches once for all of them.
const SUMMED_AT_ONCE: usize = 4;

/// The sum of vectors; `None` for no vector.
///
/// # Errors
/// That of the first vector that there is none of.
pub(crate) fn sum_of_vectors<E>(
    mut vectors: impl Iterator<Item = Result<PackedVector, E>>,
) -> Result<Option<LatticeVector>, E> {
    let mut sum: Option<LatticeVector> = None;
    loop {
        let some = vectors
            .by_ref()
            .take(SUMMED_AT_ONCE)
            .collect::<Result<Vec<_>, E>>()?;
        let Some(first) = some.first() else {
            return Ok(sum);
        };
        let each: Vec<_> = some.iter().map(|vector| (Ratio::one(), vector)).collect();
        sum.get_or_insert_with(|| LatticeVector::zero_like(first))
            .add_multiples(&each);
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    use super::*;
    use crate::simulator::cluster::tests::plan;

    /// A sum into which something uniformly random went is out of range in some coordinate, but for
    /// a chance of 2^-40.
    #[test]
    fn a_corrupted_sum_of_residues_is_out_of_range() {
        let plan = plan(8, "[mechanism]\ncorrelated = \"uniform\"", 3);
        let lattice = plan.lattice();
        let ring = lattice.ring().expect("a ring");
        let sum = |steps: [i128; 2]| Sum {
            value: lattice.vector(steps.into_iter()),
            weight: LatticeWeight(0),
        };
        let most = lattice.own_reach;
        assert!(sum([most, -most]).is_in_range(lattice) && sum([0, 7]).is_in_range(lattice));
        assert!(!sum([most + 1, 0]).is_in_range(lattice) && !sum([0, -most - 1]).is_in_range(lattice));
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2000 {
            let mut corrupted = sum([5, -9]);
            corrupted.value.add(&LatticeVector::uniform(ring, 2, &mut rng));
            assert!(!corrupted.is_in_range(lattice));
        }
    }
}
