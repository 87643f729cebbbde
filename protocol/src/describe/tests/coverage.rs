//! Intervals hold as often as they say.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::plain::{TABLE, figures, people, sum};
use super::{described, rng};
use crate::describe::figures::counts::CountFigures;
use crate::describe::figures::covariance::{self, CovarianceFigures};
use crate::describe::figures::estimate::{Estimate, ReadingAs};
use crate::describe::figures::groups::AllFigures;
use crate::describe::figures::mean::MeanFigures;
use crate::describe::figures::quantiles::QuantileFigures;
use crate::describe::figures::survival::SurvivalFigures;
use crate::describe::layout::RowLayout;
use crate::describe::released::Amount;

fn normal(rng: &mut ChaCha8Rng) -> f64 {
    StandardNormal.sample(rng)
}

/// How often intervals held, and how large errors were beside what was said.
#[derive(Default)]
pub(super) struct Held {
    held: u32,
    of: u32,
    squares: f64,
}

impl Held {
    pub(super) fn add(&mut self, [low, high]: [f64; 2], truth: f64) {
        self.of += 1;
        self.held += u32::from((low..=high).contains(&truth));
    }

    /// One of a value with its noise.
    pub(super) fn add_noisy(&mut self, value: f64, noise: f64, truth: f64) {
        let reach = ReadingAs::default().z() * noise;
        self.add([value - reach, value + reach], truth);
        self.squares += ((value - truth) / noise).powi(2);
    }

    pub(super) fn count(&self) -> u32 {
        self.of
    }

    pub(super) fn share(&self) -> f64 {
        f64::from(self.held) / f64::from(self.of)
    }

    /// Adds errors of another kind.
    fn pool(&mut self, other: &Held) {
        self.of += other.of;
        self.squares += other.squares;
    }

    /// Errors over what was said, as a root of the mean square.
    fn spread(&self) -> f64 {
        (self.squares / f64::from(self.of)).sqrt()
    }
}

/// How often intervals held, by kind of figure.
#[derive(Default)]
struct Coverage(BTreeMap<&'static str, Held>);

impl Coverage {
    fn of(&mut self, kind: &'static str) -> &mut Held {
        self.0.entry(kind).or_default()
    }

    fn add(&mut self, kind: &'static str, found: &Estimate, truth: &Estimate) {
        let value = found.raw.unwrap_or(found.value);
        self.of(kind).add_noisy(value, found.noise, truth.value);
    }

    fn add_all(&mut self, found: &AllFigures, truth: &AllFigures) {
        let (one, known): (&MeanFigures, &MeanFigures) = (of!(found, 0, Mean), of!(truth, 0, Mean));
        self.add("missing", &one.missing, &known.missing);
        if let (Some(one), Some(known)) = (&one.mean, &known.mean) {
            self.add("mean", one, known);
        }
        if let (Some(one), Some(known)) = (&one.sd, &known.sd) {
            self.of("sd")
                .add_noisy(one.variance, one.variance_noise, known.variance);
        }
        let (one, known): (&QuantileFigures, &QuantileFigures) =
            (of!(found, 1, Quantiles), of!(truth, 1, Quantiles));
        let pairs = one
            .quantiles
            .iter()
            .flatten()
            .zip(known.quantiles.iter().flatten());
        pairs.for_each(|(one, known)| self.of("quantiles").add(one.noise, known.value));
        let (one, known): (&CountFigures, &CountFigures) = (of!(found, 2, Counts), of!(truth, 2, Counts));
        for (cell, known) in one.cells.iter().zip(&known.cells) {
            self.add("count", &cell.count, &known.count);
            if let (Some(share), Some(known)) = (&cell.share, &known.share) {
                self.add("share", share, known);
            }
        }
        let (one, known): (&SurvivalFigures, &SurvivalFigures) =
            (of!(found, 3, Survival), of!(truth, 3, Survival));
        for (point, known) in one.curve.iter().zip(&known.curve) {
            self.of("survival")
                .add_noisy(point.survival, point.noise, known.survival);
        }
        let z = ReadingAs::default().z();
        if let (Some(one), Some(known)) = (one.reached(0.5, z), known.reached(0.5, z)) {
            self.of("median time").add(one.noise, known.value);
        }
        let known = correlation(&truth.covariances[0]).expect("without noise");
        let interval = found.covariances[0].correlation_interval((0, 1), ReadingAs::default().z());
        if let Some(interval) = interval {
            self.of("correlation").add(interval, known);
        }
    }
}

fn correlation(of: &CovarianceFigures) -> Option<f64> {
    of.correlation.as_ref()?[0][1]
}

/// As many runs as the design names. Errors, pooled over figures, are those that were said but for
/// 2 %, and intervals hold.
#[test]
fn intervals_of_2000_runs_hold_as_often_as_they_say() {
    coverage(2000, 32);
}

/// The range that shares of intervals are in: those of figures linear in the sum hold as often as
/// they say, quantiles and correlations err on the safe side.
fn expected(kind: &str) -> RangeInclusive<f64> {
    match kind {
        "missing" | "count" => 0.94..=0.96,
        "quantiles" | "median time" => 0.98..=1.0,
        "correlation" => 0.94..=1.0,
        _ => 0.93..=0.99,
    }
}

fn coverage(runs: usize, seed: u64) {
    let (described, people) = (described(TABLE), people(4000));
    let exact = sum(&described, &people);
    let truth = figures(&described, exact.clone(), 0.0, people.len());
    // ε = 1 at δ = 1e-6, as of four parties.
    let noise = 5.25 * RowLayout::of(&described).replace_one;
    let mut rng = rng(seed);
    let mut coverage = Coverage::default();
    for _ in 0..runs {
        let noisy = exact.iter().map(|sum| sum + noise * normal(&mut rng));
        let found = figures(&described, noisy.collect(), noise, people.len());
        coverage.add_all(&found, &truth);
    }
    let mut pooled = Held::default();
    for (kind, held) in &coverage.0 {
        let (share, spread) = (held.share(), held.spread());
        println!(
            "{kind}: {:.1} % of {} hold, spread {spread:.3}",
            100.0 * share,
            held.of
        );
        assert!(expected(kind).contains(&share), "{kind}: {share}");
        if held.squares > 0.0 {
            assert!((spread - 1.0).abs() < 0.03, "{kind}: {spread}");
            pooled.pool(held);
        }
    }
    let spread = pooled.spread();
    println!("all {} figures: spread {spread:.4}", pooled.of);
    assert!((spread - 1.0).abs() < 0.02, "{spread}");
    assert_eq!(coverage.0.len(), 9);
}

/// Coordinates of two columns whose variances are `told` times their noise, and whose correlation
/// is `rho`: without noise, of 4,000 rows, both means at the middle.
fn moments_of(told: [f64; 2], rho: f64, std: f64) -> [f64; 6] {
    const ROWS: f64 = 4000.0;
    // Noise of a variance: that of its own coordinate, and that of the number of rows.
    let variance = |told: f64| told * std / (ROWS * ROWS - (told * std / 3.0).powi(2)).sqrt();
    let [a, b] = told.map(variance);
    let c = rho * (a * b).sqrt();
    let root = std::f64::consts::SQRT_2;
    [3.0 * ROWS, 0.0, 0.0, ROWS * a, ROWS * root * c, ROWS * b]
}

/// Where variances are hardly told from noise, correlations are shown by chance, of variances that
/// came out large. Their intervals hold all the same.
#[test]
fn correlations_at_the_threshold_of_being_shown_are_within_their_intervals() {
    let columns = ["x", "y"].map(str::to_owned);
    let rows = Amount {
        value: 4000.0,
        variance: 0.0,
    };
    let (std, z) = (20.0, ReadingAs::default().z());
    let mut rng = rng(17);
    let mut all = Held::default();
    for told in [
        [1.5, 1.5],
        [1.5, 30.0],
        [2.0, 2.0],
        [2.0, 30.0],
        [3.0, 3.0],
        [8.0, 8.0],
    ] {
        for rho in [0.0, 0.5, -0.9, 1.0] {
            let exact = moments_of(told, rho, std);
            let mut held = Held::default();
            for _ in 0..4000 {
                let noisy = exact.map(|moment| moment + std * normal(&mut rng));
                let found = covariance::figures(&columns, (&noisy, std), &[1.0, 1.0], rows);
                if let Some([low, high]) = found.correlation_interval((0, 1), z) {
                    let shown = correlation(&found).expect("shown");
                    assert!(-1.0 <= low && low <= shown && shown <= high && high <= 1.0);
                    // But for rounding.
                    held.add([low - 1e-9, high + 1e-9], rho);
                    all.add([low - 1e-9, high + 1e-9], rho);
                }
            }
            let (share, shown) = (held.share(), held.of);
            println!(
                "{told:?}, ρ = {rho}: {shown} of 4000 shown, {:.1} % hold",
                100.0 * share
            );
            assert!(share >= 0.93, "{told:?}, {rho}: {share}");
        }
    }
    assert!(all.share() >= 0.95, "{}", all.share());
}

/// Without noise an interval is the correlation; far from the threshold it is the error's, nearly.
#[test]
fn an_interval_of_a_correlation_is_no_wider_than_it_has_to_be() {
    let columns = ["x", "y"].map(str::to_owned);
    let rows = Amount {
        value: 4000.0,
        variance: 0.0,
    };
    for rho in [0.0, 0.5, -0.9] {
        let exact = moments_of([20.0, 20.0], rho, 20.0);
        let found = |std| covariance::figures(&columns, (&exact, std), &[1.0, 1.0], rows);
        let [low, high] = found(0.0).correlation_interval((0, 1), 2.0).expect("shown");
        assert!(
            (low - rho).abs() < 1e-6 && (high - rho).abs() < 1e-6,
            "{low} {high}"
        );
        let noisy = found(20.0);
        let [low, high] = noisy.correlation_interval((0, 1), 2.0).expect("shown");
        let noise = noisy.correlation_noise.as_ref().expect("shown")[0][1].expect("shown");
        let times = (high - low) / (4.0 * noise);
        assert!((1.0..1.2).contains(&times), "{times} times as wide");
        let own = noisy.correlation_interval((1, 1), 2.0);
        assert_eq!(own, Some([1.0, 1.0]));
    }
}
