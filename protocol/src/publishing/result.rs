//! What publishing comes to: a sum of finals, and how exact it is.

use crate::lattice::grid::{Lattice, LatticeWeight};
use crate::lattice::payload::{Coefficient, Payload, Ratio};
use crate::lattice::vector::LatticeVector;
use crate::mixing::portion::Share;

/// What a verified result is known to be off by; ∞ if somebody says that it holds another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Each coordinate of the sum is within this of the exact sum of the included finals, in
    /// lattice steps.
    pub steps: f64,
    /// Each coordinate of the result is within this of the exact one, in standard errors.
    pub standard_errors: f64,
    /// Two nodes that say `agreed` are within this of each other, in standard errors, if nobody
    /// lied: this node's own bound and the largest that another may have, half of the plan's ν. Of
    /// lies, [`sketch`](crate::averaging::sketch) says what comparing shows.
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
    /// The sum of these finals; none for no final.
    pub(crate) fn of(lattice: &Lattice, finals: &[Share<LatticeVector, LatticeWeight>]) -> Option<Self> {
        let mut value = LatticeVector::zero_like(&finals.first()?.value);
        value.add_multiples(
            &finals
                .iter()
                .map(|it| (Ratio::one(), &it.value))
                .collect::<Vec<_>>(),
        );
        Some(Sum {
            value: lattice.sum(value),
            weight: LatticeWeight(finals.iter().map(|it| it.weight.0).sum()),
        })
    }
}
