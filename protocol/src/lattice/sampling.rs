//! The grid of each noise, level by level, and the δ that sampling adds.

/// The most bits of a normal variate that are used at once.
pub const FINEST_BITS: u32 = 16;

/// The fewest: the cell of the first variate is then an eighth of a standard deviation.
pub const COARSEST_BITS: u32 = 3;

/// One variate of the sum: its standard deviation and its cell, both in steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Standard deviation, in steps.
    pub std: f64,
    /// The grid that the variate is rounded to, in steps: a power of two times the grid that was
    /// asked for. An integer: the grids of long runs have more digits than an f64.
    pub cell: i128,
}

/// Returns the levels of a noise of standard deviation `std` on a grid of `grid` steps, coarsest
/// first. The variances add up to `std`² (all in steps).
pub fn levels(std: f64, grid: i128, noise_bits: u32) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    let mut remaining = std;
    loop {
        // In grids, coarser by as many powers of two as an i128 has room for.
        let wanted = remaining / libm::exp2(f64::from(noise_bits)) / grid as f64;
        if wanted <= 2.0 || grid.leading_zeros() < 3 {
            levels.push(Level {
                std: remaining,
                cell: grid,
            });
            break;
        }
        let doublings = (libm::log2(wanted).floor() as u32).min(grid.leading_zeros() - 2);
        let cell = grid << doublings;
        levels.push(Level { std: remaining, cell });
        remaining = 2.0 * cell as f64;
    }
    // Each finer variate's variance is taken out of the coarser one.
    for finer in (1..levels.len()).rev() {
        let inner = levels[finer..].iter().map(|l| l.std * l.std).sum::<f64>();
        let coarse = &mut levels[finer - 1];
        coarse.std = (coarse.std * coarse.std - inner).sqrt();
    }
    levels
}

/// Returns the δ that sampling adds when the honest parties' noise takes `draws` variates, each
/// rounded to cells of 2^-`noise_bits` standard deviations.
///
/// Derived, not quoted. rand_distr's ziggurat returns u·xᵢ with u one of 2^52 equally spaced
/// numbers, so in each of its 256 layers the count of points in a cell is off by at most one, and
/// the rounding of u·xᵢ and of the scaling moves a cell's two ends by 2^-52 of their place: a
/// cell's probability is off by a relative ρ(z) ≤ 2^(b−51)·(2 + 2|z|) (the layers that reach beyond
/// z have a share of at most φ(z)(2 + 2|z|)), E ρ² ≤ 2^(2(b−49)). For N independent draws the
/// χ²-divergence from rounded Gaussians is at most about N·E ρ², the total variation distance half
/// its square root, and two worlds that are each that close to the ideal ones add (1 + e^ε) times
/// it to δ. Clamping at 12 standard deviations adds N·4e-33.
pub fn sampling_delta(epsilon: f64, draws: f64, noise_bits: u32) -> f64 {
    let relative = libm::exp2(f64::from(noise_bits) - 49.0);
    let distance = 0.5 * draws.sqrt() * relative + draws * 4e-33;
    (1.0 + libm::exp(epsilon.min(700.0))) * distance
}
