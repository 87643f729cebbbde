//! Runs of PPSC on numbers, beside those on unit impulses that all losses come from.

use undertone_protocol::mixing::machine::Mixing;
use undertone_protocol::mixing::portion::NoiseSource;

use crate::execution::checked::Execution;
use crate::execution::trace::rerun;

/// A party's noises γ, one a hand-out, as given.
struct Given<F> {
    party: usize,
    noise: F,
}

impl<F: Fn(usize, usize) -> f64> NoiseSource<f64> for Given<&F> {
    fn draw(&mut self, k: usize, _round: u32) -> f64 {
        (self.noise)(self.party, k)
    }
}

/// The final states of a run from these values, `noise(i, k)` being γ of party i's k-th hand-out.
pub(super) fn finals(execution: &Execution, values: &[f64], noise: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let mut noises: Vec<Given<_>> = (0..execution.parties())
        .map(|party| Given { party, noise: &noise })
        .collect();
    let machine = |(party, source): (usize, &mut Given<_>)| {
        Mixing::<f64, f64>::new(
            execution.machine(party),
            values[party],
            1.0,
            !execution.rolled_back().is_empty(),
            source,
        )
    };
    let machines = noises.iter_mut().enumerate().map(machine).collect();
    let finals = rerun(execution, machines, &mut noises, |_, _| false, |_, _, _| {});
    finals.into_iter().map(|portion| portion.value).collect()
}
