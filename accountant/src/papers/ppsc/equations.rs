//! The paper's Tables 5 and 6, computed again: Algorithm 3 on the ten equations of its Table 4.
//!
//! Public graph: the cycle of ten, here with edges of weight 1/4. Private graph: the paths of
//! Tables 2 and 3. The paper's letters: L outer iterations, each of S iterations of multi-gossip, T
//! rounds of public averaging and a projection; y* the solution, ζ₀ where all begin, λ_H how much
//! of an error an outer iteration leaves, ν the squared error that is allowed at the end.

use faer::{Mat, Side};
use ndarray::Array2;
use ndarray::linalg::kron;
use serde::Serialize;

use crate::bounds::paper_noise::{Equations, OuterIterations};
use crate::papers::error::PaperError;
use crate::papers::figure::{Cell, Compared, Figure, Table};
use crate::papers::given::Given;
use crate::papers::ppsc::averaging::{
    PATHS, chances, connectivity_of_the_cycle, every_edge, every_state, round_on_the_cycle,
};
use crate::papers::ppsc::second_moments::SecondMoments;

const PARTIES: usize = 10;
const DIMENSION: usize = 6;
/// Table 4: each party's equation hᵀy = z.
const EQUATIONS: [([f64; DIMENSION], f64); PARTIES] = [
    ([1.0, 2.0, 0.0, 0.0, 0.0, 0.0], -15.0),
    ([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], 5.0),
    ([0.0, 1.0, 1.0, 0.0, 0.0, 3.0], 15.0),
    ([0.0, -1.0, 1.0, 2.0, 5.0, -2.0], 5.0),
    ([5.0, -2.0, 0.0, 2.0, 0.0, 1.0], 40.0),
    ([2.0, 0.0, 1.0, 0.0, 2.0, 1.0], 27.0),
    ([1.0, 1.0, 1.0, 2.0, 0.0, 1.0], 0.0),
    ([3.0, 1.0, 5.0, 6.0, 8.0, -2.0], 23.0),
    ([0.0, -2.0, 0.0, 1.0, 5.0, 0.0], 20.0),
    ([0.0, 0.0, 0.0, 0.0, 2.0, -1.0], -3.0),
];
/// The solution, as Table 4 has it.
const SOLUTION: [f64; DIMENSION] = [5.0, -10.0, 10.0, -5.0, 1.0, 5.0];
const EDGE_WEIGHT: f64 = 0.25;
/// S of all these runs.
const GOSSIP_ITERATIONS: usize = 26;
/// The chance that is asked for: ρ.
const RHO: f64 = 0.95;
const DELTA: f64 = 1e-6;
/// Numbers that the paper does not print, and that its own follow from. They are ε₀ of L*, and the
/// lengths of ζ₀ and of ζ₀ − y*, the latter squared.
const SLACK: f64 = 0.01;
const START_LENGTH: f64 = 14.0;
const START_APART_SQUARED: f64 = 395.0;
/// The accuracies ν, and what the paper has for L.
const ACCURACIES: [(f64, usize); 3] = [(1.0, 207), (0.1, 260), (0.01, 313)];
const EPSILONS: [f64; 3] = [1e-3, 1e-2, 1e-1];

/// λ_ppsc with which the paper's numbers follow, as in its Table 3: √(3 − √5).
fn paper_lambda() -> f64 {
    (3.0 - 5f64.sqrt()).sqrt()
}

/// The lengths of y* and of the equations' directions.
struct TableFour {
    /// ‖y*‖.
    solution: f64,
    /// λ_H.
    left: f64,
}

impl TableFour {
    fn of_table_4() -> Self {
        let mut mean: Mat<f64> = Mat::identity(DIMENSION, DIMENSION);
        for (h, _) in &EQUATIONS {
            let square = square(h);
            for (a, b) in pairs() {
                mean[(a, b)] -= h[a] * h[b] / square / PARTIES as f64;
            }
        }
        TableFour {
            solution: square(&SOLUTION).sqrt(),
            left: mean
                .self_adjoint_eigenvalues(Side::Lower)
                .map_or(f64::NAN, |values| values[DIMENSION - 1]),
        }
    }

    /// L*.
    fn outer_iterations(&self, accuracy: f64) -> f64 {
        let start = 2.0 * PARTIES as f64 * START_APART_SQUARED;
        let left = libm::log(SLACK + self.left * self.left) - libm::log1p(SLACK);
        ((libm::log(accuracy) - libm::log(start)) / left).ceil()
    }

    /// σ_γ* and T* of Theorem 3.
    fn theorem_3(&self, epsilon: f64, accuracy: f64, outer: usize, spread: f64) -> (f64, f64) {
        let (n, l) = (PARTIES as f64, outer as f64);
        let equations = Equations {
            accuracy,
            solution_norm: self.solution,
            start_norm: START_LENGTH,
            contraction: self.left,
        };
        let bound = equations.bound(spread);
        let iterations = OuterIterations {
            parties: PARTIES,
            iterations: outer as u64,
            epsilon,
            delta: DELTA,
            least_singular_value: paper_lambda(),
        };
        let pairwise = iterations.of_change(accuracy.sqrt() + bound + n.sqrt());
        let noise = ((PATHS.len() * GOSSIP_ITERATIONS) as f64 * pairwise).powi(2);
        let missed = -libm::expm1(libm::log(RHO) / (2.0 * l));
        let shrinks = 1.0 - self.left * self.left;
        let least = [
            0.5 * libm::log(missed * accuracy / (bound * bound + 2.0 * noise)),
            libm::log(shrinks / (5.0 * n * (1.0 + 1.0 / SLACK))),
            libm::log(accuracy * shrinks / (16.0 * (n * self.solution * self.solution + noise))),
        ];
        let least = least.into_iter().fold(f64::INFINITY, f64::min);
        let connectivity = connectivity_of_the_cycle(PARTIES, EDGE_WEIGHT);
        (pairwise, (least / libm::log1p(-connectivity)).ceil())
    }
}

fn square(vector: &[f64]) -> f64 {
    vector.iter().map(|v| v * v).sum()
}

/// An entry of Table 5: how many public rounds in each outer iteration an accuracy takes.
#[derive(Debug, Serialize)]
pub struct RoundsOfEquations {
    /// ε of the whole of Algorithm 3.
    pub epsilon: f64,
    /// The expected squared distance of all nodes from the solution that is allowed, ν.
    pub accuracy: f64,
    /// L by Theorem 3.
    pub outer: Compared,
    /// T by Theorem 3, with n where the bound φ* on the states has √n.
    pub theorem: Compared,
    /// T by Theorem 3 as in the paper.
    pub theorem_as_in_paper: f64,
    /// σ_γ of Theorem 3 as in the paper, which `least` rests on.
    pub pairwise_std: f64,
    /// The fewest rounds that reach the accuracy, the expectation computed.
    pub least: Compared,
}

/// Table 5 as it is shown.
pub(crate) fn figure_of_table_5(_: &Given<'_>) -> Result<Figure, PaperError> {
    Ok(Figure {
        title: "PPSC, Table 5: public rounds T in each outer iteration of Algorithm 3 on Table 4's equations, \
                on the cycle of ten (weights 1/4), S = 26, until E Σ‖x − y*‖² ≤ ν"
            .into(),
        table: Table::of(
            &table_5(),
            &[
                ("ε", |row| Cell::Number(row.epsilon)),
                ("ν", |row| Cell::Number(row.accuracy)),
                ("L", |row| Cell::text(row.outer.ours)),
                ("T, Theorem 3", |row| Cell::text(row.theorem.paper)),
                ("ours", |row| Cell::text(row.theorem.ours)),
                ("ratio", |row| Cell::text(format!("{:.3}", row.theorem.ratio))),
                ("as in the paper", |row| Cell::text(row.theorem_as_in_paper)),
                ("least T, Figure 7", |row| Cell::text(row.least.paper)),
                ("ours", |row| Cell::text(row.least.ours)),
                ("ratio", |row| Cell::text(format!("{:.3}", row.least.ratio))),
            ],
        ),
        notes: vec![
            "Theorem 3's T follows with n where its bound φ* on the states has √n; \"as in the paper\" is with √n."
                .into(),
            "Its L and T need numbers that the paper does not print: λ_ppsc = √(3 − √5), ε₀ = 0.01, ‖ζ₀‖ = 14 \
             and ‖ζ₀ − y*‖² = 395 give all of them."
                .into(),
            "Figure 7 is simulated; ours is the exact expectation over edges, noise (σ_γ as in the paper, √n) and \
             the direction of ζ₀, which the paper does not print."
                .into(),
            "ε is the paper's: Theorem 3's noise needs ‖y*‖, the private solution, and no T and no noise hides \
             the exact sum of each piece of the private graph, from which d + 1 iterations give its equations."
                .into(),
        ],
        chart: None,
    })
}

/// The paper's Table 5, computed again.
pub fn table_5() -> Vec<RoundsOfEquations> {
    let in_paper = [
        [(552, 204), (579, 217), (605, 229)],
        [(507, 180), (533, 192), (559, 207)],
        [(461, 155), (487, 170), (513, 182)],
    ];
    let setting = TableFour::of_table_4();
    let mut errors = Errors::new();
    let mut rows = vec![];
    for (epsilon, columns) in EPSILONS.into_iter().zip(in_paper) {
        for ((accuracy, outer), (theorem, least)) in ACCURACIES.into_iter().zip(columns) {
            let n = PARTIES as f64;
            let (pairwise_std, as_in_paper) = setting.theorem_3(epsilon, accuracy, outer, n.sqrt());
            rows.push(RoundsOfEquations {
                epsilon,
                accuracy,
                outer: Compared::new(outer as f64, setting.outer_iterations(accuracy)),
                theorem: Compared::new(
                    f64::from(theorem),
                    setting.theorem_3(epsilon, accuracy, outer, n).1,
                ),
                theorem_as_in_paper: as_in_paper,
                pairwise_std,
                least: Compared::new(
                    f64::from(least),
                    errors.least_rounds(accuracy, outer, pairwise_std),
                ),
            });
        }
    }
    rows
}

/// Expected squared distances from the solution after Algorithm 3, by rounds T: exact, over edges,
/// noise and the direction of ζ₀.
struct Errors {
    gossip: SecondMoments,
    /// By T: for each L of the paper's, the distance without noise, and what noise of variance 1 in
    /// each exchange adds.
    known: Vec<Option<[(f64, f64); ACCURACIES.len()]>>,
}

/// Rounds T that are looked at: from the first, with which no accuracy of the table is reached, to
/// below the second.
const FEWEST: usize = 128;
const MOST: usize = 256;

impl Errors {
    fn new() -> Self {
        Errors {
            gossip: SecondMoments::of(&PATHS, GOSSIP_ITERATIONS),
            known: vec![None; MOST],
        }
    }

    /// The fewest rounds with which the error is at most `accuracy`: by halves, since more rounds
    /// never err more.
    fn least_rounds(&mut self, accuracy: f64, outer: usize, pairwise_std: f64) -> f64 {
        let row = ACCURACIES
            .iter()
            .position(|&(_, l)| l == outer)
            .expect("one of them");
        let (mut short, mut enough) = (FEWEST, MOST - 1);
        while short < enough {
            let middle = short + (enough - short) / 2;
            let gossip = &self.gossip;
            let all = self.known[middle].get_or_insert_with(|| errors(gossip, middle));
            let (start, noise) = all[row];
            if start + pairwise_std * pairwise_std * noise <= accuracy {
                enough = middle;
            } else {
                short = middle + 1;
            }
        }
        enough as f64
    }
}

/// The error after each L of the paper's, with T = `rounds`: without noise, and of noise alone.
fn errors(gossip: &SecondMoments, rounds: usize) -> [(f64, f64); ACCURACIES.len()] {
    let average = power(&round_on_the_cycle(PARTIES, EDGE_WEIGHT), rounds);
    // Noise adds up to nothing: taken without its sum, which rounding would bring back.
    let apart = round_on_the_cycle(PARTIES, EDGE_WEIGHT) - 1.0 / PARTIES as f64;
    let apart = power(&apart, rounds);
    let fresh = apart.dot(&gossip.noise).dot(&apart);
    let means = average.dot(&gossip.means);
    let products = kron(&average, &average).dot(&gossip.products);
    let mut start = Moments::of_start();
    let mut noise = Moments::nothing();
    let mut found = [(0.0, 0.0); ACCURACIES.len()];
    for outer in 1..=ACCURACIES[ACCURACIES.len() - 1].1 {
        for moments in [&mut start, &mut noise] {
            moments.means = means.dot(&moments.means);
            moments.products = products.dot(&moments.products);
        }
        noise.add(&fresh);
        // Noise leaves the mean as it is: of its part, there is no solution to be away from.
        start.project(&SOLUTION);
        noise.project(&[0.0; DIMENSION]);
        if let Some(row) = ACCURACIES.iter().position(|&(_, l)| l == outer) {
            found[row] = (start.distance(&SOLUTION), noise.distance(&[0.0; DIMENSION]));
        }
    }
    found
}

fn power(step: &Array2<f64>, times: usize) -> Array2<f64> {
    (0..times).fold(Array2::eye(step.nrows()), |all, _| step.dot(&all))
}

/// A square matrix over coordinates.
type Square = [[f64; DIMENSION]; DIMENSION];

/// The expectations of the parties' states, and of the products of two coordinates of them.
struct Moments {
    /// A row a party.
    means: Array2<f64>,
    /// A row for each two parties, a column for each two coordinates.
    products: Array2<f64>,
}

impl Moments {
    fn nothing() -> Self {
        Moments {
            means: Array2::zeros((PARTIES, DIMENSION)),
            products: Array2::zeros((PARTIES * PARTIES, DIMENSION * DIMENSION)),
        }
    }

    /// All at ζ₀, then each on its own equation: ζ₀ as long and as far from y* as the paper's L and
    /// σ_γ need it, and all directions alike beside that.
    fn of_start() -> Self {
        let length_squared = square(&SOLUTION);
        let inner = (START_LENGTH * START_LENGTH + length_squared - START_APART_SQUARED) / 2.0;
        let along = inner / length_squared;
        let aside = START_LENGTH * START_LENGTH - along * along * length_squared;
        let aside = aside / (DIMENSION - 1) as f64;
        let mut moments = Moments::nothing();
        for (a, b) in pairs() {
            let both = SOLUTION[a] * SOLUTION[b];
            let product = along * along * both + aside * (identity(a, b) - both / length_squared);
            moments.products.column_mut(a * DIMENSION + b).fill(product);
        }
        for (coordinate, y) in SOLUTION.iter().enumerate() {
            moments.means.column_mut(coordinate).fill(along * y);
        }
        moments.project(&SOLUTION);
        moments
    }

    /// Adds noise that is alike in every coordinate, and independent.
    fn add(&mut self, noise: &Array2<f64>) {
        for coordinate in 0..DIMENSION {
            let column = self.products.column_mut(coordinate * (DIMENSION + 1));
            column
                .into_iter()
                .zip(noise)
                .for_each(|(product, noise)| *product += noise);
        }
    }

    /// The expectation of (x_a − y)(x_b − y)ᵀ.
    fn apart(&self, (a, b): (usize, usize), y: &[f64; DIMENSION]) -> Square {
        let products = self.products.row(a * PARTIES + b);
        let (of_a, of_b) = (self.means.row(a), self.means.row(b));
        let mut apart = Square::default();
        for (i, j) in pairs() {
            apart[i][j] = products[i * DIMENSION + j] - of_a[i] * y[j] - y[i] * of_b[j] + y[i] * y[j];
        }
        apart
    }

    /// Each party's state onto its own equation, `y` a solution of all.
    fn project(&mut self, y: &[f64; DIMENSION]) {
        let onto = EQUATIONS.map(|(h, _)| projection(&h));
        let mut means = self.means.clone();
        for (party, onto) in onto.iter().enumerate() {
            let off = |i: usize| self.means[[party, i]] - y[i];
            for (i, row) in onto.iter().enumerate() {
                means[[party, i]] = y[i] + (0..DIMENSION).map(|j| row[j] * off(j)).sum::<f64>();
            }
        }
        for (a, b) in (0..PARTIES).flat_map(|a| (0..PARTIES).map(move |b| (a, b))) {
            let apart = times(&times(&onto[a], &self.apart((a, b), y)), &onto[b]);
            for (i, j) in pairs() {
                self.products[[a * PARTIES + b, i * DIMENSION + j]] =
                    apart[i][j] + means[[a, i]] * y[j] + y[i] * means[[b, j]] - y[i] * y[j];
            }
        }
        self.means = means;
    }

    /// The expectation of Σ_k ‖x_k − y‖².
    fn distance(&self, y: &[f64; DIMENSION]) -> f64 {
        let of_party = |party: usize| {
            let apart = self.apart((party, party), y);
            (0..DIMENSION).map(|i| apart[i][i]).sum::<f64>()
        };
        (0..PARTIES).map(of_party).sum()
    }
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..DIMENSION).flat_map(|i| (0..DIMENSION).map(move |j| (i, j)))
}

fn identity(i: usize, j: usize) -> f64 {
    if i == j { 1.0 } else { 0.0 }
}

fn times(a: &Square, b: &Square) -> Square {
    let mut product = Square::default();
    for (row, of_a) in product.iter_mut().zip(a) {
        for (factor, of_b) in of_a.iter().zip(b) {
            row.iter_mut().zip(of_b).for_each(|(p, b)| *p += factor * b);
        }
    }
    product
}

/// The projection onto what is perpendicular to `h`.
fn projection(h: &[f64; DIMENSION]) -> Square {
    let square = square(h);
    let mut onto = Square::default();
    pairs().for_each(|(i, j)| onto[i][j] = identity(i, j) - h[i] * h[j] / square);
    onto
}

/// A row of Table 6: the chance that in every outer iteration every state changes, which the paper
/// takes for that of privacy.
#[derive(Debug, Serialize)]
struct CoverageOfEquations {
    /// ε of the paper's runs; nothing here depends on it.
    epsilon: f64,
    /// The accuracy ν, which decides L.
    accuracy: f64,
    /// Outer iterations L.
    outer: usize,
    /// The chance that every state changes in each outer iteration; exact.
    #[serde(rename = "probability")]
    chance: Compared,
    /// The chance that in each outer iteration all edges of the private graph are used, so that the
    /// noises have full rank; exact.
    full_rank: f64,
}

/// Table 6 as it is shown.
pub(crate) fn figure_of_table_6(_: &Given<'_>) -> Result<Figure, PaperError> {
    Ok(Figure {
        title: "PPSC, Table 6: probability that every state changes in each of L outer iterations, S = 26"
            .into(),
        table: Table::of(
            &table_6(),
            &[
                ("ε", |row| Cell::Number(row.epsilon)),
                ("ν", |row| Cell::Number(row.accuracy)),
                ("L", |row| Cell::text(row.outer)),
                ("probability", |row| Cell::text(row.chance.paper)),
                ("ours", |row| Cell::text(format!("{:.5}", row.chance.ours))),
                ("ratio", |row| Cell::text(format!("{:.4}", row.chance.ratio))),
                ("full rank", |row| Cell::text(format!("{:.4}", row.full_rank))),
            ],
        ),
        notes: vec![
            "The paper's are shares of samples; ours are exact, and do not depend on ε.".into(),
            "Every state having changed does not give the noises full rank: the last column is the chance of \
             that in each of the L iterations, below the 0.95 that is asked for."
                .into(),
        ],
        chart: None,
    })
}

/// The paper's Table 6, computed again.
fn table_6() -> Vec<CoverageOfEquations> {
    let in_paper = [
        [0.9975, 0.9975, 0.9970],
        [0.9983, 0.9970, 0.9971],
        [0.9977, 0.9970, 0.9967],
    ];
    let changed = chances(every_state)[GOSSIP_ITERATIONS];
    let joined = chances(every_edge)[GOSSIP_ITERATIONS];
    let rows = |(epsilon, columns): (f64, [f64; 3])| {
        ACCURACIES
            .into_iter()
            .zip(columns)
            .map(move |((accuracy, outer), paper)| CoverageOfEquations {
                epsilon,
                accuracy,
                outer,
                chance: Compared::new(paper, changed.powi(outer as i32)),
                full_rank: joined.powi(outer as i32),
            })
    };
    EPSILONS.into_iter().zip(in_paper).flat_map(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_equation_holds_at_the_solution() {
        for (h, z) in &EQUATIONS {
            let at: f64 = h.iter().zip(SOLUTION).map(|(h, y)| h * y).sum();
            assert_eq!(at, *z);
        }
    }

    #[test]
    fn table_5_follows() {
        let mut as_in_paper = vec![];
        for row in table_5() {
            assert_eq!(row.outer.ours, row.outer.paper, "{row:?}");
            assert_eq!(row.theorem.ours, row.theorem.paper, "{row:?}");
            assert!((row.least.ours - row.least.paper).abs() <= 4.0, "{row:?}");
            as_in_paper.push(row.theorem_as_in_paper);
        }
        assert_eq!(
            as_in_paper,
            [533.0, 557.0, 583.0, 487.0, 512.0, 537.0, 442.0, 466.0, 491.0]
        );
    }

    #[test]
    fn table_6_follows_and_is_not_full_rank() {
        for row in table_6() {
            // The paper has samples: within 0.0005 of the exact chance.
            assert!((row.chance.ours - row.chance.paper).abs() < 5e-4, "{row:?}");
            assert!(row.full_rank < 0.9, "{row:?}");
        }
    }
}
