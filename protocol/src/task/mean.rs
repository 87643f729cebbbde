//! The weighted mean of the parties' vectors: one release, and its sum divided by its weight.

use std::sync::Arc;

use crate::agreement::shelf::Shelf;
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::Noise;
use crate::plan::checked::Plan;
use crate::publishing::result::Sum;
use crate::run::interface::{Input, InputError, Output};
use crate::run::machine::{Identity, Run};
use crate::time::Time;

/// One node's part in a mean: its run, whose inputs, outputs and outcome are the task's.
pub struct Mean {
    run: Run,
}

impl Mean {
    /// This node's part; `value` is its clipped, rounded vector with its own noise.
    pub(super) fn new(plan: Arc<Plan>, identity: Identity, value: Noisy, noise: Noise, now: Time) -> Self {
        Mean {
            run: Run::new(plan, identity, value, noise, now),
        }
    }

    pub(super) fn shelving(self, shelf: &Shelf) -> Self {
        Mean {
            run: self.run.shelving(shelf),
        }
    }

    pub(super) fn handle(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        self.run.handle(now, input)
    }

    pub(super) fn oversleeps(&mut self, missed_ms: u64, now: Time) -> bool {
        self.run.oversleeps(missed_ms, now)
    }

    pub(super) fn poll_output(&mut self) -> Output {
        self.run.poll_output()
    }

    pub(super) fn release(&self) -> &Run {
        &self.run
    }

    /// The mean that a sum of finals comes to, or the sum where the plan releases sums, per
    /// coordinate and in the data's unit.
    pub fn of_sum(plan: &Plan, sum: &Sum) -> Vec<f64> {
        let lattice = plan.lattice();
        let weight = lattice.weight_to_f64(sum.weight.0);
        let factor = lattice.step() / plan.draft().computation.result().divisor(weight);
        let mut mean = sum.value.to_f64(factor);
        if plan.scales().differ() {
            let scaled = mean.iter_mut().enumerate();
            scaled.for_each(|(i, value)| *value *= plan.scales().at(i));
        }
        mean
    }
}
