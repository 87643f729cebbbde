use std::collections::BTreeSet;

use super::*;
use crate::class::gossip::{GossipClass, ProtectedReleases};
use crate::execution::gossip::{GossipRun, GossipView};
use crate::losses::gaussian;

/// Rounds all of which have the edges of one graph.
fn repeated(graph: Graph, rounds: usize) -> Vec<Arc<Graph>> {
    std::iter::repeat_n(Arc::new(graph), rounds).collect()
}

fn demand(read: ReadInRound) -> GossipDemand {
    GossipDemand {
        parties: 8,
        releases: 20,
        dimension: 3,
        sensitivity: 2.0,
        budget: gaussian::mu(1.0, 1e-6).expect("in range"),
        read,
    }
}

/// σ makes the loss, with all that rounding may add, the budget; a step twice as large adds too
/// much.
#[test]
fn noise_takes_the_budget_and_rounding_a_ten_thousandth_of_it() {
    for read in [
        ReadInRound::Messages,
        ReadInRound::SumOfAll,
        ReadInRound::SumsOfNeighbours { against: 2 },
    ] {
        let demand = demand(read);
        let noise = demand.noise(20.0).expect("noise");
        let loss = 20f64.sqrt() * demand.sensitivity / noise.std;
        assert!(loss + noise.rounding <= demand.budget * (1.0 + 1e-12), "{read:?}");
        assert!(loss > 0.9998 * demand.budget, "{read:?}");
        assert!(noise.rounding <= 1e-4 * demand.budget && noise.rounding > 0.5e-4 * demand.budget);
        // By hand: k·E·n·d·(step/σ)².
        let step = f64::from(noise.step_log2).exp2();
        let by_hand = (read.rounding() * 480.0).sqrt() * step / noise.std;
        assert!((by_hand / noise.rounding - 1.0).abs() < 1e-12);
    }
    assert_eq!(ReadInRound::SumsOfNeighbours { against: 2 }.rounding(), 4100.0);
    assert_eq!(
        (ReadInRound::Messages.rounding(), ReadInRound::SumOfAll.rounding()),
        (4.0, 9.0)
    );
    assert_eq!(demand(ReadInRound::Messages).noise(0.0), None);
}

/// The design's table: errors over the floor of 20 releases, c = 1, D = 0.
#[test]
fn errors_over_the_floor() {
    for (graph, expected) in [(Graph::complete(8), 1.0), (Graph::ring(8), 1.87)] {
        let class = GossipClass::new(&repeated(graph, 20));
        let square = |square: f64| {
            demand(ReadInRound::SumsOfNeighbours { against: 1 })
                .noise(square)
                .expect("noise")
                .std
        };
        let secure = square(class.secure(1, ProtectedReleases::All).square);
        let open = square(ProtectedReleases::All.open(20));
        // Open messages cost √7 floors.
        assert!(
            (secure / open * 7f64.sqrt() - expected).abs() < 0.005,
            "{}",
            secure / open * 7f64.sqrt()
        );
    }
}

#[test]
fn one_round_is_enough_where_everybody_hears_everybody() {
    let reach = EstimateReach {
        half_width: 1.0,
        std: 8.0,
    };
    let rounds = |graph: Graph, accuracy| reach.fewest_rounds(&repeated(graph, MOST_ROUNDS), accuracy);
    // 8 divides 2^16: the mean is exact.
    assert_eq!(rounds(Graph::complete(8), 1e-9), Some(1));
    // The second largest eigenvalue of the ring of eight is 1/3 + 2/3 cos(π/4) = 0.805: a tenth
    // takes 10.6 rounds.
    let ring = rounds(Graph::ring(8), 1e-3).expect("soon");
    let less = rounds(Graph::ring(8), 1e-2).expect("soon");
    assert!(
        (9..12).contains(&(ring - less)) && (30..60).contains(&ring),
        "{less} {ring}"
    );
    let after = |rounds: usize| {
        reach.of(&(0..rounds).fold(unmixed(8), |rows, _| {
            averaged(&RoundWeights::of(&Graph::ring(8)), &rows)
        }))
    };
    let wanted = 1e-3 * 8.0 / 8f64.sqrt();
    assert!(after(ring) <= wanted && after(ring - 1) > wanted);
    // Two parts never agree.
    let apart = Graph::from_edges(4, &[(0, 1), (2, 3)]).expect("a graph");
    assert_eq!(rounds(apart, 1e-3), None);
}

/// Errors are those of the protocol's own averaging.
#[test]
fn errors_are_those_of_the_machine() {
    let path = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (1, 3)]).expect("a graph");
    for (entering, rounds) in [(4, 4), (1, 6), (2, 3)] {
        let mut edges = repeated(path.clone(), rounds);
        edges[0] = Arc::new(Graph::ring(5));
        let run = GossipRun {
            parties: 5,
            edges: edges.clone(),
            contributions: entering,
            // Next to no noise where nothing enters.
            std: (0..rounds)
                .map(|round| if round < entering { 1.0 } else { 1e-9 })
                .collect(),
            view: GossipView::Sum,
            corrupted: BTreeSet::new(),
            online: vec![vec![true; 5]; rounds],
            published: BTreeSet::new(),
        };
        let (found, machine) = (errors(&edges, entering), run.outcome().expect("an outcome"));
        assert!((found.noise - machine.noise_error.expect("some")).abs() < 1e-9);
        assert!((found.weights - machine.weight_error.expect("some")).abs() < 1e-12);
    }
    // Of a complete graph noise averages out.
    let even = errors(&repeated(Graph::complete(8), 20), 20);
    assert!((even.noise - (20.0f64 / 8.0).sqrt()).abs() < 1e-9 && even.weights < 1e-12);
}
