//! The newest version's Figures 1 and 2, and the first version's Figure 1: scaled squared
//! sensitivities of pairs of nodes over the number of rounds.

use serde::Serialize;
use undertone_protocol::topology::graph::Graph;

use crate::account::gossip::edges;
use crate::account::gossip::observers::Observers;
use crate::account::gossip::threat::{GossipError, ObserversNoise, ObserversView, Threat};
use crate::account::gossip::weights::{Scheme, Weights};
use crate::papers::error::PaperError;
use crate::papers::figure::{Cell, Chart, Curve, Figure, Table, curves};
use crate::papers::given::Given;
use crate::papers::kk::graphs::{Pair, evenly_joined, grown, random_pairs};
use crate::parallel::in_parallel;

/// T of each point of a curve.
const ROUNDS: [usize; 9] = [1, 2, 5, 10, 20, 50, 100, 150, 200];

/// The node of the Facebook graph that the paper looks at, and who looks: its first two neighbours,
/// then the first two others.
const FACEBOOK: (usize, [usize; 4]) = (300, [0, 80, 1, 2]);

/// A point of a curve: a pair on a graph, seen in one way, after some rounds; squared sensitivities
/// over the number of rounds.
#[derive(Serialize)]
struct PairPoint {
    graph: &'static str,
    /// How the pair lies.
    pair: &'static str,
    view: &'static str,
    rounds: usize,
    observer: usize,
    target: usize,
    paper_limit: f64,
    /// For contribution 1 in every round.
    even: f64,
    /// For any contributions, by the paper's bound.
    paper_bound: f64,
    /// For any contributions.
    upper: f64,
}

/// A graph with what its pairs are looked at with.
struct LookedAt {
    name: &'static str,
    graph: Graph,
    scheme: Scheme,
    noise: ObserversNoise,
}

impl LookedAt {
    fn points(&self, pairs: &[Pair], views: &[ObserversView]) -> Result<Vec<PairPoint>, PaperError> {
        let weights = Weights::of(&self.graph, self.scheme);
        let mut points = Vec::new();
        for &view in views {
            for &pair in pairs {
                let found = over_rounds(&weights, pair, (view, self.noise), &ROUNDS)?;
                points.extend(ROUNDS.into_iter().zip(found).map(|(rounds, found)| PairPoint {
                    graph: self.name,
                    pair: match self.graph.joins(pair.observer, pair.target) {
                        true => "neighbour",
                        false => "not adjacent",
                    },
                    view: match view {
                        ObserversView::Messages => "messages",
                        ObserversView::Sum => "sums",
                    },
                    rounds,
                    observer: pair.observer,
                    target: pair.target,
                    paper_limit: 1.0 / self.graph.parties() as f64,
                    even: found.even / rounds as f64,
                    paper_bound: found.spectral / rounds as f64,
                    upper: found.upper / rounds as f64,
                }));
            }
        }
        Ok(points)
    }
}

/// The points of the newest version's Figures 1 and 2.
fn newest(given: &Given<'_>) -> Result<Vec<PairPoint>, PaperError> {
    let drawn = [
        ("a) Erdős–Rényi, p = 0.15", evenly_joined(100, 0.15, given.seed)),
        ("b) preferential attachment", grown(100, 5, 3, given.seed)),
    ];
    let mut points = Vec::new();
    for (name, graph) in drawn {
        given.show(name);
        let pairs = random_pairs(&graph, given.seed);
        let drawn = LookedAt {
            name,
            graph,
            scheme: Scheme::Metropolis,
            noise: ObserversNoise::Unknown,
        };
        points.extend(drawn.points(&pairs, &[ObserversView::Messages, ObserversView::Sum])?);
    }
    Ok(points)
}

/// These points, and curves that show a view of them: for equal contributions, and what holds for
/// any.
fn figure(title: &str, chart: &'static str, points: &[PairPoint], curves: Vec<Curve>) -> Figure {
    Figure {
        title: title.into(),
        table: Table::of(
            points,
            &[
                ("graph", |point| Cell::text(point.graph)),
                ("pair", |point| Cell::text(point.pair)),
                ("view", |point| Cell::text(point.view)),
                ("T", |point| Cell::text(point.rounds)),
                ("Δ²/T, c = 1", |point| Cell::Number(point.even)),
                ("paper's limit", |point| Cell::Number(point.paper_limit)),
                ("paper's bound λ_max", |point| Cell::Number(point.paper_bound)),
                ("Δ²/T, any c, at most", |point| Cell::Number(point.upper)),
                ("bound over c = 1", |point| {
                    let above = (point.even > 0.0).then(|| point.paper_bound / point.even);
                    Cell::perhaps(above.map(|above| format!("{above:.3}")))
                }),
            ],
        ),
        notes: Vec::new(),
        chart: Some(Chart {
            title: chart,
            x: "rounds T",
            y: "squared sensitivity / T",
            logarithmic: true,
            counted: true,
            curves,
        }),
    }
}

/// Two curves for each pair in this view: for contribution 1 in every round, and `above`.
fn lines(points: &[PairPoint], view: &str, (name, above): (&str, fn(&PairPoint) -> f64)) -> Vec<Curve> {
    let key = |point: &PairPoint| (point.graph, point.view, point.observer, point.target);
    let pairs = points.chunk_by(|a, b| key(a) == key(b));
    let both = |pair: &[PairPoint]| {
        curves(pair.iter().flat_map(|point| {
            [("c = 1", point.even), (name, above(point))].map(|(side, y)| {
                let name = format!("{}, {}, {side}", point.graph, point.pair);
                (name, point.rounds as f64, y)
            })
        }))
    };
    pairs.filter(|pair| pair[0].view == view).flat_map(both).collect()
}

const DRAWN: &str = "The paper draws graph and pairs at random and prints neither, nor numbers: --seed draws others. \
                     It says that Δ²/T comes to 1/n.";
const NOT_ONE: &str = "1/n is the limit for contributions that are 1 in every round. The worst ones alternate: what \
                       is valid for any is min(1ᵀ|M|1, T λ_max(M)), which stays above it for neighbours.";

/// Figure 1 of the newest version.
pub(crate) fn figure_1(given: &Given<'_>) -> Result<Figure, PaperError> {
    let points = newest(given)?;
    let notes = vec![
        DRAWN.into(),
        NOT_ONE.into(),
        "The paper's matrices have the observer's own message (\"messages\"); \"sums\" is what secure sums show.".into(),
    ];
    Ok(Figure {
        notes,
        ..figure(
            "KK, newest version, Figure 1: squared sensitivity over T, n = 100, of one observer",
            "Squared sensitivity over T, n = 100, own messages",
            &points,
            lines(&points, "messages", ("any c", |point| point.upper)),
        )
    })
}

/// Figure 2 of the newest version.
pub(crate) fn figure_2(given: &Given<'_>) -> Result<Figure, PaperError> {
    let points = newest(given)?;
    let most = |view: &str| {
        let large = points
            .iter()
            .filter(|point| point.view == view && point.rounds >= 100);
        large
            .map(|point| point.paper_bound / point.even)
            .fold(0.0, f64::max)
    };
    let notes = vec![
        DRAWN.into(),
        format!(
            "The paper says that its bound T λ_max(M) is less than 10 % above what c = 1 gives. Here, from T = 100 \
             on, it is up to {:.2} times that for own messages, and {:.2} times for sums, where contributions \
             that alternate reach most of it.",
            most("messages"),
            most("sums")
        ),
        NOT_ONE.into(),
    ];
    Ok(Figure {
        notes,
        ..figure(
            "KK, newest version, Figure 2: the upper bound on the squared sensitivity over T, n = 100",
            "Upper bound on the squared sensitivity over T, n = 100",
            &points,
            lines(&points, "messages", ("λ_max", |point| point.paper_bound)),
        )
    })
}

/// Figure 1 of the first version; its right half where the Facebook graph is given.
pub(crate) fn first_figure_1(given: &Given<'_>) -> Result<Figure, PaperError> {
    let looked_at = |name, graph| LookedAt {
        name,
        graph,
        scheme: Scheme::MaxDegree,
        noise: ObserversNoise::Known,
    };
    let views = [ObserversView::Sum];
    let left = looked_at("left: Erdős–Rényi, p = 0.2", evenly_joined(100, 0.2, given.seed));
    given.show(left.name);
    let mut points = left.points(&random_pairs(&left.graph, given.seed), &views)?;
    let right = match given.facebook {
        Some(text) => {
            let right = looked_at("right: Facebook", edges::connected(text)?);
            given.show(right.name);
            let (target, observers) = FACEBOOK;
            let found = right.graph.parties();
            if found <= target {
                return Err(PaperError::Nodes { found, target });
            }
            points.extend(right.points(&observers.map(|observer| Pair { observer, target }), &views)?);
            "Right: the edges given, weights 1/max(dᵢ, dⱼ), target 300; nothing is drawn."
        }
        None => {
            "Right: Facebook's social circles, 4,039 nodes, with --data, a folder with \
             facebook_combined.txt of Stanford's collection."
        }
    };
    Ok(Figure {
        notes: vec![DRAWN.into(), NOT_ONE.into(), right.into()],
        ..figure(
            "KK, first version, Figure 1: squared sensitivity over T with secure sums, observer's noise known",
            "Squared sensitivity over T, secure sums",
            &points,
            lines(&points, "sums", ("any c", |point| point.upper)),
        )
    })
}

/// A pair's squared sensitivity after some rounds, at unit noise and sensitivity.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PairSquare {
    /// For contribution 1 in every round: what the papers' curves show.
    even: f64,
    /// T λ_max(M): the newest version's bound for any contributions.
    spectral: f64,
    /// The smaller of that and 1ᵀ|M|1, which holds for any contributions, too.
    upper: f64,
}

/// Returns a pair's squared sensitivity after each of these numbers of rounds.
fn over_rounds(
    weights: &Weights,
    pair: Pair,
    (view, noise): (ObserversView, ObserversNoise),
    rounds: &[usize],
) -> Result<Vec<PairSquare>, GossipError> {
    let at = |place: usize| {
        let threat = Threat {
            observers: &[pair.observer],
            rounds: rounds[place],
            view,
            noise,
        };
        let square = |observers: Observers| {
            let found = observers.sensitivity(0);
            PairSquare {
                even: found.lower,
                spectral: observers.spectral(0),
                upper: found.upper,
            }
        };
        Some(Observers::of(weights, &threat, &[pair.target]).map(square))
    };
    in_parallel(rounds.len(), at).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighbours' scaled sensitivity falls towards 1/n for contribution 1, and stays above it for
    /// the worst ones.
    #[test]
    fn one_over_n_is_the_limit_for_equal_contributions_only() {
        let graph = evenly_joined(20, 0.4, 3);
        let weights = Weights::of(&graph, Scheme::Metropolis);
        let [near, far] = random_pairs(&graph, 1);
        let seen = (ObserversView::Sum, ObserversNoise::Unknown);
        let rounds = [5, 80];
        for pair in [near, far] {
            let found = over_rounds(&weights, pair, seen, &rounds).expect("points");
            let scaled = found[1].even / 80.0;
            assert!((scaled * 20.0 - 1.0).abs() < 0.15, "{scaled}");
        }
        let worst = over_rounds(&weights, near, seen, &rounds).expect("points")[1];
        assert!(worst.upper > 1.05 * worst.even, "{worst:?}");
        assert!(
            worst.spectral >= worst.upper && worst.upper >= worst.even,
            "{worst:?}"
        );
    }
}
