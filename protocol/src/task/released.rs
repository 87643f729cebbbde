//! What the sums that a training has released come to: what everybody's next contribution is
//! computed from.

use crate::model::descent::Descent;
use crate::plan::checked::Plan;
use crate::publishing::result::Sum;
use crate::task::mean::Mean;

/// The state of a training that follows from its plan and its sums alone; the same at all nodes, to
/// the bit. There is one variant a task.
pub(super) enum Released {
    /// Sums of gradients are steps of a model.
    Model(Descent),
    /// Sums of what programs hand over are means, each for itself.
    Mean {
        /// The latest one; empty before the first.
        latest: Vec<f64>,
        /// Sums so far, those that were given up included.
        sums: u64,
    },
}

impl Released {
    /// Before the first sum: a model is zero, and there is no mean.
    ///
    /// # Panics
    /// If the plan has a model whose set is none: no checked plan has.
    pub(super) fn before(plan: &Plan) -> Self {
        let Some(model) = &plan.draft().model else {
            return Released::Mean {
                latest: vec![],
                sums: 0,
            };
        };
        let terms = model.course().expect("the plan is checked");
        Released::Model(Descent::new(terms, vec![0.0; model.parameters()]))
    }

    /// Takes the sum of those who are in it.
    pub(super) fn take(&mut self, plan: &Plan, sum: &Sum) {
        match self {
            Released::Model(descent) => {
                let lattice = plan.lattice();
                let (step, rows) = (lattice.step(), lattice.weight_to_f64(sum.weight.0));
                descent.step(sum.value.steps().map(|word| word as f64 * step), rows);
            }
            Released::Mean { latest, sums } => {
                *latest = Mean::of_sum(plan, sum);
                *sums += 1;
            }
        }
    }

    /// A sum is of no use: what there was stays, and counts once more.
    pub(super) fn stay(&mut self) {
        match self {
            Released::Model(descent) => descent.stay(),
            Released::Mean { sums, .. } => *sums += 1,
        }
    }

    /// What the next contributions are computed from: the model, or the latest mean, which is empty
    /// before the first.
    pub(super) fn latest(&self) -> &[f64] {
        match self {
            Released::Model(descent) => descent.model(),
            Released::Mean { latest, .. } => latest,
        }
    }

    /// How many sums there have been.
    pub(super) fn sums(&self) -> u64 {
        match self {
            Released::Model(descent) => descent.iterations(),
            Released::Mean { sums, .. } => *sums,
        }
    }

    /// What the training comes to: the mean of the last models, or the last mean. None before
    /// there is one.
    pub(super) fn result(&self) -> Option<Vec<f64>> {
        match self {
            Released::Model(descent) => (descent.iterations() > 0).then(|| descent.result()),
            Released::Mean { latest, .. } => (!latest.is_empty()).then(|| latest.clone()),
        }
    }
}
