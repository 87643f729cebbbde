//! A party's iterates in PPSC's outer recursions: its step from the mean of all states, with rows
//! that never leave it.

use std::path::Path;
use std::sync::Arc;

use undertone_protocol::lattice::vector::LatticeVector;
use undertone_protocol::model::local_step::{LocalStep, PrivateRows};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::run_file::outer::OuterSettings;
use undertone_protocol::plan::run_file::settings::Clip;

use crate::party::contributor::Contributor;
use crate::telling::failure::Failure;

/// A party with its rows: equations hᵀx = z, or features with a target.
pub(super) struct Solver {
    plan: Arc<Plan>,
    step: LocalStep,
}

impl Solver {
    /// The party with these rows, of the plan's columns; none where the plan has no outer
    /// iterations.
    ///
    /// # Errors
    /// A target that the loss does not know (exit 7); no value is told.
    pub(super) fn of(plan: &Arc<Plan>, values: &[f64], path: &Path) -> Result<Option<Self>, Failure> {
        let Some(outer) = &plan.draft().outer else {
            return Ok(None);
        };
        let rows = values.chunks_exact(outer.columns);
        let rows = PrivateRows {
            features: rows
                .clone()
                .map(|row| row[..outer.dimension()].to_vec())
                .collect(),
            targets: rows.map(|row| row[outer.dimension()]).collect(),
        };
        check_targets(outer, &rows, path)?;
        let step = outer.local_step(rows);
        Ok(Some(Solver {
            plan: plan.clone(),
            step,
        }))
    }
}

/// Refuses a target that the loss does not know.
fn check_targets(outer: &OuterSettings, rows: &PrivateRows, path: &Path) -> Result<(), Failure> {
    let Some(loss) = outer.loss() else {
        return Ok(());
    };
    match rows.targets.iter().position(|&target| !loss.knows(target)) {
        None => Ok(()),
        Some(at) => Err(Failure::input(format!(
            "{}: the target of row {} is none that loss = \"logistic\" knows",
            path.display(),
            at + 1
        ))
        .field("--input")
        .hint("write 0 or 1 into the last column of every row")),
    }
}

impl Contributor for Solver {
    fn contribution(&mut self, iteration: u32, released: &[f64]) -> LatticeVector {
        let mut state = released.to_vec();
        match iteration {
            1 => self.step.begin(&mut state),
            k => self.step.apply(u64::from(k), &mut state),
        }
        if let Clip::Box { low, high } = &self.plan.draft().data.clip {
            let within = state.iter_mut().enumerate();
            within.for_each(|(at, x)| *x = x.clamp(low.at(at), high.at(at)));
        }
        self.plan.lattice().encode(state.into_iter())
    }

    fn conclude(&mut self, _: Option<&[f64]>) {}
}
