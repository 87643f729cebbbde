use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use undertone_protocol::topology::active_edges::ActiveEdges;

use super::*;

/// Rounds all of which have the edges of one graph.
fn repeated(graph: Graph, rounds: usize) -> Vec<Arc<Graph>> {
    std::iter::repeat_n(Arc::new(graph), rounds).collect()
}

fn rounds(graph: Graph, releases: usize) -> GossipClass {
    GossipClass::new(&repeated(graph, releases))
}

#[track_caller]
fn close(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{found} for {expected}");
}

/// Checks the ratio that the design quotes for 20 releases, all protected, over the loss to open
/// messages.
#[test]
fn twenty_releases_over_open_messages() {
    let part = |worst: WorstGossip| worst.square / 20.0;
    let all = Protect::All;
    let ring = rounds(Graph::ring(8), 20);
    close(part(ring.secure(1, all)), 1.87f64.powi(2) / 7.0, 0.003);
    close(part(ring.secure(2, all)), 1.0, 1e-6);
    close(part(ring.apart(1, all).expect("few")), 0.247, 0.0006);
    let complete = rounds(Graph::complete(8), 20);
    close(part(complete.secure(1, all)), 1.0 / 7.0, 1e-3);
    close(part(complete.secure(2, all)), 1.0 / 6.0, 1e-3);
    let strangers = complete.apart(1, all).expect("few");
    assert_eq!(
        (strangers.square, strangers.case),
        (0.0, None),
        "everybody is a neighbour"
    );
    // Without one edge its two ends read sums that differ in each other's message alone.
    let edges: Vec<(Party, Party)> = Graph::complete(8)
        .edges()
        .iter()
        .copied()
        .filter(|&e| e != (2, 5))
        .collect();
    let less = rounds(Graph::from_edges(8, &edges).expect("a graph"), 20);
    let worst = less.secure(2, all);
    assert!(worst.exhaustive && worst.cases == 28);
    close(part(worst.clone()), 1.0, 1e-3);
    let (pair, victim) = worst.case.expect("a case");
    assert!(
        pair.contains(&2) != pair.contains(&5) && (victim == 2 || victim == 5),
        "{pair:?} {victim}"
    );
    // The search has it, too.
    assert!(less.candidates(2).contains(&pair));
    // One release: as much, if it stands open.
    close(less.secure(2, Protect::One).square, 1.0, 1e-3);
}

/// Graphs drawn round by round, coalitions and departures at random: rows taken back are those that
/// the protocol's averaging gives.
#[test]
fn the_machine_sees_the_same() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    for case in 0..60 {
        let parties = random.random_range(4..9);
        let graph = Graph::circulant(parties, &[1, 2]);
        let releases = random.random_range(2..6);
        let active = if case % 3 == 0 {
            ActiveEdges::Matching
        } else {
            ActiveEdges::Degree(1)
        };
        let active = if case % 3 == 1 { ActiveEdges::All } else { active };
        let class = GossipClass::new(&active.draw(&graph, releases, case));
        let view = if case % 2 == 0 {
            GossipView::Sum
        } else {
            GossipView::Messages
        };
        let victim = random.random_range(0..parties);
        let others = (0..parties).filter(|&party| party != victim && random.random_range(0..3) == 0);
        let coalition: Vec<Party> = others.collect();
        let last = random.random_range(1..=releases);
        let gone = (last < releases).then_some(DepartsAfter {
            party: victim,
            rounds: last,
        });
        let fast = class.losses(view, &coalition, gone, &[victim])[0];
        let machine = class
            .by_the_machine(view, &coalition, victim, gone.map(|gone| gone.rounds))
            .expect("a loss");
        close(fast.upper, machine.upper, 1e-9);
        close(fast.lower, machine.lower, 1e-9);
        close(fast.one, machine.one, 1e-9);
    }
}

/// Checks the worst case of a small class against every case, computed by the machine.
#[test]
fn small_classes_by_brute_force() {
    let edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 4), (0, 2)];
    let graph = Graph::from_edges(6, &edges).expect("a graph");
    let class = rounds(graph.clone(), 4);
    for protect in [Protect::All, Protect::One] {
        let (mut secure, mut departing, mut apart) = (0.0f64, 0.0f64, 0.0f64);
        for victim in 0..6 {
            let square = |view, coalition: &[Party], last| {
                let loss = class.by_the_machine(view, coalition, victim, last);
                protected_loss(protect, &loss.expect("a loss"))
            };
            for one in (0..6).filter(|&one| one != victim) {
                for rounds in 1..4 {
                    departing = departing.max(square(GossipView::Sum, &[one], Some(rounds)));
                }
                for other in (one + 1..6).filter(|&other| other != victim) {
                    secure = secure.max(square(GossipView::Sum, &[one, other], None));
                    if !graph.joins(one, victim) && !graph.joins(other, victim) {
                        apart = apart.max(square(GossipView::Messages, &[one, other], None));
                    }
                }
            }
        }
        close(class.secure(2, protect).square, secure, 1e-9);
        close(class.apart(2, protect).expect("few").square, apart, 1e-9);
        let found = class.departing(1, protect).expect("few");
        close(found.square, departing, 1e-9);
        assert_eq!(found.cases, 6 * 6 * 4);
        assert!(apart > 0.0 && secure > apart);
        assert!(class.secure(2, protect).max(found.clone()).square >= found.square);
    }
}

/// A coalition that is too large for the limits is searched for, and says so.
#[test]
fn what_is_not_exhausted_says_so() {
    let graph = Graph::random_regular(40, 4, 1).expect("a graph");
    let class = rounds(graph, 2);
    // 658,008 coalitions of five: a reader of every message of somebody is among the candidates.
    let worst = class.secure(5, Protect::One);
    assert!(!worst.exhaustive && worst.cases > 100 && worst.cases <= MOST_COALITIONS);
    assert!(
        worst.square <= 1.0 + 1e-6 && worst.square > 0.9,
        "{}",
        worst.square
    );
    assert_eq!(class.departing(4, Protect::One), None);
    assert_eq!(class.apart(5, Protect::One), None);
    assert_eq!(class.secure(0, Protect::All).square, 0.0);
}
