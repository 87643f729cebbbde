//! Covariances and correlations of columns of numbers, over the rows that have all of them.

use std::f64::consts::SQRT_2;

use faer::{Mat, Side};
use serde::Serialize;

use super::estimate::{Estimate, within};
use crate::describe::released::Amount;

/// A symmetric matrix, row by row; `None` where a number is not shown.
pub type Symmetric<T> = Vec<Vec<T>>;

/// The figures of a block of covariances.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CovarianceFigures {
    /// The columns.
    pub columns: Vec<String>,
    /// Rows that have all of them.
    pub complete: Estimate,
    /// The covariances; `None` where there are too few rows to tell.
    pub covariance: Option<Symmetric<f64>>,
    /// The errors of the covariances by noise.
    pub noise: Option<Symmetric<f64>>,
    /// The correlations, each where both variances are at least twice their noise.
    pub correlation: Option<Symmetric<Option<f64>>>,
    /// The errors of the correlations by noise.
    pub correlation_noise: Option<Symmetric<Option<f64>>>,
    /// Whether eigenvalues below 0 were set to 0.
    pub projected: bool,
    /// Intervals follow from these.
    #[serde(skip)]
    moments: PairMoments,
}

/// How much wider intervals are where a variance is hardly told from its noise, per square of
/// noise over variance: only those are shown whose variance came out large, and then the
/// correlation is too small and its error too. With 3, 94 % and more hold however rarely one is
/// shown, 96 % where half are; with 0 as few as 70 % and 92 % (measured, see the coverage tests).
const WIDER: f64 = 3.0;

impl CovarianceFigures {
    /// The interval of a correlation, of this many standard deviations: by Fieller's theorem, since
    /// the variances below it are noisy, too, and never narrower than the error says. `None` where
    /// the correlation is not shown.
    pub fn correlation_interval(&self, (i, j): (usize, usize), z: f64) -> Option<[f64; 2]> {
        let shown = (*self.correlation.as_ref()?.get(i)?.get(j)?)?;
        let noise = (*self.correlation_noise.as_ref()?.get(i)?.get(j)?)?;
        let [low, high] = match i == j {
            true => [1.0; 2],
            false => self.moments.fieller((i, j), z),
        };
        let low = low.min(shown - z * noise);
        let high = high.max(shown + z * noise);
        Some([low.max(-1.0), high.min(1.0)])
    }
}

/// Second moments of numbers brought to [−1, 1].
#[derive(Clone, Debug, PartialEq)]
struct PairMoments {
    p: f64,
    /// The noise of a coordinate.
    std: f64,
    means: Vec<f64>,
    /// E[u_i·u_j], the upper triangle by rows, mirrored.
    second: Symmetric<f64>,
}

impl PairMoments {
    fn of(y: &[f64], std: f64, d: usize) -> Self {
        let p = y[0] / (d + 1) as f64;
        let means = (0..d).map(|i| y[1 + i] / (SQRT_2 * p)).collect();
        let mut second = vec![vec![0.0; d]; d];
        let mut rest = y[1 + d..].iter();
        for (i, j) in (0..d).flat_map(|i| (i..d).map(move |j| (i, j))) {
            let times = if i == j { 1.0 } else { SQRT_2 };
            let moment = rest.next().copied().unwrap_or(0.0) / (times * p);
            (second[i][j], second[j][i]) = (moment, moment);
        }
        PairMoments {
            p,
            std,
            means,
            second,
        }
    }

    fn covariance(&self, i: usize, j: usize) -> f64 {
        self.second[i][j] - self.means[i] * self.means[j]
    }

    /// The derivatives of C_ij by y₀, and by the mean's and the moments' coordinates, as
    /// (coordinate, derivative).
    fn gradient(&self, i: usize, j: usize) -> [(Coordinate, f64); 4] {
        let (p, d) = (self.p, self.means.len() as f64);
        let by_rows = -(self.second[i][j] - 2.0 * self.means[i] * self.means[j]) / p / (d + 1.0);
        let by_mean = |other: usize| -self.means[other] / (SQRT_2 * p);
        let by_moment = if i == j { 1.0 / p } else { 1.0 / (SQRT_2 * p) };
        [
            (Coordinate::Rows, by_rows),
            (Coordinate::Mean(i), by_mean(j)),
            (Coordinate::Mean(j), by_mean(i)),
            (Coordinate::Moment(i, j), by_moment),
        ]
    }

    fn noise(&self, gradient: &[(Coordinate, f64)]) -> f64 {
        self.noise_product(gradient, gradient).sqrt()
    }

    /// The covariance by noise of two figures with these derivatives.
    fn noise_product(&self, one: &[(Coordinate, f64)], other: &[(Coordinate, f64)]) -> f64 {
        let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
        let same = pairs.filter(|((one, _), (other, _))| one == other);
        self.std * self.std * same.map(|((_, a), (_, b))| a * b).sum::<f64>()
    }

    /// The hull in [−1, 1] of all ρ for which C_ij − ρ√(C_ii·C_jj) is within so many of its own
    /// standard deviations from 0. As a ratio's error would not, that of this difference does not
    /// grow with how small the variances came out.
    fn fieller(&self, (i, j): (usize, usize), z: f64) -> [f64; 2] {
        let (a, b, c) = (
            self.covariance(i, i),
            self.covariance(j, j),
            self.covariance(i, j),
        );
        let root = (a * b).sqrt();
        let of_c = self.gradient(i, j);
        let part = |at: usize, factor: f64| self.gradient(at, at).map(|(of, by)| (of, by * factor));
        let of_root = [part(i, root / (2.0 * a)), part(j, root / (2.0 * b))].concat();
        let relative = |at: usize, variance: f64| self.covariance_noise(at, at) / variance;
        let least_told = relative(i, a).max(relative(j, b));
        let reach = z * (1.0 + WIDER * least_told * least_told);
        let product = |one: &[(Coordinate, f64)], other: &[(Coordinate, f64)]| {
            reach * reach * self.noise_product(one, other)
        };
        // (c − ρ·root)² ≤ reach²·Var(c − ρ·root) as square·ρ² − 2·linear·ρ + constant ≤ 0.
        let square = root * root - product(&of_root, &of_root);
        let linear = c * root - product(&of_c, &of_root);
        let constant = c * c - product(&of_c, &of_c);
        let discriminant = linear * linear - square * constant;
        let ends = [-1.0, 1.0].map(|sign: f64| (linear + sign * discriminant.max(0.0).sqrt()) / square);
        match ends {
            [low, high] if square > 0.0 => [low, high],
            // All but what lies between two ends, of which one may lie outside of [−1, 1].
            [high, low] if discriminant > 0.0 && low < -1.0 => [high.max(-1.0), 1.0],
            [high, low] if discriminant > 0.0 && high > 1.0 => [-1.0, low.min(1.0)],
            _ => [-1.0, 1.0],
        }
    }

    fn covariance_noise(&self, i: usize, j: usize) -> f64 {
        self.noise(&self.gradient(i, j))
    }

    /// The error of a correlation by the delta method, where both variances exceed their noise.
    fn correlation_noise(&self, i: usize, j: usize) -> Option<f64> {
        let (a, b) = (self.covariance(i, i), self.covariance(j, j));
        let is_told =
            |at: usize, variance: f64| variance >= 2.0 * self.covariance_noise(at, at) && variance > 0.0;
        if !is_told(i, a) || !is_told(j, b) {
            return None;
        }
        if i == j {
            return Some(0.0);
        }
        let (root, c) = ((a * b).sqrt(), self.covariance(i, j));
        let times =
            |factor: f64, gradient: [(Coordinate, f64); 4]| gradient.map(|(at, by)| (at, by * factor));
        let parts = [
            times(1.0 / root, self.gradient(i, j)),
            times(-c / (2.0 * root * a), self.gradient(i, i)),
            times(-c / (2.0 * root * b), self.gradient(j, j)),
        ];
        Some(self.noise(&parts.concat()))
    }
}

/// A coordinate of the block.
#[derive(Clone, Copy, PartialEq)]
enum Coordinate {
    Rows,
    Mean(usize),
    Moment(usize, usize),
}

/// The figures of columns with these halves of their ranges.
pub fn figures(
    columns: &[String],
    (y, std): (&[f64], f64),
    halves: &[f64],
    rows: Amount,
) -> CovarianceFigures {
    let d = columns.len();
    let noise = std / (d + 1) as f64;
    let moments = PairMoments::of(y, std, d);
    let complete = Amount {
        value: moments.p,
        variance: noise * noise,
    };
    let mut figures = CovarianceFigures {
        columns: columns.to_vec(),
        complete: Estimate::count(moments.p, noise, rows),
        covariance: None,
        noise: None,
        correlation: None,
        correlation_noise: None,
        projected: false,
        moments,
    };
    if !complete.is_enough() {
        return figures;
    }
    let moments = &figures.moments;
    let matrix = |of: &dyn Fn(usize, usize) -> f64| -> Symmetric<f64> {
        (0..d).map(|i| (0..d).map(|j| of(i, j)).collect()).collect()
    };
    let raw = Mat::from_fn(d, d, |i, j| moments.covariance(i, j));
    let (c, projected) = projected(raw);
    let errors: Symmetric<Option<f64>> = (0..d)
        .map(|i| (0..d).map(|j| moments.correlation_noise(i, j)).collect())
        .collect();
    let correlation = |i: usize, j: usize| {
        let root = (c[(i, i)] * c[(j, j)]).sqrt();
        match i == j {
            true => Some(1.0),
            false => (root > 0.0).then(|| within(c[(i, j)] / root, -1.0, 1.0)),
        }
    };
    let shown = |i: usize, j: usize| errors[i][j].and_then(|_| correlation(i, j));
    figures.projected = projected;
    figures.covariance = Some(matrix(&|i, j| c[(i, j)] * halves[i] * halves[j]));
    figures.noise = Some(matrix(&|i, j| {
        moments.covariance_noise(i, j) * halves[i] * halves[j]
    }));
    figures.correlation = Some((0..d).map(|i| (0..d).map(|j| shown(i, j)).collect()).collect());
    figures.correlation_noise = Some(errors);
    figures
}

/// A matrix with its eigenvalues below 0 set to 0, and whether there were any.
fn projected(matrix: Mat<f64>) -> (Mat<f64>, bool) {
    let Ok(found) = matrix.self_adjoint_eigen(Side::Lower) else {
        return (matrix, false);
    };
    let (vectors, values) = (found.U(), found.S());
    let d = matrix.nrows();
    if (0..d).all(|k| values[k] >= 0.0) {
        return (matrix, false);
    }
    let entry = |i: usize, j: usize| -> f64 {
        (0..d)
            .map(|k| vectors[(i, k)] * vectors[(j, k)] * values[k].max(0.0))
            .sum()
    };
    (Mat::from_fn(d, d, entry), true)
}
