use faer::Mat;
use proptest::prelude::*;
use undertone_protocol::topology::graph::Graph;

use super::*;
use crate::account::gossip::edges::EdgesError;
use crate::account::gossip::threat::{LARGEST_GRAM, ObserversNoise, ObserversView};
use crate::account::gossip::varying::varying;
use crate::account::gossip::weights::{Stochastic, WeightsError};

const CYCLE: &str = "0 1\n1 2\n2 3\n3 4\n4 5\n5 6\n6 7\n7 8\n8 9\n9 0\n";

fn threat(observers: &[usize], rounds: usize, view: ObserversView, noise: ObserversNoise) -> Threat<'_> {
    Threat {
        observers,
        rounds,
        view,
        noise,
    }
}

/// The definitions, dense: H over all noises, its pseudo-inverse by singular values, M = G K⁺ G.
fn naive(weights: &[Mat<f64>], threat: &Threat<'_>, target: usize) -> (f64, f64) {
    let (n, rounds, m) = (weights[0].nrows(), threat.rounds, threat.observers.len());
    let mut h: Mat<f64> = Mat::zeros(m * rounds, n * rounds);
    for s in 0..rounds {
        let mut product: Mat<f64> = Mat::identity(n, n);
        for t in s..rounds {
            if threat.view == ObserversView::Sum {
                product = &weights[t] * &product;
            } else if t > s {
                product = &weights[t - 1] * &product;
            }
            for (o, &observer) in threat.observers.iter().enumerate() {
                for node in 0..n {
                    h[(t * m + o, s * n + node)] = product[(observer, node)];
                }
            }
        }
    }
    let g = Mat::from_fn(m * rounds, rounds, |row, s| h[(row, s * n + target)]);
    let known = |node: usize| threat.noise == ObserversNoise::Known && threat.observers.contains(&node);
    let noise = Mat::from_fn(m * rounds, n * rounds, |row, column| {
        if known(column % n) { 0.0 } else { h[(row, column)] }
    });
    let (u, singular) = range_of(&noise);
    let first = singular.iter().copied().fold(0.0, f64::max);
    // S⁻¹ Uᵀ G on the range: ‖H⁺Gc‖² is the square of its product with c.
    let rank = singular
        .iter()
        .take_while(|&&s| s > 1e-9 * first && s > 0.0)
        .count();
    let inside = u.subcols(0, rank).transpose() * &g;
    let x = Mat::from_fn(rank, rounds, |row, column| inside[(row, column)] / singular[row]);
    let gram = x.transpose() * &x;
    let all = |entry: fn(f64) -> f64| {
        (0..rounds * rounds)
            .map(|i| entry(gram[(i / rounds, i % rounds)]))
            .sum::<f64>()
    };
    let largest = gram
        .self_adjoint_eigenvalues(faer::Side::Lower)
        .expect("converges")[rounds - 1];
    (all(|x| x), all(f64::abs).min(rounds as f64 * largest))
}

/// Left singular vectors, and the positive singular values in descending order. Rows that others
/// explain go first: faer's iteration does not always converge with them.
fn range_of(matrix: &Mat<f64>) -> (Mat<f64>, Vec<f64>) {
    let qr = matrix.col_piv_qr();
    let (q, r) = (qr.compute_thin_Q(), qr.thin_R());
    let pivots = (0..r.nrows().min(r.ncols())).map(|at| r[(at, at)].abs());
    let rank = pivots.take_while(|&pivot| pivot > 1e-9 * r[(0, 0)].abs()).count();
    let svd = r.subrows(0, rank).thin_svd().expect("converges");
    let singular = svd.S().column_vector().iter().copied().collect();
    (q.subcols(0, rank) * svd.U(), singular)
}

fn dense(weights: &Weights) -> Mat<f64> {
    Mat::from_fn(weights.nodes(), weights.nodes(), |row, column| {
        weights.entry(row, column)
    })
}

#[track_caller]
fn assert_agree(found: Sensitivity, (lower, upper): (f64, f64)) {
    assert!(
        (found.lower - lower).abs() <= 1e-9 * lower + 1e-12,
        "lower {} against {lower}",
        found.lower
    );
    assert!(
        (found.upper - upper).abs() <= 1e-9 * upper + 1e-12,
        "upper {} against {upper}",
        found.upper
    );
    assert!(
        found.upper >= upper * (1.0 - 1e-13),
        "rounded down: {} against {upper}",
        found.upper
    );
}

#[test]
fn the_worst_contribution_is_not_constant() {
    let sum = threat(&[0], 8, ObserversView::Sum, ObserversNoise::Unknown);
    let answer = account(CYCLE, Scheme::Metropolis, &sum, 1).expect("an answer");
    assert!(
        (answer.lower - 2.0099601156762246).abs() < 1e-9 && answer.upper > 3.118,
        "{answer:?}"
    );
}

#[test]
fn observers_who_know_their_noise_leave_a_target_among_them_open() {
    for view in [ObserversView::Sum, ObserversView::Messages] {
        let known = threat(&[0, 1], 3, view, ObserversNoise::Known);
        let answer = account(CYCLE, Scheme::Metropolis, &known, 1).expect("an answer");
        assert_eq!(answer, Sensitivity::UNBOUNDED);
        let json = serde_json::to_value(answer).expect("serialises");
        assert!(json["sensitivity_squared_lower"].is_null() && json["sensitivity_squared_upper"].is_null());
        assert_eq!(json["unbounded"], true);
    }
    let bounded = account(
        CYCLE,
        Scheme::Metropolis,
        &threat(&[0], 3, ObserversView::Sum, ObserversNoise::Unknown),
        0,
    )
    .expect("an answer");
    assert!(
        serde_json::to_value(bounded)
            .expect("serialises")
            .get("unbounded")
            .is_none()
    );
}

#[test]
fn nothing_arrives_in_one_round_from_afar() {
    for (view, noise) in [
        (ObserversView::Sum, ObserversNoise::Known),
        (ObserversView::Messages, ObserversNoise::Known),
        (ObserversView::Messages, ObserversNoise::Unknown),
    ] {
        let answer = account(CYCLE, Scheme::Metropolis, &threat(&[0], 1, view, noise), 5).expect("an answer");
        assert_eq!((answer.lower, answer.upper), (0.0, 0.0));
    }
}

#[test]
fn edge_lists_are_read_strictly() {
    let graph = edges::connected("# a triangle\n 0 1 # first\n\n1 0\n1\t2\n2 0\n").expect("a good list");
    assert_eq!(
        graph.edges(),
        [(0, 1), (0, 2), (1, 2)],
        "a repeated edge counts once, in either direction"
    );
    let problem = |text: &str| edges::connected(text).expect_err("must be refused");
    assert_eq!(
        problem("0 1\n1 one\n"),
        EdgesError::Word {
            line: 2,
            found: "one".into()
        }
    );
    assert_eq!(
        problem("0 -1\n"),
        EdgesError::Word {
            line: 1,
            found: "-1".into()
        }
    );
    assert_eq!(
        problem("0 1\n\n1 2 3\n"),
        EdgesError::Entries { line: 3, found: 3 }
    );
    assert_eq!(problem("0\n"), EdgesError::Entries { line: 1, found: 1 });
    assert_eq!(problem("0 1\n1 1\n"), EdgesError::SelfLoop { line: 2, node: 1 });
    assert_eq!(problem("# nothing\n"), EdgesError::Empty);
    assert_eq!(
        problem("0 1\n1 3\n"),
        EdgesError::Isolated {
            node: 2,
            largest: 3,
            line: 2
        }
    );
    assert_eq!(
        problem("1 2\n"),
        EdgesError::Isolated {
            node: 0,
            largest: 2,
            line: 1
        }
    );
    assert_eq!(
        problem("0 18446744073709551615\n"),
        EdgesError::Isolated {
            node: 1,
            largest: usize::MAX,
            line: 1
        }
    );
    assert_eq!(
        problem("0 1\n2 3\n3 4\n"),
        EdgesError::Disconnected { line: 2, node: 2 }
    );
}

#[test]
fn weights_that_are_not_stochastic_are_refused() {
    let entries = |list: &[(usize, usize, f64)], required| Weights::from_entries(2, list, required);
    let lazy = [(0, 0, 0.5), (0, 1, 0.5), (1, 1, 1.0)];
    assert!(
        !entries(&lazy, Stochastic::Rows)
            .expect("row-stochastic")
            .symmetric()
    );
    assert_eq!(
        entries(&lazy, Stochastic::Both),
        Err(WeightsError::Column { column: 0, sum: 0.5 })
    );
    assert!(
        entries(&[(0, 1, 1.0), (1, 0, 1.0)], Stochastic::Both)
            .expect("doubly")
            .symmetric()
    );
    assert_eq!(
        entries(&[(0, 0, 0.9), (1, 1, 1.0)], Stochastic::Rows),
        Err(WeightsError::Row { row: 0, sum: 0.9 })
    );
    assert_eq!(
        entries(&[(0, 0, 1.0)], Stochastic::Rows),
        Err(WeightsError::Row { row: 1, sum: 0.0 })
    );
    assert_eq!(
        entries(&[(0, 2, 1.0)], Stochastic::Rows),
        Err(WeightsError::Range {
            row: 0,
            column: 2,
            nodes: 2
        })
    );
    let negative = [(0, 0, 1.5), (0, 1, -0.5), (1, 1, 1.0)];
    assert_eq!(
        entries(&negative, Stochastic::Rows),
        Err(WeightsError::Negative {
            row: 0,
            column: 1,
            found: -0.5
        })
    );
    let twice = [(0, 0, 0.5), (0, 0, 0.5), (1, 1, 1.0)];
    assert_eq!(
        entries(&twice, Stochastic::Rows),
        Err(WeightsError::Repeated { row: 0, column: 0 })
    );
    assert!(matches!(
        entries(&[(0, 0, f64::NAN)], Stochastic::Rows),
        Err(WeightsError::Negative { .. })
    ));
}

#[test]
fn questions_that_make_no_sense_name_their_flag() {
    let ask = |observers: &[usize], rounds, target| {
        let threat = threat(observers, rounds, ObserversView::Sum, ObserversNoise::Unknown);
        account(CYCLE, Scheme::Metropolis, &threat, target)
            .expect_err("must be refused")
            .flag()
    };
    assert_eq!(ask(&[0], 0, 1), "--rounds");
    assert_eq!(ask(&[0], usize::MAX, 1), "--rounds");
    assert_eq!(ask(&[0, 1], LARGEST_GRAM / 2 + 1, 1), "--rounds");
    assert_eq!(ask(&[10], 1, 1), "--observers");
    assert_eq!(ask(&[], 1, 1), "--observers");
    assert_eq!(ask(&[2, 0, 2], 1, 1), "--observers");
    assert_eq!(ask(&[0], 1, 10), "--target");
    let cycle = Weights::of(&edges::connected(CYCLE).expect("a cycle"), Scheme::Metropolis);
    let two = threat(&[0], 2, ObserversView::Sum, ObserversNoise::Unknown);
    assert!(varying(std::slice::from_ref(&cycle), &two, 1).is_err() && varying(&[], &two, 1).is_err());
    let path = Weights::of(&edges::connected("0 1").expect("a path"), Scheme::Metropolis);
    assert_eq!(
        varying(&[cycle, path], &two, 1),
        Err(GossipError::Nodes {
            round: 2,
            found: 2,
            expected: 10
        })
    );
}

/// A product for all targets settles them, but for the few that are close to the observer.
#[test]
fn most_targets_need_no_matrix_of_their_own() {
    // Contributions from afar only ever grow with the rounds: on a path all but the two ends next
    // to each other.
    let path: String = (0..30).map(|i| format!("{i} {}\n", i + 1)).collect();
    let weights = Weights::of(&edges::connected(&path).expect("a path"), Scheme::Metropolis);
    let threat = threat(&[0], 20, ObserversView::Sum, ObserversNoise::Unknown);
    let observers = Observers::of(&weights, &threat, &(0..31).collect::<Vec<_>>()).expect("an observer");
    let settled = observers.quick().iter().filter(|(_, tight)| *tight).count();
    assert!(settled >= 25, "{settled}");
}

#[test]
fn twins_that_see_the_same_sum_count_once() {
    // In a complete graph with closed neighbourhoods all see the same sum.
    let complete = Weights::of(&Graph::complete(6), Scheme::ClosedNeighbourhood);
    let one = sensitivity(
        &complete,
        &threat(&[0], 5, ObserversView::Sum, ObserversNoise::Unknown),
        4,
    )
    .expect("an answer");
    let three = sensitivity(
        &complete,
        &threat(&[0, 1, 2], 5, ObserversView::Sum, ObserversNoise::Unknown),
        4,
    )
    .expect("an answer");
    assert!(
        (one.upper - three.upper).abs() < 1e-10 && (one.upper - 5.0 / 6.0).abs() < 1e-9,
        "{one:?} {three:?}"
    );
}

fn scheme() -> impl Strategy<Value = Scheme> {
    prop_oneof![
        Just(Scheme::Metropolis),
        Just(Scheme::MaxDegree),
        Just(Scheme::ClosedNeighbourhood)
    ]
}

/// A tree with some edges more: connected.
fn graph() -> impl Strategy<Value = Graph> {
    (
        2usize..8,
        prop::collection::vec(any::<prop::sample::Index>(), 7),
        prop::collection::vec((0usize..8, 0usize..8), 0..8),
    )
        .prop_map(|(n, parents, more)| {
            let tree = (1..n).map(|node| (parents[node - 1].index(node), node));
            let more = more
                .into_iter()
                .map(|(u, v)| (u % n, v % n))
                .filter(|(u, v)| u != v);
            let mut edges: Vec<(usize, usize)> =
                tree.chain(more).map(|(u, v)| (u.min(v), u.max(v))).collect();
            edges.sort_unstable();
            edges.dedup();
            Graph::from_edges(n, &edges).expect("a simple graph")
        })
}

fn view() -> impl Strategy<Value = ObserversView> {
    prop_oneof![Just(ObserversView::Sum), Just(ObserversView::Messages)]
}

/// Draws a view of the observers, and whether they know their own noise.
fn sight() -> impl Strategy<Value = (ObserversView, ObserversNoise)> {
    let noise = prop_oneof![Just(ObserversNoise::Unknown), Just(ObserversNoise::Known)];
    (view(), noise)
}

fn weights() -> impl Strategy<Value = Weights> {
    (graph(), scheme()).prop_map(|(graph, scheme)| Weights::of(&graph, scheme))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn sparse_is_the_naive_dense(
        weights in weights(),
        rounds in 1usize..6,
        target in 0usize..8,
        observers in prop::collection::btree_set(0usize..8, 1..5),
        (view, noise) in sight(),
    ) {
        let n = weights.nodes();
        let observers: Vec<usize> = observers.into_iter().filter(|&node| node < n).collect();
        let target = target % n;
        prop_assume!(!observers.is_empty());
        let threat = threat(&observers, rounds, view, noise);
        let answer = sensitivity(&weights, &threat, target).expect("an answer");
        if threat.exposes(target) {
            prop_assert!(answer.unbounded);
        } else {
            assert_agree(answer, naive(&vec![dense(&weights); rounds], &threat, target));
            let same = varying(&vec![weights; rounds], &threat, target).expect("an answer");
            assert_agree(same, (answer.lower, answer.upper));
        }
    }

    #[test]
    fn graphs_may_change_from_round_to_round(
        graphs in [(graph(), scheme()), (graph(), scheme())],
        rounds in 1usize..6,
        observers in (0usize..8, 0usize..8),
        target in 0usize..8,
        (view, noise) in sight(),
    ) {
        let n = graphs.iter().map(|(graph, _)| graph.parties()).min().expect("two graphs");
        prop_assume!(n >= 3);
        let two = graphs.map(|(graph, scheme)| {
            let graph = if graph.parties() == n { graph } else { Graph::ring(n) };
            Weights::of(&graph, scheme)
        });
        let weights: Vec<Weights> = (0..rounds).map(|t| two[t % 2].clone()).collect();
        let mut observers = vec![observers.0 % n, observers.1 % n];
        observers.sort_unstable();
        observers.dedup();
        let (target, threat) = (target % n, threat(&observers, rounds, view, noise));
        prop_assume!(!threat.exposes(target));
        let dense: Vec<Mat<f64>> = weights.iter().map(dense).collect();
        assert_agree(varying(&weights, &threat, target).expect("an answer"), naive(&dense, &threat, target));
    }

    /// Checks that a product for all targets agrees, where it settles a target, with that target's
    /// own matrix.
    #[test]
    fn all_targets_at_once_are_each_target_alone(
        weights in weights(),
        rounds in 1usize..8,
        observer in 0usize..8,
        (view, noise) in sight(),
    ) {
        let n = weights.nodes();
        let observer = [observer % n];
        let threat = threat(&observer, rounds, view, noise);
        let observers = Observers::of(&weights, &threat, &(0..n).collect::<Vec<_>>()).expect("an observer");
        let (all, at_once) = (observers.sensitivities(), observers.sensitivities_at_once());
        prop_assert_eq!((all.len(), at_once.len()), (n, n));
        for (target, (found, quick)) in all.into_iter().zip(at_once).enumerate() {
            let alone = sensitivity(&weights, &threat, target).expect("an answer");
            prop_assert_eq!(found.unbounded, alone.unbounded);
            // What is not seen at all leaves some rounding in a matrix, and none in a product.
            let least = alone.upper * (1.0 - 1e-10) - 1e-14;
            prop_assert!(quick.upper >= least && quick.upper >= quick.lower, "{quick:?} {alone:?}");
            let off = (quick.lower - alone.lower).abs();
            prop_assert!(quick.lower == alone.lower || off <= 1e-9 * alone.lower + 1e-14);
            if !alone.unbounded {
                assert_agree(found, (alone.lower, alone.upper / (1.0 + 2e-12)));
            }
        }
    }

    /// The upper value holds for every contribution, and more observers or less noise never learn
    /// less.
    #[test]
    fn bounds_are_bounds(graph in graph(), rounds in 1usize..6, more in 0usize..8, view in view()) {
        let n = graph.parties();
        let weights = Weights::of(&graph, Scheme::Metropolis);
        let (one, both) = ([0], [0, 1 + more % (n - 1)]);
        let target = 1;
        let ask = |observers, noise| {
            sensitivity(&weights, &threat(observers, rounds, view, noise), target).expect("an answer")
        };
        let base = ask(&one, ObserversNoise::Unknown);
        prop_assert!(base.lower <= base.upper && base.upper <= rounds as f64);
        prop_assert!(ask(&both, ObserversNoise::Unknown).lower >= base.lower * (1.0 - 1e-9));
        prop_assert!(ask(&one, ObserversNoise::Known).lower >= base.lower * (1.0 - 1e-9));
    }
}
