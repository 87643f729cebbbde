//! Made-up vectors for demonstrations and simulations.

use rand::rngs::ChaCha12Rng;
use rand::{RngExt, SeedableRng};
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
        Clip::L2 { .. } | Clip::Tensors { .. } => {
            // Within the smallest ball it is within each.
            let radius = match clip {
                Clip::Tensors { radius } => radius.values().copied().fold(f64::INFINITY, f64::min),
                Clip::L2 { radius } => *radius,
                Clip::Box { .. } => 0.0,
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
