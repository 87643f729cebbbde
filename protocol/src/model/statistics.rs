//! Least squares from one sum: the second moments of rows, and the model that follows from them.
//!
//! A row is v = (x, y), features and target, shortened to length R. What travels is the upper
//! triangle of v·vᵀ by rows, entries off the diagonal times √2, so that its Euclidean length is the
//! matrix's Frobenius norm |v|².

use faer::{Mat, Side};

use super::ordered::norm;

/// The length of the upper triangle of a matrix of so many rows.
pub fn coordinates(columns: usize) -> usize {
    columns.saturating_mul(columns.saturating_add(1)) / 2
}

/// Puts a row's second moments, after shortening it to length `radius`, into `moments`, whose
/// length is [`coordinates`]. A row that is not finite counts as zero.
pub fn second_moments(row: &[f64], radius: f64, moments: &mut [f64]) {
    let mut row = row.to_vec();
    super::loss::clip_gradient(radius, &mut row);
    let mut places = moments.iter_mut();
    for (i, a) in row.iter().enumerate() {
        for (j, b) in row.iter().enumerate().skip(i) {
            let times = if i == j { 1.0 } else { std::f64::consts::SQRT_2 };
            if let Some(place) = places.next() {
                *place = a * b * times;
            }
        }
    }
}

/// Δ: how far a sum of second moments moves at most when one row is another one, where
/// each was rounded towards zero to multiples of `step`.
///
/// ‖v·vᵀ − w·wᵀ‖² = |v|⁴ + |w|⁴ − 2(v·w)² ≤ 2R⁴, where two balls of radius R² would give 4R⁴.
/// Rounding moves each matrix by less than e = √P·step for P coordinates, which can make the inner
/// product of two as small as −2eR². In e stand also the floating-point errors of a product and a
/// root: 2⁻⁵⁰·R².
pub fn sensitivity_replace_one(radius: f64, columns: usize, step: f64) -> f64 {
    furthest(radius * radius, coordinates(columns), step)
}

/// [`sensitivity_replace_one`] of rows whose length's square is `square`, where the step is not
/// known yet: of one that is twice the [`coarsest_step`].
pub fn sensitivity_before_steps(square: f64, coordinates: usize) -> f64 {
    furthest(square, coordinates, 2.0 * coarsest_step(square, coordinates))
}

/// The coarsest step that second moments may be rounded to, so that Δ can be told before it is
/// chosen: e is at most 2⁻¹⁵·R², for which Δ has 2⁻¹⁴·R², 6·10⁻⁵ of Δ. Our choice: it costs a sum
/// no bits, since rows are many and noise is coarse.
pub fn coarsest_step(square: f64, coordinates: usize) -> f64 {
    square / (1u64 << 15) as f64 / (coordinates as f64).sqrt()
}

fn furthest(square: f64, coordinates: usize, step: f64) -> f64 {
    let error = (coordinates as f64).sqrt() * step + square / (1u64 << 50) as f64;
    (2.0 * square * square + 4.0 * square * error).sqrt()
}

/// Δ: how far a sum of second moments moves at most when one row becomes none.
pub fn sensitivity_zero_out(radius: f64) -> f64 {
    radius * radius
}

/// The model of least squares that a sum of second moments over `rows` rows gives: (A + ρI)⁺·b with
/// the features' moments A and their moments b with the target, each divided by `rows`, and
/// ρ = `ridge`. Directions in which A + ρI is nothing but rounding are left out.
///
/// # Errors
/// The eigenvalues were not found: none of finite numbers.
pub fn solve(moments: &[f64], columns: usize, rows: f64, ridge: f64) -> Option<Vec<f64>> {
    let features = columns.checked_sub(1)?;
    let mut a = Mat::<f64>::zeros(features, features);
    let mut b = vec![0.0; features];
    let mut places = moments.iter();
    for i in 0..columns {
        for j in i..columns {
            let times = if i == j { 1.0 } else { std::f64::consts::SQRT_2 };
            let moment = places.next()? / times / rows;
            if j < features {
                (a[(i, j)], a[(j, i)]) = (moment, moment);
            } else if i < features {
                b[i] = moment;
            }
        }
    }
    (0..features).for_each(|i| a[(i, i)] += ridge);
    if a.col_iter()
        .any(|column| column.iter().any(|entry| !entry.is_finite()))
    {
        return None;
    }
    let found = a.self_adjoint_eigen(Side::Lower).ok()?;
    let (vectors, values) = (found.U(), found.S());
    let largest = (0..features).map(|k| values[k].abs()).fold(0.0, f64::max);
    // As numpy's `pinv` for Hermitian matrices.
    let nothing = 1e-15 * features as f64 * largest;
    let mut model = vec![0.0; features];
    for k in (0..features).filter(|&k| values[k].abs() > nothing) {
        let along: f64 = (0..features).map(|i| vectors[(i, k)] * b[i]).sum();
        model
            .iter_mut()
            .enumerate()
            .for_each(|(i, theta)| *theta += vectors[(i, k)] * along / values[k]);
    }
    Some(model)
}

/// Returns the mean spectral norm of the noise of a sum in A. With each entry's standard deviation
/// s in the triangle above the diagonal it is 2s√d/√2 for large d (Wigner 1955). `ridge = "auto"`
/// is [`AUTO_RIDGE`] times this.
pub fn noise_norm(features: usize, noise_std: f64, rows: f64) -> f64 {
    noise_std / rows * (2.0 * features as f64).sqrt()
}

/// Tuned on three draws and told on three others: see the project's design.
pub const AUTO_RIDGE: f64 = 0.15;

/// The length of a row that is not shortened by any bound on its target: features of length at most
/// 1, and the larger of the target's bounds.
pub fn radius_of(low: f64, high: f64) -> f64 {
    norm(&[1.0, low.abs().max(high.abs())])
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    fn draw(count: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
        (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
    }

    /// Rounded towards zero, as what goes on the lattice is.
    fn moments(row: &[f64], radius: f64, step: f64) -> Vec<f64> {
        let mut moments = vec![0.0; coordinates(row.len())];
        second_moments(row, radius, &mut moments);
        moments.iter().map(|m| (m / step).trunc() * step).collect()
    }

    #[test]
    fn no_two_rows_are_further_apart_than_the_sensitivity() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for (columns, step) in [(2, 1e-9), (4, 1e-3), (4, 0.05), (6, 0.3)] {
            let radius = 1.3;
            let bound = sensitivity_replace_one(radius, columns, step);
            let alone = sensitivity_zero_out(radius);
            let mut furthest = 0.0f64;
            for _ in 0..4000 {
                // Nearly at right angles, and often along the axes, where the bound is met.
                let mut v = draw(columns, &mut rng);
                let mut w = draw(columns, &mut rng);
                if rng.random_bool(0.5) {
                    v = vec![0.0; columns];
                    w.fill(0.0);
                    (v[0], w[1]) = (9.0, rng.random_range(1.0..9.0));
                }
                let (v, w) = (moments(&v, radius, step), moments(&w, radius, step));
                assert!(norm(&v) <= alone * (1.0 + 1e-12));
                let apart: Vec<f64> = v.iter().zip(&w).map(|(a, b)| a - b).collect();
                furthest = furthest.max(norm(&apart));
                assert!(norm(&apart) <= bound, "{columns} columns, step {step}");
            }
            assert!(step > 0.01 || furthest > 0.99 * bound, "{furthest} of {bound}");
        }
    }

    #[test]
    fn without_noise_it_is_least_squares() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let truth = [0.5, -0.25, 0.125];
        let mut sum = vec![0.0; coordinates(4)];
        for _ in 0..50 {
            let mut row = draw(3, &mut rng);
            row.push(row.iter().zip(truth).map(|(x, t)| x * t).sum());
            let row = moments(&row, 9.0, 1e-15);
            sum.iter_mut().zip(row).for_each(|(s, m)| *s += m);
        }
        let model = solve(&sum, 4, 50.0, 0.0).expect("finite");
        assert!(
            model.iter().zip(truth).all(|(m, t)| (m - t).abs() < 1e-9),
            "{model:?}"
        );
    }

    #[test]
    fn columns_that_say_nothing_get_nothing() {
        // x_1 is always 0: the pseudo-inverse leaves it at 0.
        let mut row = vec![0.0; coordinates(3)];
        second_moments(&[1.0, 0.0, 0.5], 9.0, &mut row);
        let model = solve(&row, 3, 1.0, 0.0).expect("finite");
        assert!((model[0] - 0.5).abs() < 1e-15 && model[1] == 0.0, "{model:?}");
        assert_eq!(solve(&[f64::NAN; 6], 3, 1.0, 0.0), None);
    }
}
