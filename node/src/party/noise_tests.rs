//! The noise that contributions leave with, held against the plan's by χ². Seeds are fixed.

use undertone_protocol::plan::checked::Plan;

use crate::party::contributor::Contributor;

/// Coordinates of a contribution: enough to see a standard deviation that is 4 % off.
pub(super) const COORDINATES: usize = 10_000;

/// Asserts that a contributor of zeros sends the planned noise, fresh each time, in iterations 1, 2
/// and 5.
pub(super) fn assert_planned_noise(plan: &Plan, party: &mut impl Contributor, released: &[f64], what: &str) {
    let drawn: Vec<Vec<f64>> = [1, 2, 5]
        .map(|iteration| {
            let value = party.contribution(iteration, released);
            in_deviations(plan, &value.vector().steps().collect::<Vec<i128>>())
        })
        .into();
    drawn.iter().for_each(|drawn| assert_normal(drawn, what));
    for pair in [[0, 1], [0, 2], [1, 2]] {
        let products = drawn[pair[0]].iter().zip(&drawn[pair[1]]);
        let mean = products.map(|(a, b)| a * b).sum::<f64>() / COORDINATES as f64;
        // Independent normal variates: off by 1/√count.
        let allowed = 5.0 / (COORDINATES as f64).sqrt();
        assert!(mean.abs() < allowed, "{what}: noise is used twice: {mean}");
    }
}

/// The message's coordinates, without what stands beside it for readers, in deviations of the
/// plan's noise.
pub(super) fn in_deviations(plan: &Plan, steps: &[i128]) -> Vec<f64> {
    let unit = plan.lattice().step() / plan.calibration().independent_std;
    steps[..COORDINATES]
        .iter()
        .map(|&step| step as f64 * unit)
        .collect()
}

/// Asserts that these are standard normal variates, by their sum of squares: beyond 5 of its
/// deviations √(2N) with a chance of 6e-7.
pub(super) fn assert_normal(drawn: &[f64], what: &str) {
    let squares: f64 = drawn.iter().map(|z| z * z).sum();
    let (ratio, allowed) = (
        squares / drawn.len() as f64,
        5.0 * (2.0 / drawn.len() as f64).sqrt(),
    );
    assert!(
        (ratio - 1.0).abs() < allowed,
        "{what}: variance {ratio} of the planned"
    );
}
