//! Gaussian noise on the lattice.
//!
//! A normal variate in f64 is rounded to a cell of about 2^-b standard deviations, coarse enough that the sampler's own
//! granularity (52 random bits) does not show. Where a noise must mask finer bits than that (a state of round t lives on a grid that
//! is finer than the first cell), they are *not* filled uniformly: a density that is flat within cells of width g differs from a
//! Gaussian's to first order in g/σ, and over 10^6 coordinates that is visible. Instead a second, small Gaussian of two cells'
//! width is added on the next finer grid, and so on down to the grid that is asked for. By Poisson summation the sum of a
//! Gaussian on a grid of width g and one of standard deviation 2g on a finer grid differs from a single Gaussian on the finer grid by a
//! factor within 1 ± 2 exp(−2π² 2²) = 1 ± 1e-34.

use rand::Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::lattice::{Lattice, LatticeVector, NOISE_REACH, PackedVector};
use crate::mixing::NoiseSource;

/// The most bits of a normal variate that are used at once.
pub const FINEST_BITS: u32 = 16;
/// The fewest: the cell of the first variate is then an eighth of a standard deviation.
pub const COARSEST_BITS: u32 = 3;

/// One variate of the sum: its standard deviation and its cell, both in steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Standard deviation, in steps.
    pub std: f64,
    /// The grid that the variate is rounded to, in steps.
    pub cell: f64,
}

/// How a noise of standard deviation `std` is put together on a grid of `grid` steps, coarsest first. The variances add up to
/// `std`² (all in steps).
pub fn levels(std: f64, grid: f64, noise_bits: u32) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    let mut remaining = std;
    loop {
        let wanted = remaining / f64::from(noise_bits).exp2();
        if wanted <= 2.0 * grid {
            levels.push(Level {
                std: remaining,
                cell: grid,
            });
            break;
        }
        // A power of two times the grid, so that every finer grid divides it.
        let cell = grid * libm::log2(wanted / grid).floor().exp2();
        levels.push(Level { std: remaining, cell });
        remaining = 2.0 * cell;
    }
    // Each finer variate's variance is taken out of the coarser one.
    for finer in (1..levels.len()).rev() {
        let inner = levels[finer..].iter().map(|l| l.std * l.std).sum::<f64>();
        let coarse = &mut levels[finer - 1];
        coarse.std = (coarse.std * coarse.std - inner).sqrt();
    }
    levels
}

/// What sampling adds to δ when the honest parties' noise takes `draws` variates, each rounded to cells of 2^-`noise_bits`
/// standard deviations.
///
/// Derived, not quoted. rand_distr's ziggurat returns u·xᵢ with u one of 2^52 equally spaced numbers, so in each of its 256 layers
/// the count of points in a cell is off by at most one, and the rounding of u·xᵢ and of the scaling moves a cell's two ends by
/// 2^-52 of their place: a cell's probability is off by a relative ρ(z) ≤ 2^(b−51)·(2 + 2|z|) (the layers that reach beyond z
/// have a share of at most φ(z)(2 + 2|z|)), E ρ² ≤ 2^(2(b−49)). For N independent draws the χ²-divergence from rounded Gaussians
/// is at most about N·E ρ², the total variation distance half its square root, and two worlds that are each that close to the ideal
/// ones add (1 + e^ε) times it to δ. Clamping at 12 standard deviations adds N·4e-33.
pub fn sampling_delta(epsilon: f64, draws: f64, noise_bits: u32) -> f64 {
    let relative = (f64::from(noise_bits) - 49.0).exp2();
    let distance = 0.5 * draws.sqrt() * relative + draws * 4e-33;
    (1.0 + epsilon.min(700.0).exp()) * distance
}

/// Adds noise of standard deviation `std` (in steps) on the grid of `grid` steps to each coordinate.
pub fn add_gaussian<R: Rng>(rng: &mut R, std: f64, grid: i128, noise_bits: u32, to: &mut LatticeVector) {
    let scales: Vec<(f64, i128)> = levels(std, grid as f64, noise_bits)
        .iter()
        .map(|level| (level.std / level.cell, level.cell as i128))
        .collect();
    to.add_each(&scales, |deviations| {
        let z: f64 = StandardNormal.sample(rng);
        nearest(z.clamp(-NOISE_REACH, NOISE_REACH) * deviations)
    });
}

/// The nearest integer, ties to even, of a number below 2^51 in absolute value: adding 1.5 × 2^52 leaves it in the low bits.
/// Without SSE 4.1 `round_ties_even` is a function call a coordinate.
fn nearest(x: f64) -> i64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    ((x + SHIFT).to_bits() as i64).wrapping_sub(SHIFT.to_bits() as i64)
}

/// A party's noise in one run: independent noise once, correlated noise as the injection asks for it.
pub struct LatticeNoise<R> {
    rng: R,
    lattice: Lattice,
    dimension: usize,
    correlated_std: f64,
}

impl<R: Rng> LatticeNoise<R> {
    /// Noise of `correlated_std` (σ_Δ, in the data's unit) for vectors of `dimension` coordinates. The randomness is the caller's: seeded from the
    /// operating system in a node, from a number in a simulation.
    pub fn new(rng: R, lattice: Lattice, dimension: usize, correlated_std: f64) -> Self {
        LatticeNoise {
            rng,
            lattice,
            dimension,
            correlated_std,
        }
    }

    /// Adds η* of `independent_std` (σ*, in the data's unit) to the party's value: x becomes x̃.
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
    use super::*;

    #[test]
    fn levels_keep_the_variance_and_end_on_the_grid() {
        for (std, grid, bits) in [(1e9, 1.0, 16), (1e9, 1.0, 8), (7e4, 64.0, 3), (1e30, 1.0, 12)] {
            let levels = levels(std, grid, bits);
            let variance: f64 = levels.iter().map(|l| l.std * l.std).sum();
            assert!(
                (variance / (std * std) - 1.0).abs() < 1e-12,
                "{std} {grid} {bits}"
            );
            assert_eq!(levels.last().map(|l| l.cell), Some(grid));
            for pair in levels.windows(2) {
                assert!(
                    pair[1].std >= 1.8 * pair[0].cell,
                    "the finer variate smooths the coarser one's cells"
                );
                assert_eq!(pair[0].cell % pair[1].cell, 0.0);
            }
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
