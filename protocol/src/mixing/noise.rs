//! Noise on the lattice: uniform over residues, straight from the cipher's words, or Gaussian.
//!
//! A normal variate in f64 is rounded to a cell of about 2^-b standard deviations, coarse enough
//! that the sampler's own granularity (52 random bits) does not show. Where a noise must mask finer
//! bits than that (a state of round t lives on a grid that is finer than the first cell), they
//! are *not* filled uniformly: a density that is flat within cells of width g differs from a
//! Gaussian's to first order in g/σ, and over 10^6 coordinates that is visible. Instead a second,
//! small Gaussian of two cells' width is added on the next finer grid, and so on down to the grid
//! that is asked for. By Poisson summation the sum of a Gaussian on a grid of width g and one of
//! standard deviation 2g on a finer grid differs from a single Gaussian on the finer grid by a
//! factor within 1 ± 2 exp(−2π² 2²) = 1 ± 1e-34.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::clipping::contribution::Clipped;
use crate::lattice::grid::{Lattice, NOISE_REACH};
use crate::lattice::packed::PackedVector;
use crate::lattice::sampling::levels;
use crate::lattice::vector::LatticeVector;
use crate::mixing::noisy::Noisy;
use crate::mixing::portion::NoiseSource;

/// Adds noise of standard deviation `std` (in steps) on the grid of `grid` steps to each
/// coordinate.
pub fn add_gaussian<R: Rng>(rng: &mut R, std: f64, grid: i128, noise_bits: u32, to: &mut LatticeVector) {
    let scales: Vec<(f64, i128)> = levels(std, grid, noise_bits)
        .iter()
        .map(|level| (level.std / level.cell as f64, level.cell))
        .collect();
    to.add_each(&scales, |deviations| {
        let z: f64 = StandardNormal.sample(rng);
        nearest(z.clamp(-NOISE_REACH, NOISE_REACH) * deviations)
    });
}

/// The nearest integer, ties to even, of a number below 2^51 in absolute value: adding 1.5 × 2^52
/// leaves it in the low bits. Without SSE 4.1 `round_ties_even` is a function call a coordinate.
fn nearest(x: f64) -> i64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    ((x + SHIFT).to_bits() as i64).wrapping_sub(SHIFT.to_bits() as i64)
}

/// A party's noise in one run: independent noise once, correlated noise as the injection asks for
/// it.
pub struct LatticeNoise<R> {
    rng: R,
    lattice: Lattice,
    dimension: usize,
    correlated_std: f64,
}

impl<R: Rng> LatticeNoise<R> {
    /// Noise of `correlated_std` (σ_Δ, in the data's unit) for vectors of `dimension` coordinates.
    /// The randomness is the caller's: seeded from the operating system in a node, from a number in
    /// a simulation.
    pub fn new(rng: R, lattice: Lattice, dimension: usize, correlated_std: f64) -> Self {
        LatticeNoise {
            rng,
            lattice,
            dimension,
            correlated_std,
        }
    }

    /// Makes a party's contribution noisy, with fresh η* of `independent_std` (σ*, in the data's
    /// unit): x becomes x̃.
    pub fn noisy(&mut self, independent_std: f64, contribution: Clipped) -> Noisy {
        let mut value = contribution.into_vector();
        self.add_independent(independent_std, &mut value);
        Noisy::with_noise_in(value)
    }

    /// Puts a noise of each of these deviations (in the data's unit) behind a contribution: those
    /// of the vectors that are sealed for the readers of a sum, one after the other.
    pub fn with_noise_of_readers(&mut self, contribution: Noisy, stds: &[f64]) -> Noisy {
        let of_readers = stds.iter().map(|&std| {
            let mut own = self.lattice.zeros(self.dimension);
            self.add_independent(std, &mut own);
            own
        });
        let of_readers = of_readers.collect();
        contribution.joined_with(&self.lattice, of_readers)
    }

    /// Adds η* of `independent_std` (σ*, in the data's unit) to a vector.
    pub fn add_independent(&mut self, independent_std: f64, value: &mut LatticeVector) {
        let std = independent_std / self.lattice.step();
        add_gaussian(
            &mut self.rng,
            std,
            self.lattice.value_grid(),
            self.lattice.noise_bits,
            value,
        );
    }
}

impl<R: Rng> NoiseSource<LatticeVector> for LatticeNoise<R> {
    fn draw(&mut self, _: usize, round: u32) -> PackedVector {
        if let Some(ring) = self.lattice.ring() {
            return LatticeVector::uniform(ring, self.dimension, &mut self.rng).pack();
        }
        let mut noise = self.lattice.zeros(self.dimension);
        let std = self.correlated_std / self.lattice.step();
        add_gaussian(
            &mut self.rng,
            std,
            self.lattice.noise_grid(round),
            self.lattice.noise_bits,
            &mut noise,
        );
        noise.pack()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;

    use super::*;
    use crate::lattice::sampling::sampling_delta;
    use crate::simulator::cluster::tests::plan;

    #[test]
    fn levels_keep_the_variance_and_end_on_the_grid() {
        for (std, grid, bits) in [
            (1e9, 1, 16),
            (1e9, 1, 8),
            (7e4, 64, 3),
            (1e30, 1, 12),
            (1e30, 3_i128.pow(40), 16),
        ] {
            let levels = levels(std, grid, bits);
            let variance: f64 = levels.iter().map(|l| l.std * l.std).sum();
            assert!(
                (variance / (std * std) - 1.0).abs() < 1e-12,
                "{std} {grid} {bits}"
            );
            assert_eq!(levels.last().map(|l| l.cell), Some(grid));
            for pair in levels.windows(2) {
                assert!(
                    pair[1].std >= 1.8 * pair[0].cell as f64,
                    "the finer variate smooths the coarser one's cells"
                );
                assert_eq!(pair[0].cell % pair[1].cell, 0);
            }
        }
    }

    /// Shares of a normal distribution beyond 1, 2, 3 and 4 standard deviations, either side.
    const BEYOND: [f64; 4] = [0.317_310_5, 0.045_500_3, 0.002_699_8, 6.334e-5];

    #[test]
    fn noise_of_every_round_is_normal_far_out_and_on_its_grid() {
        let plan = plan(8, "", 5);
        let (count, std) = (400_000, plan.calibration().correlated_std);
        let rng = ChaCha8Rng::seed_from_u64(3);
        let mut noise = LatticeNoise::new(rng, *plan.lattice(), count, std);
        let mut value = plan.lattice().zeros(count);
        noise.add_independent(std, &mut value);
        let mut kinds = vec![(plan.lattice().value_grid(), value)];
        for round in 0..plan.rounds() {
            let drawn = noise.draw(round as usize, round).unpack();
            kinds.push((plan.lattice().noise_grid(round), drawn));
        }
        for (kind, (grid, drawn)) in kinds.into_iter().enumerate() {
            assert!(drawn.steps().all(|steps| steps % grid == 0), "{kind}");
            let z = drawn.to_f64(plan.lattice().step() / std);
            let variance = z.iter().map(|z| z * z).sum::<f64>() / count as f64;
            assert!(
                (variance - 1.0).abs() < 5.0 * (2.0 / count as f64).sqrt(),
                "{kind}: {variance}"
            );
            for (at, expected) in BEYOND.into_iter().enumerate() {
                let beyond = z.iter().filter(|z| z.abs() > (at + 1) as f64).count() as f64;
                let (mean, error) = (expected * count as f64, (expected * count as f64).sqrt());
                assert!(
                    (beyond - mean).abs() < 5.0 * error,
                    "{kind}: {beyond} beyond {at} + 1, not {mean}"
                );
            }
        }
    }

    /// Noise of residues hides whatever it is added to: each sixteenth of the ring is as likely.
    #[test]
    fn noise_of_residues_is_uniform() {
        for mechanism in ["inca", "ppsc"] {
            let lines = format!(
                "[run]\nsealed = true\n[mechanism]\ncorrelated = \"uniform\"\nkind = \"{mechanism}\""
            );
            let (plan, count) = (plan(8, &lines, 5), 64_000);
            let lattice = plan.lattice();
            assert!(lattice.ring().is_some(), "{mechanism}");
            let mut noise = LatticeNoise::new(ChaCha8Rng::seed_from_u64(4), *lattice, count, 0.0);
            let ring = libm::exp2(f64::from(8 * lattice.wire_bytes));
            let mut sixteenths = [0.0; 16];
            for step in noise.draw(0, 0).unpack().steps() {
                let at = (step as f64 / ring).rem_euclid(1.0);
                sixteenths[(at * 16.0) as usize] += 1.0;
            }
            let (mean, error) = (count as f64 / 16.0, (count as f64 / 16.0).sqrt());
            assert!(
                sixteenths.iter().all(|found| (found - mean).abs() < 5.0 * error),
                "{mechanism}: {sixteenths:?}"
            );
        }
    }

    #[test]
    fn nearest_rounds_like_the_standard_library() {
        for x in [
            0.0,
            0.5,
            1.5,
            2.5,
            -0.5,
            -1.5,
            0.499_999_999_999_999_94,
            1e6 + 0.5,
            -1e15 - 0.5,
            786_431.49,
        ] {
            assert_eq!(nearest(x), x.round_ties_even() as i64, "{x}");
        }
    }

    #[test]
    fn the_sampling_bound_grows_with_the_draws_and_with_the_bits() {
        assert!(sampling_delta(1.0, 1e6, 16) > sampling_delta(1.0, 1e4, 16));
        assert!(sampling_delta(1.0, 1e6, 16) > 100.0 * sampling_delta(1.0, 1e6, 8));
        assert!(
            sampling_delta(1.0, 1.2e5, 16) < 1e-7,
            "8 parties, 1,000 coordinates"
        );
    }
}
