//! INCA's Figure 3: the mean squared error of a mean over the share of parties that depart, by
//! mechanism, each with exact accounting.
//!
//! Where masks of pairs are Gaussian (GOPA, CorDP-DME) the finals of the honest parties show their
//! values through noise of covariance σ*² I + σ_Δ² L, L the Laplacian of the graph of masks among
//! them, so that μ² = Δ² max_i [(σ*² I + σ_Δ² L)⁻¹]_ii. What is left of masks when somebody departs
//! decides how large σ_Δ may be: of all ratios of both noises the one of least error is taken.

use faer::{Mat, Side};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::index::sample;
use serde::Serialize;

use crate::losses::gaussian::{self, GaussianError};
use crate::papers::error::PaperError;
use crate::papers::figure::{Cell, Chart, Figure, Table, curves};
use crate::papers::given::Given;

/// The parties that average, at which ε and δ, and how many are against them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Departing {
    /// n.
    pub(super) parties: usize,
    /// How many collude.
    pub(super) colluding: usize,
    /// ε.
    pub(super) epsilon: f64,
    /// δ.
    pub(super) delta: f64,
}

/// The setting in the caption of Figure 3: n = 200, ε = 0.2, δ = 10⁻⁵, a tenth colludes.
pub(super) const IN_PAPER: Departing = Departing {
    parties: 200,
    colluding: 20,
    epsilon: 0.2,
    delta: 1e-5,
};

/// With how many others a party of GOPA draws masks.
const EXCHANGES: usize = 20;

/// Draws of GOPA's graph, of which the one of the largest loss counts.
const GRAPHS: u64 = 5;

/// Seeds GOPA's graphs.
const SEED: u64 = 1;

/// A mechanism's name, and its mean squared error by how many depart; `None` where it has none.
type ErrorOfMechanism = (&'static str, fn(usize) -> Result<Option<f64>, GaussianError>);

/// All that are compared, the trusted server last.
const MECHANISMS: [ErrorOfMechanism; 7] = [
    ("local noise", |departed| IN_PAPER.local(departed).map(Some)),
    ("CorDP-DME, at least", |departed| {
        IN_PAPER.masks_that_stay(departed).map(Some)
    }),
    ("GOPA, half while it takes out", |departed| {
        gopa(departed, departed / 2)
    }),
    ("GOPA, a quarter while it takes out", |departed| {
        gopa(departed, departed / 4)
    }),
    ("GOPA, one while it takes out", |departed| gopa(departed, 1)),
    ("here, and secure aggregation", |departed| {
        IN_PAPER.taken_out(departed).map(Some)
    }),
    ("trusted server", |_| IN_PAPER.central().map(Some)),
];

/// GOPA, of whose departures `second` happen while the others take masks out.
fn gopa(departed: usize, second: usize) -> Result<Option<f64>, GaussianError> {
    if departed == 0 {
        return Ok(None);
    }
    IN_PAPER.masks_taken_out_by_who_stays(departed, second.max(1), SEED)
}

/// A point of a curve.
#[derive(Serialize)]
struct MechanismPoint {
    mechanism: &'static str,
    departed: f64,
    error: f64,
    #[serde(skip)]
    over_central: f64,
}

impl MechanismPoint {
    fn how(&self) -> &'static str {
        match self.mechanism.starts_with("GOPA") || self.mechanism.starts_with("CorDP") {
            true => "the best ratio of both",
            false => "exact",
        }
    }
}

/// Figure 3.
pub(crate) fn figure_3(_: &Given<'_>) -> Result<Figure, PaperError> {
    const SHARES: [f64; 4] = [0.0, 0.05, 0.1, 0.2];
    let central = IN_PAPER.central()?;
    let mut rows = Vec::new();
    for (mechanism, error) in MECHANISMS {
        for departed in SHARES {
            let found = error((departed * IN_PAPER.parties as f64).round() as usize)?;
            rows.extend(found.map(|error| MechanismPoint {
                mechanism,
                departed,
                error,
                over_central: error / central,
            }));
        }
    }
    Ok(Figure {
        title: format!(
            "INCA, Figure 3: mean squared error over the share that departs, n = {}, {} colluding, ε = {}, δ = {:e}",
            IN_PAPER.parties, IN_PAPER.colluding, IN_PAPER.epsilon, IN_PAPER.delta
        ),
        table: Table::of(
            &rows,
            &[
                ("mechanism", |row| Cell::text(row.mechanism)),
                ("departed", |row| Cell::text(row.departed)),
                ("mean squared error", |row| Cell::text(format!("{:.4e}", row.error))),
                ("× trusted server", |row| Cell::text(format!("{:.2}", row.over_central))),
                ("noise", |row| Cell::text(row.how())),
            ],
        ),
        notes: vec![
            "The paper prints no numbers of this figure. Its protocol leaves the noise of who departs; here it \
             is taken out, and whoever departs counts as one that colludes, as it does for nobody else in this \
             table."
                .into(),
            format!(
                "GOPA: masks with {EXCHANGES} others that each draws, the largest loss of five graphs; those who \
                 depart while masks are taken out leave theirs with the ones that departed before. CorDP-DME: \
                 masks with everybody, none taken out; a lower bound. Both with exact losses and the ratio of \
                 noises that errs least, which the paper's accounting does not reach."
            ),
        ],
        chart: Some(Chart {
            title: "Mean squared error, n = 200, ε = 0.2, δ = 1e-5, 20 colluding",
            x: "share of parties that depart",
            y: "mean squared error",
            logarithmic: true,
            counted: false,
            curves: curves(rows.iter().map(|row| (row.mechanism.into(), row.departed, row.error))),
        }),
    })
}

/// Gaussian masks over a graph, as the honest parties have them.
struct Masks {
    /// The eigenvalues of the Laplacian, and for each party the squares of its entries in the
    /// eigenvectors.
    eigenvalues: Vec<f64>,
    squares: Vec<Vec<f64>>,
}

impl Masks {
    fn of(parties: usize, edges: &[(usize, usize)]) -> Option<Self> {
        let mut laplacian = Mat::<f64>::zeros(parties, parties);
        for &(a, b) in edges {
            laplacian[(a, a)] += 1.0;
            laplacian[(b, b)] += 1.0;
            laplacian[(a, b)] -= 1.0;
            laplacian[(b, a)] -= 1.0;
        }
        let found = laplacian.self_adjoint_eigen(Side::Lower).ok()?;
        let vectors = found.U();
        let row = |party: usize| (0..parties).map(|k| vectors[(party, k)].powi(2)).collect();
        Some(Masks {
            eigenvalues: (0..parties).map(|k| found.S()[k].max(0.0)).collect(),
            squares: (0..parties).map(row).collect(),
        })
    }

    /// The largest μ² at σ* = 1 and Δ = 1, with σ_Δ² = `ratio`.
    fn square(&self, ratio: f64) -> f64 {
        let of = |squares: &Vec<f64>| -> f64 {
            let each = squares.iter().zip(&self.eigenvalues);
            each.map(|(square, value)| square / (1.0 + ratio * value)).sum()
        };
        self.squares.iter().map(of).fold(0.0, f64::max)
    }
}

impl Departing {
    /// Noise once, by a server that everybody trusts.
    pub(super) fn central(&self) -> Result<f64, GaussianError> {
        Ok(self.alone()? / (self.parties as f64).powi(2))
    }

    /// A party's own noise for its own number, of those who stay.
    fn local(&self, departed: usize) -> Result<f64, GaussianError> {
        Ok(self.alone()? / (self.parties - departed) as f64)
    }

    /// Sums in which nothing is left of who departed, and of whose noise the colluding and the
    /// departed count for nothing: plans of this project, and secure aggregation with distributed
    /// noise.
    pub(super) fn taken_out(&self, departed: usize) -> Result<f64, GaussianError> {
        let hidden = (self.parties - self.colluding - departed) as f64;
        Ok(self.alone()? / (hidden * (self.parties - departed) as f64))
    }

    /// CorDP-DME: masks with everybody, none taken out. A lower bound, as the paper's: what is
    /// missing of the departed's values is not counted, nor that they may tell the colluding of
    /// their masks.
    fn masks_that_stay(&self, departed: usize) -> Result<f64, GaussianError> {
        let honest = (self.parties - self.colluding) as f64;
        // 1/(h σ*²) for the sum, and all else behind h times the mask's variance.
        let square = |ratio: f64| 1.0 / honest + (1.0 - 1.0 / honest) / (1.0 + honest * ratio);
        let stay = (self.parties - departed) as f64;
        let open = departed as f64 * stay;
        self.least_error(square, stay, open)
    }

    /// GOPA: masks with [`EXCHANGES`] others that each party draws; `second` of the departed leave
    /// while the others take out the masks of the first ones, so that theirs with these stay. Their
    /// numbers are in the mean.
    fn masks_taken_out_by_who_stays(
        &self,
        departed: usize,
        second: usize,
        seed: u64,
    ) -> Result<Option<f64>, GaussianError> {
        let mut graphs = Vec::new();
        for draw in 0..GRAPHS {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(draw);
            let honest = self.parties - self.colluding;
            let Some(masks) = Masks::of(honest, &self.edges(&mut random)) else {
                return Ok(None);
            };
            graphs.push(masks);
        }
        let square = |ratio: f64| graphs.iter().map(|masks| masks.square(ratio)).fold(0.0, f64::max);
        let first = departed - second;
        let stay = (self.parties - first) as f64;
        // As many masks a pair has on average.
        let share = 2.0 * EXCHANGES as f64 / (self.parties - 1) as f64;
        self.least_error(square, stay, first as f64 * second as f64 * share)
            .map(Some)
    }

    /// The masks among honest parties: who draws whom, of all.
    fn edges(&self, random: &mut ChaCha8Rng) -> Vec<(usize, usize)> {
        let honest = self.parties - self.colluding;
        let mut edges = Vec::new();
        for party in 0..self.parties {
            for other in sample(random, self.parties - 1, EXCHANGES) {
                let other = other + usize::from(other >= party);
                if party < honest && other < honest {
                    edges.push((party, other));
                }
            }
        }
        edges
    }

    /// The least (stay σ*² + open σ_Δ²)/stay² over the ratio of both noises that meets (ε, δ).
    fn least_error(&self, square: impl Fn(f64) -> f64, stay: f64, open: f64) -> Result<f64, GaussianError> {
        let alone = self.alone()?;
        // μ² = square/σ*²: σ*² is `alone` times the square.
        let error = |ln: f64| alone * square(libm::exp(ln)) * (stay + open * libm::exp(ln)) / (stay * stay);
        let (mut low, mut high) = (-12.0f64, 16.0f64);
        for _ in 0..80 {
            let (left, right) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
            if error(left) < error(right) {
                high = right;
            } else {
                low = left;
            }
        }
        Ok(error((low + high) / 2.0))
    }

    /// 1/μ²: the variance that one number needs by itself.
    fn alone(&self) -> Result<f64, GaussianError> {
        Ok(gaussian::mu(self.epsilon, self.delta)?.powi(-2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eigenvalues_give_the_losses_of_the_complete_graph_and_of_none() {
        let complete: Vec<(usize, usize)> = (0..9).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
        let masks = Masks::of(9, &complete).expect("symmetric");
        for ratio in [0.01, 1.0, 300.0] {
            let expected = 1.0 / 9.0 + (8.0 / 9.0) / (1.0 + 9.0 * ratio);
            assert!((masks.square(ratio) / expected - 1.0).abs() < 1e-9, "{ratio}");
        }
        let none = Masks::of(9, &[]).expect("symmetric");
        assert!((none.square(7.0) - 1.0).abs() < 1e-12);
    }

    /// The caption's trusted server, and a plan of ours with 20 that departed.
    #[test]
    fn what_is_taken_out_costs_the_least_of_what_is_accounted_here() {
        let central = IN_PAPER.central().expect("in range");
        assert!((central / 0.0066 - 1.0).abs() < 0.02, "{central}");
        let ours = IN_PAPER.taken_out(20).expect("in range");
        assert!((ours / 0.0092 - 1.0).abs() < 0.01, "{ours}");
        let cordp = IN_PAPER.masks_that_stay(20).expect("in range");
        let gopa = |second| {
            let found = IN_PAPER.masks_taken_out_by_who_stays(20, second, 1);
            found.expect("in range").expect("a graph")
        };
        let (half, one) = (gopa(10), gopa(1));
        assert!(
            central < ours && ours < half && one < half && half < cordp,
            "{one} {half} {cordp}"
        );
        // With everybody there all of them come to the floor.
        let floor = IN_PAPER.taken_out(0).expect("in range");
        let calm = IN_PAPER.masks_that_stay(0).expect("in range");
        assert!((calm / floor - 1.0).abs() < 1e-3, "{calm} {floor}");
        let local = IN_PAPER.local(20).expect("in range");
        assert!(cordp < local, "{cordp} {local}");
    }
}
