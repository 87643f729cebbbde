//! The square root of prefix sums, by which bins travel where cumulative counts are wanted.
//!
//! R is the lower triangular Toeplitz matrix of f_0 = 1, f_k = f_{k−1}(1 − 1/2k), whose square is
//! the matrix of prefix sums (Fichtenberger, Henzinger and Upadhyay 2023, "Constant matters"). A
//! row in bin k contributes column k of R; the sum y over rows gives all cumulative counts as R·y,
//! each with about as little noise as any linear method leaves.

/// The coefficients of R for vectors of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Root {
    f: Vec<f64>,
}

impl Root {
    /// The coefficients f_0 … f_{length − 1}.
    pub fn of(length: usize) -> Self {
        let mut f = Vec::with_capacity(length);
        let mut last = 1.0;
        for k in 0..length {
            if k > 0 {
                last *= 1.0 - 1.0 / (2.0 * k as f64);
            }
            f.push(last);
        }
        Root { f }
    }

    /// The coefficients f_0, f_1, ….
    pub fn coefficients(&self) -> &[f64] {
        &self.f
    }

    /// G: the square of the length of a row in the first bin, which no other row's exceeds.
    pub fn norm_squared(&self) -> f64 {
        self.f.iter().map(|f| f * f).sum()
    }

    /// D² of each length up to this one, by length: the largest squared distance of two rows in
    /// different bins, max over i < j of G_{n−i} + G_{n−j} − 2 Σ_k f_k f_{k+j−i} over k < n − j.
    ///
    /// With l = n − i the term has n no more: a longer root only adds terms with larger l.
    pub fn diameters_squared(&self) -> Vec<f64> {
        let n = self.f.len();
        let mut sums = vec![0.0; n + 1];
        for (k, f) in self.f.iter().enumerate() {
            sums[k + 1] = sums[k] + f * f;
        }
        let mut most = vec![0.0f64; n + 1];
        for lag in 1..n {
            let mut product = 0.0;
            for k in 0..n - lag {
                product += self.f[k] * self.f[k + lag];
                let longer = k + 1 + lag;
                let apart = sums[longer] + sums[k + 1] - 2.0 * product;
                most[longer] = most[longer].max(apart);
            }
        }
        for length in 1..=n {
            most[length] = most[length].max(most[length - 1]);
        }
        most
    }

    /// R·y: cumulative counts of a sum y of rows.
    pub fn cumulate(&self, y: &[f64]) -> Vec<f64> {
        (0..y.len())
            .map(|k| (0..=k).map(|j| self.f[k - j] * y[j]).sum())
            .collect()
    }

    /// Σ_j R_kj R_lj for k ≤ l: the covariance of two cumulative counts, where each coordinate of y
    /// has noise of variance 1.
    pub fn covariance(&self, k: usize, l: usize) -> f64 {
        let (k, l) = (k.min(l), k.max(l));
        (0..=k).map(|j| self.f[k - j] * self.f[l - j]).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pairs of rows, coordinate by coordinate.
    fn brute_force(n: usize) -> f64 {
        let root = Root::of(n);
        let row = |at: usize| -> Vec<f64> {
            (0..n)
                .map(|k| if k < at { 0.0 } else { root.f[k - at] })
                .collect()
        };
        let apart = |i: usize, j: usize| -> f64 {
            let (a, b) = (row(i), row(j));
            a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        (0..n)
            .flat_map(|i| (0..n).map(move |j| (i, j)))
            .map(|(i, j)| apart(i, j))
            .fold(0.0, f64::max)
    }

    #[test]
    fn the_diameter_is_that_of_all_pairs() {
        for n in [2, 3, 9, 33, 65] {
            let (found, expected) = (Root::of(70).diameters_squared()[n], brute_force(n));
            assert!((found - expected).abs() < 1e-12, "{n}: {found}, not {expected}");
        }
    }

    /// Numbers of an independent program.
    #[test]
    fn coefficients_and_diameters_are_those_of_the_reference() {
        for (n, last, norm, diameter) in [
            (2, 0.5, 1.25, 1.25),
            (9, 0.196380615234375, 1.7569446051493287, 2.3916186774149537),
            (129, 0.04981910993614018, 2.6125858084898055, 4.102965509148839),
        ] {
            let root = Root::of(n);
            let found = [root.f[n - 1], root.norm_squared(), root.diameters_squared()[n]];
            for (found, expected) in found.into_iter().zip([last, norm, diameter]) {
                assert!((found - expected).abs() < 1e-12, "{n}: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn twice_the_root_is_a_prefix_sum() {
        let root = Root::of(7);
        let counts = [3.0, 0.0, 2.0, 5.0, 1.0, 0.0, 4.0];
        let mut sum = 0.0;
        let prefix = counts.map(|count| {
            sum += count;
            sum
        });
        let twice = root.cumulate(&root.cumulate(&counts));
        assert!(
            twice.iter().zip(prefix).all(|(a, b)| (a - b).abs() < 1e-12),
            "{twice:?}"
        );
    }
}
