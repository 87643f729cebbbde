//! A party's iterates in PPSC's outer recursions: its step from the mean of all states, with rows
//! that never leave it.

use std::path::Path;
use std::sync::Arc;

use undertone_protocol::clipping::contribution::Clipped;
use undertone_protocol::mixing::noisy::Noisy;
use undertone_protocol::model::local_step::{LocalStep, PrivateRows};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::computation::recursion::RecursionSettings;
use undertone_protocol::topology::party::Party;

use crate::party::contributor::Contributor;
use crate::reporting::failure::Failure;

/// A party with its rows: equations hᵀx = z, or features with a target.
pub(super) struct Solver {
    plan: Arc<Plan>,
    me: Party,
    step: LocalStep,
}

impl Solver {
    /// The party with these rows, of the plan's columns; none where the plan has no outer
    /// iterations.
    ///
    /// # Errors
    /// A target that the loss does not know (exit 7); no value is reported.
    pub(super) fn of(
        plan: &Arc<Plan>,
        me: Party,
        values: &[f64],
        path: &Path,
    ) -> Result<Option<Self>, Failure> {
        let Some(outer) = plan.draft().computation.recursion() else {
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
            me,
            step,
        }))
    }
}

/// Refuses a target that the loss does not know.
fn check_targets(outer: &RecursionSettings, rows: &PrivateRows, path: &Path) -> Result<(), Failure> {
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
    fn contribution(&mut self, iteration: u32, released: &[f64]) -> Noisy {
        let mut state = released.to_vec();
        match iteration {
            1 => self.step.begin(&mut state),
            k => self.step.apply(u64::from(k), &mut state),
        }
        // The recursion's noise is that of its exchanges: an iterate leaves without its own.
        Noisy::exposed_without_noise(Clipped::of(&self.plan, self.me, state).0)
    }

    fn conclude(&mut self, _: Option<&[f64]>) {}
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::testing::plan_of;

    fn plan(lines: &str, recursion: &str) -> Arc<Plan> {
        let text = format!(
            "name = \"t\"\n{lines}\n[recursion]\niterations = 3\naccuracy = 1e-2\n{recursion}\n\
             [mechanism]\naccept_exact_sum = true\n"
        );
        Arc::new(plan_of(&text, 4, Some(1)))
    }

    fn iterates(plan: &Arc<Plan>, row: &[f64]) -> Vec<Vec<f64>> {
        let solver = Solver::of(plan, 0, row, Path::new("rows.csv"));
        let mut solver = solver.expect("usable").expect("a recursion");
        let state = vec![0.25; row.len() - 1];
        let contribution = |k| {
            solver
                .contribution(k, &state)
                .vector()
                .to_f64(plan.lattice().step())
        };
        (1..=3).map(contribution).collect()
    }

    /// Each iterate is the projection of what was released, as it is, on the lattice.
    #[test]
    fn iterates_solve_the_party_s_equation() {
        let plan = plan("task = \"linear-equations\"\n[data]\nshape = [3]", "");
        for state in iterates(&plan, &[1.0, 1.0, 2.0]) {
            let cell = plan.lattice().value_step();
            assert!((state[0] + state[1] - 2.0).abs() < 4.0 * cell, "{state:?}");
            assert!(
                (state[0] - state[1]).abs() < 4.0 * cell,
                "nearest to where it was: {state:?}"
            );
        }
    }

    /// Rows that lead out of the range, or nowhere, do not take the state there.
    #[test]
    fn iterates_stay_within_their_range() {
        let boxed = "task = \"linear-equations\"\n[data]\nshape = [3]\n\
                     clip = { kind = \"box\", low = 1, high = 2 }";
        let plan = plan(boxed, "");
        for row in [
            [1.0, 0.0, 1e9],
            [1.0, 0.0, -1e9],
            [1e200, 1e200, 1e200],
            [0.0, 0.0, 0.0],
        ] {
            for state in iterates(&plan, &row) {
                assert!(
                    state.iter().all(|x| (1.0..=2.0).contains(x)),
                    "{row:?}: {state:?}"
                );
            }
        }
    }

    #[test]
    fn a_target_that_the_loss_does_not_know_is_refused_without_its_value() {
        let plan = plan("task = \"optimise\"\n[data]\nshape = [2]", "loss = \"logistic\"");
        let refused = Solver::of(&plan, 0, &[0.5, 7.25], Path::new("rows.csv"))
            .err()
            .expect("7.25");
        assert!(
            refused.message.contains("row 1") && !refused.message.contains("7.25"),
            "{}",
            refused.message
        );
        assert!(Solver::of(&plan, 0, &[0.5, 1.0], Path::new("rows.csv")).is_ok_and(|it| it.is_some()));
    }
}
