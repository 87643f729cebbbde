//! Made-up vectors for demonstrations and simulations.

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::plan::computation::model::ModelSettings;
use undertone_protocol::plan::run_file::settings::Clip;

/// A vector of `dimension` coordinates within the clipping range, the same for the same seed and
/// party.
pub fn vector(clip: &Clip, dimension: usize, seed: u64, party: usize) -> Vec<f64> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    rng.set_stream(party as u64);
    match clip {
        Clip::Box { low, high } => (0..dimension)
            .map(|i| rng.random_range(low.at(i)..high.at(i)))
            .collect(),
        Clip::L2 { .. } | Clip::Described { .. } | Clip::Tensors { .. } => {
            // Within the smallest ball it is within each.
            let radius = match clip {
                Clip::Tensors { radius } => radius.values().copied().fold(f64::INFINITY, f64::min),
                Clip::L2 { radius } => *radius,
                // Rows are made of cells, never made up.
                Clip::Box { .. } | Clip::Described { .. } => 0.0,
            };
            let direction: Vec<f64> = (0..dimension).map(|_| rng.random_range(-1.0..1.0)).collect();
            let norm = direction
                .iter()
                .map(|v| v * v)
                .sum::<f64>()
                .sqrt()
                .max(f64::MIN_POSITIVE);
            let length = radius * rng.random_range(0.1..0.95);
            direction.into_iter().map(|v| v / norm * length).collect()
        }
    }
}

/// About standard normal, within ±6 (Irwin–Hall): what is made up needs no better.
pub fn normal(rng: &mut ChaCha12Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

/// A table of rows whose targets follow a model that is drawn from `seed`, the same for all
/// parties: half of a number's variance, or most of a class, is the model's.
pub fn table(model: &ModelSettings, rows: usize, seed: u64, party: u64) -> Vec<f64> {
    let mut truth = ChaCha12Rng::seed_from_u64(seed);
    truth.set_stream(u64::MAX);
    let columns = model.columns.saturating_sub(1);
    let blocks = model.classes.unwrap_or(1);
    let weights: Vec<f64> = (0..blocks * columns).map(|_| normal(&mut truth)).collect();
    let scale = (columns as f64).sqrt();
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    rng.set_stream(party);
    let target_at = model.target_at().unwrap_or(columns);
    let mut row = || {
        let scaled: Vec<f64> = (0..columns).map(|_| normal(&mut rng)).collect();
        let scores = weights.chunks(columns.max(1)).map(|block| {
            let score = block.iter().zip(&scaled).map(|(w, x)| w * x).sum::<f64>() / scale;
            score + normal(&mut rng) / if blocks > 1 { 4.0 } else { 1.0 }
        });
        let target = model.loss().named(&scores.collect::<Vec<f64>>());
        let mut row = scaled;
        let places = (0..=columns).filter(|&column| column != target_at);
        for (value, column) in row.iter_mut().zip(places) {
            if let Some((low, high)) = model.bounds_of(column) {
                // Three deviations to either side of the middle.
                *value = (low + high) / 2.0 + *value * (high - low) / 6.0;
            }
        }
        row.insert(target_at, target);
        row
    };
    (0..rows).flat_map(|_| row()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_in_range_and_differ_by_party_and_seed() {
        let ball = Clip::L2 { radius: 2.0 };
        let (a, b, c) = (
            vector(&ball, 9, 1, 0),
            vector(&ball, 9, 1, 1),
            vector(&ball, 9, 2, 0),
        );
        assert!(a != b && a != c && a == vector(&ball, 9, 1, 0));
        assert!(a.iter().map(|v| v * v).sum::<f64>().sqrt() <= 2.0);
    }
}
