use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::execution::gossip::{GossipRun, GossipView};

fn after(graph: &Graph, rounds: usize) -> EstimateWeights {
    let weights = RoundWeights::of(graph);
    (0..rounds).fold(EstimateWeights::unmixed(graph.parties()), |estimates, _| {
        estimates.then(&weights)
    })
}

fn fewest(graph: &Graph, accuracy: f64) -> Option<usize> {
    let reach = EstimateReach {
        half_width: 1.0,
        std: 8.0,
    };
    (1..200).find(|&rounds| reach.within(&after(graph, rounds), accuracy))
}

#[test]
fn one_round_is_enough_where_everybody_hears_everybody() {
    // 8 divides 2^16: the mean is exact.
    assert_eq!(fewest(&Graph::complete(8), 1e-9), Some(1));
    // The second largest eigenvalue of the ring of eight is 1/3 + 2/3 cos(π/4) = 0.805: a tenth
    // takes 10.6 rounds.
    let ring = |accuracy| fewest(&Graph::ring(8), accuracy).expect("soon");
    let (strict, less) = (ring(1e-3), ring(1e-2));
    assert!(
        (9..13).contains(&(strict - less)) && (30..60).contains(&strict),
        "{less} {strict}"
    );
    // Two parts never agree.
    let apart = Graph::from_edges(4, &[(0, 1), (2, 3)]).expect("a graph");
    assert_eq!(fewest(&apart, 1e-3), None);
}

/// No two estimates are further apart than is said, for any values at the ends of their range and
/// noise within its bound: by brute force over signs.
#[test]
fn no_two_estimates_are_further_apart_than_is_said() {
    let path = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4)]).expect("a graph");
    for rounds in [1, 3, 7] {
        let estimates = after(&path, rounds);
        let reach = EstimateReach {
            half_width: 0.5,
            std: 0.0,
        };
        let said = reach.difference(&estimates);
        let mut largest = 0.0f64;
        for signs in 0..1u32 << 5 {
            let value = |party: usize| if signs >> party & 1 == 1 { 0.5 } else { -0.5 };
            let estimate = |row: &Vec<f64>| row.iter().enumerate().map(|(party, w)| w * value(party)).sum();
            let all: Vec<f64> = estimates.rows.iter().map(estimate).collect();
            let (low, high) = all
                .iter()
                .fold((f64::MAX, f64::MIN), |(low, high), &x| (low.min(x), high.max(x)));
            largest = largest.max(high - low);
        }
        assert!(largest <= said && said < 2.01 * largest, "{largest} {said}");
    }
}

/// Errors are those of the protocol's own averaging.
#[test]
fn errors_are_those_of_the_machine() {
    let path = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (1, 3)]).expect("a graph");
    for (entering, rounds) in [(4, 4), (1, 6), (2, 3)] {
        let mut edges: Vec<Arc<Graph>> = std::iter::repeat_n(Arc::new(path.clone()), rounds).collect();
        edges[0] = Arc::new(Graph::ring(5));
        let schedule = Schedule::both_ways(edges.iter().map(Arc::as_ref));
        let found = EstimateError::of(&schedule, entering as u64);
        let run = GossipRun {
            parties: 5,
            edges,
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
        let machine = run.outcome().expect("an outcome");
        // The largest of all parties', of which the machine gives the root of the mean square, and
        // what values may do that change from round to round, of which it gives those that do not.
        let (noise, uneven) = (
            machine.noise_error.expect("some"),
            machine.weight_error.expect("some"),
        );
        assert!(
            found.noise >= noise - 1e-9 && found.noise < 1.3 * noise,
            "{found:?} {noise}"
        );
        assert!(
            found.uneven >= uneven - 1e-12 && found.uneven < 1.3 * uneven,
            "{found:?} {uneven}"
        );
    }
}

/// Against brute force: the last estimate as a sum of all that was ever contributed.
#[test]
fn errors_are_those_of_the_weights() {
    let ring = Graph::ring(6);
    let schedule = Schedule::both_ways(std::iter::repeat_n(&ring, 5));
    let weights = RoundWeights::of(&ring);
    let (mut square, mut uneven) = (0.0, 0.0);
    let mut row: Vec<f64> = vec![0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    for _ in 0..5 {
        row = (0..6)
            .map(|party| {
                (0..6)
                    .map(|other| part(weights.entry(party, other)) * row[other])
                    .sum()
            })
            .collect();
        square += row.iter().map(|w| w * w).sum::<f64>();
        uneven += row.iter().map(|w| (w - 1.0 / 6.0).abs()).sum::<f64>();
    }
    let found = EstimateError::of(&schedule, 5);
    // Weights are whole numbers of 2^-16: nodes of the ring differ by that.
    assert!((found.standard_error(3.0) - 3.0 * square.sqrt()).abs() < 1e-4);
    assert!((found.spread(0.5) - 0.5 * uneven).abs() < 1e-3);
    // Of a complete graph noise averages out.
    let all = Graph::complete(8);
    let equal = EstimateError::of(&Schedule::both_ways(std::iter::repeat_n(&all, 20)), 20);
    assert!((equal.noise - (20.0f64 / 8.0).sqrt()).abs() < 1e-9 && equal.uneven < 1e-12);
}
