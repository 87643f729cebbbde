//! Graphs that change from round to round (first version, appendix E): states zₜ = θₜ + xₜ + uₜ,
//! contributions xₜ, noise uₜ, θₜ₊₁ = Wₜ zₜ with a matrix Wₜ a round.

use faer::Mat;

use crate::account::gossip::bounds::Whitener;
use crate::account::gossip::gram::{dot, unit, without};
use crate::account::gossip::observers::basis;
use crate::account::gossip::threat::{GossipError, ObserversNoise, Sensitivity, Threat};
use crate::account::gossip::weights::Weights;

/// The sensitivity of `target` when round t has the weights `weights[t − 1]`; there are
/// `threat.rounds` of them. The view `messages` does not use the last.
///
/// Sweeps over the T rounds backwards, so that only the rows for one round's noises are held: O(T²)
/// products with a matrix per observer, O(n T³) operations for n nodes.
pub fn varying(weights: &[Weights], threat: &Threat<'_>, target: usize) -> Result<Sensitivity, GossipError> {
    let nodes = weights.first().ok_or(GossipError::Rounds)?.nodes();
    threat.check(nodes)?;
    if weights.len() != threat.rounds {
        return Err(GossipError::Rounds);
    }
    if let Some(round) = weights.iter().position(|weights| weights.nodes() != nodes) {
        return Err(GossipError::Nodes {
            round: round + 1,
            found: weights[round].nodes(),
            expected: nodes,
        });
    }
    if target >= nodes {
        return Err(GossipError::Target { found: target, nodes });
    }
    if threat.exposes(target) {
        return Ok(Sensitivity::UNBOUNDED);
    }
    // Which rounds say anything, and who of the observers says something new in each.
    let shape = threat.shape();
    let weights = &weights[..shape.rounds];
    let bases: Vec<Vec<usize>> = weights
        .iter()
        .map(|weights| basis(weights, threat, shape.first))
        .collect();
    let size = bases.iter().map(Vec::len).sum();
    // Rows of the view over the noises of one round, later rounds first: their order does not
    // matter to M.
    let mut rows: Vec<Vec<f64>> = Vec::with_capacity(size);
    let (mut k, mut g): (Mat<f64>, Mat<f64>) = (Mat::zeros(size, size), Mat::zeros(size, shape.rounds));
    for round in (0..weights.len()).rev() {
        let fresh = bases[round].iter().map(|&observer| unit(nodes, observer));
        // A message of this round has its noise bare, a sum has passed through W.
        if shape.first == 1 {
            rows.extend(fresh);
            rows.iter_mut().for_each(|row| *row = weights[round].after(row));
        } else {
            rows.iter_mut().for_each(|row| *row = weights[round].after(row));
            rows.extend(fresh);
        }
        add_round(&rows, threat, &mut k);
        rows.iter()
            .enumerate()
            .for_each(|(index, row)| g[(index, round)] = row[target]);
    }
    Ok(Whitener::of(&k)?.sensitivity(&g, threat.rounds, false))
}

/// Adds one round's unknown noises to the lower half of K, the covariance of what is observed.
fn add_round(rows: &[Vec<f64>], threat: &Threat<'_>, k: &mut Mat<f64>) {
    let known = if threat.noise == ObserversNoise::Known {
        threat.observers
    } else {
        &[]
    };
    let unknown: Vec<Vec<f64>> = rows.iter().map(|row| without(row, known)).collect();
    for (column, other) in unknown.iter().enumerate() {
        for (row, this) in unknown.iter().enumerate().skip(column) {
            k[(row, column)] += dot(this, other);
        }
    }
}
