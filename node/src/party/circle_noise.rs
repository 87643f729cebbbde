//! The noise of what a party seals for each reader of a sum, beside that of its message.

use rand::rngs::ChaCha12Rng;
use undertone_protocol::mixing::gossip::weights::RoundWeights;
use undertone_protocol::mixing::noise::LatticeNoise;
use undertone_protocol::mixing::noisy::Noisy;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

/// The part of a message's noise that each vector has of its own besides, which is sealed for a
/// reader of sums: 2^-6 (protocol/docs/streams.md).
const OWN_NOISE: f64 = 1.0 / 64.0;

/// Returns a party's contribution to a round. Where neighbours read sums it comes with fresh noise
/// for each, of 2^-6·N·σ for a weight of N units. That noise counts in units of 2^-16 of a step.
pub(super) fn with_noise_of_circles(
    plan: &Plan,
    me: Party,
    round: u32,
    value: Noisy,
    noise: &mut LatticeNoise<ChaCha12Rng>,
) -> Noisy {
    if !plan.reads_circles() {
        return value;
    }
    let weights = RoundWeights::of(&plan.active_edges(round));
    let readers = weights.row(me).iter().filter(|(reader, _)| *reader != me);
    let std = |weight: u32| OWN_NOISE * f64::from(weight) * plan.calibration().independent_std;
    let stds: Vec<f64> = readers.map(|&(_, weight)| std(weight)).collect();
    noise.with_noise_of_readers(value, &stds)
}

#[cfg(test)]
mod attack;
#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use undertone_protocol::clipping::contribution::Clipped;

    use super::*;
    use crate::testing::plan_of;

    /// Checks that two readers of one party, of three and of six neighbours, get noise of their
    /// own. Without it sums of whole numbers with other weights would reveal each message.
    #[test]
    fn each_vector_has_noise_of_its_own_by_its_weight() {
        let edges = "[[\"party-0\", \"party-1\"], [\"party-0\", \"party-2\"], [\"party-0\", \"party-3\"], \
                     [\"party-1\", \"party-2\"], [\"party-1\", \"party-3\"], [\"party-2\", \"party-3\"], \
                     [\"party-2\", \"party-4\"], [\"party-2\", \"party-5\"], [\"party-2\", \"party-6\"], \
                     [\"party-4\", \"party-5\"], [\"party-4\", \"party-6\"], [\"party-5\", \"party-6\"]]";
        let text = format!(
            "name = \"t\"\ntask = \"stream\"\n[data]\nshape = [3000]\nreleases = 2\n[privacy]\ncolluding = 1\ndropouts = 1\n\
             [mechanism]\nsums = \"neighbours\"\n[topology]\n\
             private = {{ kind = \"edges\", edges = {edges} }}"
        );
        let plan = plan_of(&text, 7, None);
        let mut noise = LatticeNoise::new(
            ChaCha12Rng::seed_from_u64(3),
            *plan.lattice(),
            plan.draft().dimension(),
            0.0,
        );
        let zero = Clipped::of(&plan, 0, vec![0.0; 3000]).0;
        let value = Noisy::exposed_without_noise(zero);
        let all = with_noise_of_circles(&plan, 0, 1, value, &mut noise);
        let steps: Vec<i128> = all.vector().steps().collect();
        let vectors: Vec<&[i128]> = steps.chunks(3000).collect();
        // The message, and a vector each for parties of three, six and three neighbours.
        assert_eq!(vectors.len(), 4);
        assert!(
            vectors[0].iter().all(|step| *step == 0),
            "no noise is added twice to the message"
        );
        let deviation = plan.calibration().independent_std / plan.lattice().step();
        for (vector, neighbours) in vectors[1..].iter().zip([3.0f64, 6.0, 3.0]) {
            let weight = (65536.0 / (1.0 + neighbours.max(3.0))).floor();
            let square = vector.iter().map(|&r| (r as f64).powi(2)).sum::<f64>() / 3000.0;
            let ratio = square.sqrt() / (deviation * weight / 64.0);
            // Of 3,000 draws a deviation is off by 1.3 %.
            assert!((0.93..1.07).contains(&ratio), "{neighbours}: {ratio}");
        }
        assert_ne!(vectors[1], vectors[3]);
    }
}
