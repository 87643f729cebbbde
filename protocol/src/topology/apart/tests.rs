use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Everybody sends to one neighbour in each round, and as many receive as can; returns the pairs
/// that met, in the order in which they did.
fn meetings(graph: &Graph, schedule: &Schedule) -> Vec<(Party, Party)> {
    let mut pairs = vec![];
    for round in schedule.out() {
        assert_eq!(round.len(), graph.parties());
        for (from, to) in round.iter().enumerate() {
            assert!(
                to.len() == 1 && graph.joins(from, to[0]),
                "{from} sends to {to:?}"
            );
            pairs.push((from.min(to[0]), from.max(to[0])));
        }
    }
    pairs
}

fn different(pairs: &[(Party, Party)]) -> usize {
    pairs.iter().collect::<BTreeSet<_>>().len()
}

fn receivers(round: &[Vec<Party>]) -> usize {
    round.iter().flatten().collect::<BTreeSet<_>>().len()
}

fn all_receive(schedule: &Schedule, parties: usize) -> bool {
    schedule.out().iter().all(|round| receivers(round) == parties)
}

/// No pair meets twice: permutations, and everybody has two new neighbours a round.
fn check_apart(graph: &Graph, rounds: usize, seed: u64) {
    let schedule = Schedule::apart(graph, rounds, seed).expect("everybody has neighbours");
    let pairs = meetings(graph, &schedule);
    assert_eq!(
        different(&pairs),
        pairs.len(),
        "{} parties, seed {seed}",
        graph.parties()
    );
    assert!(all_receive(&schedule, graph.parties()));
    let met = schedule.meetings();
    assert!((0..graph.parties()).all(|party| met.neighbours(party).len() == 2 * rounds));
}

#[test]
fn no_pair_of_all_meets_twice() {
    for seed in 0..300 {
        check_apart(&Graph::complete(8), 3, seed);
    }
    for parties in 3..28 {
        for rounds in 1..=(parties - 1) / 2 {
            check_apart(&Graph::complete(parties), rounds, 7);
        }
    }
    check_apart(&Graph::complete(200), 22, 1);
    check_apart(&Graph::complete(201), 22, 1);
    check_apart(&Graph::complete(1000), 24, 1);
}

#[test]
fn a_small_or_sparse_graph_has_all_of_its_pairs_meet_first() {
    let ring = Graph::ring(8);
    check_apart(&ring, 1, 3);
    for (graph, rounds) in [
        (Graph::complete(2), 1),
        (Graph::complete(3), 1),
        (Graph::complete(4), 2),
        (ring, 1),
        (Graph::random_regular(8, 3, 5).unwrap(), 2),
        (Graph::random_regular(8, 4, 5).unwrap(), 2),
        (Graph::random_regular(30, 7, 5).unwrap(), 4),
    ] {
        for seed in 0..50 {
            let first = Schedule::apart(&graph, rounds, seed).unwrap();
            assert_eq!(first.meetings(), graph, "{rounds} rounds meet all of {graph:?}");
            // However many rounds follow, each is a permutation.
            let schedule = Schedule::apart(&graph, rounds + 5, seed).unwrap();
            meetings(&graph, &schedule);
            assert!(all_receive(&schedule, graph.parties()));
            assert_eq!(schedule.meetings(), graph);
        }
    }
}

#[test]
fn pieces_are_drawn_one_by_one() {
    // Two rings and two who have only each other.
    let edges = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (5, 6), (3, 6), (7, 8)];
    let graph = Graph::from_edges(9, &edges).unwrap();
    for seed in 0..50 {
        let schedule = Schedule::apart(&graph, 1, seed).unwrap();
        meetings(&graph, &schedule);
        assert!(all_receive(&schedule, 9));
        assert_eq!(schedule.meetings(), graph);
    }
    assert_eq!(
        Schedule::apart(&Graph::from_edges(3, &[(0, 1)]).unwrap(), 1, 0),
        None
    );
}

#[test]
fn a_star_lets_its_centre_receive_from_all() {
    let graph = Graph::from_edges(5, &[(0, 1), (0, 2), (0, 3), (0, 4)]).unwrap();
    let schedule = Schedule::apart(&graph, 4, 3).unwrap();
    assert_eq!(meetings(&graph, &schedule).len(), 20);
    assert!(schedule.out().iter().all(|round| receivers(round) == 2));
    assert_eq!(schedule.meetings(), graph);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn regular_graphs(parties in 3usize..40, degree in 2usize..14, more in 0usize..4, seed: u64) {
        prop_assume!(degree < parties && parties * degree % 2 == 0);
        let graph = Graph::random_regular(parties, degree, seed).unwrap();
        let schedule = Schedule::apart(&graph, degree / 2 + more, seed).unwrap();
        meetings(&graph, &schedule);
        prop_assert!(all_receive(&schedule, parties));
        check_apart(&graph, degree / 2, seed);
        if more > 0 {
            prop_assert_eq!(schedule.meetings(), graph);
        }
    }

    #[test]
    fn any_graph(
        parties in 3usize..16,
        extra in proptest::collection::vec((0usize..16, 0usize..16), 0..60),
        rounds in 1usize..12,
        seed: u64,
    ) {
        let graph = Graph::tree_and(parties, extra);
        let schedule = Schedule::apart(&graph, rounds, seed).unwrap();
        meetings(&graph, &schedule);
        // As many receive as in a drawing that looks at one round alone.
        let greatest = receivers(&Schedule::draw(&graph, 1, 1, seed).unwrap().out()[0]);
        prop_assert!(schedule.out().iter().all(|round| receivers(round) == greatest));
        prop_assert_eq!(&Schedule::apart(&graph, rounds, seed).unwrap(), &schedule);
        let longer = Schedule::apart(&graph, rounds + 1, seed).unwrap();
        prop_assert_eq!(schedule.out(), &longer.out()[..rounds]);
    }
}

#[test]
fn graphs_of_uneven_degrees_have_most_pairs_meet_once() {
    // Each pair joined with a chance of 40 %: 20 to 40 neighbours each, so 10 rounds would do.
    let mut draw = PublicDraw::new("undertone/test-graph", 1);
    let pairs = (0..80).flat_map(|i| (i + 1..80).map(move |j| (i, j)));
    let edges: Vec<(usize, usize)> = pairs.filter(|_| draw.below(10) < 4).collect();
    let graph = Graph::from_edges(80, &edges).unwrap();
    assert!(graph.least_degree() >= 20);
    for seed in 0..20 {
        let schedule = Schedule::apart(&graph, 8, seed).unwrap();
        let pairs = meetings(&graph, &schedule);
        assert!(all_receive(&schedule, 80));
        assert_eq!(different(&pairs), pairs.len());
    }
}

#[test]
fn a_graph_without_a_perfect_pairing_has_permutations_all_the_same() {
    // Three neighbours each, but three odd pieces hang on party 15: two of them keep one alone.
    let piece = |first: usize| {
        let inside = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)];
        let inside = inside.map(|(i, j)| (first + i, first + j)).into_iter();
        inside.chain([(first, 15)])
    };
    let edges: Vec<(usize, usize)> = [0, 5, 10].into_iter().flat_map(piece).collect();
    let graph = Graph::from_edges(16, &edges).unwrap();
    for seed in 0..20 {
        let pairs = pairing(&graph, &mut PublicDraw::new("undertone/test-pairing", seed));
        let mutual = |party: Party| pairs[party].is_none_or(|other| pairs[other] == Some(party));
        assert!((0..16).all(mutual), "{pairs:?}");
        assert!(pairs.iter().filter(|partner| partner.is_none()).count() >= 2);
        let schedule = Schedule::apart(&graph, 6, seed).unwrap();
        meetings(&graph, &schedule);
        assert!(all_receive(&schedule, 16));
        assert_eq!(schedule.meetings(), graph);
    }
}

#[test]
fn every_pair_has_a_direction_and_they_are_balanced() {
    let mut draw = PublicDraw::new("undertone/test-graph", 2);
    for parties in 2..40 {
        let pairs = (0..parties).flat_map(|i| (i + 1..parties).map(move |j| (i, j)));
        let edges: Vec<(usize, usize)> = pairs.filter(|_| draw.below(10) < 4).collect();
        let graph = Graph::from_edges(parties, &edges).unwrap();
        let away = Trails::new(&graph, &vec![None; parties], &mut draw).directions(&mut draw);
        let leads = |from: Party, to: Party| {
            let place = graph.neighbours(from).binary_search(&to).expect("neighbours");
            away[from][place]
        };
        assert!(graph.edges().iter().all(|&(i, j)| leads(i, j) != leads(j, i)));
        for list in &away {
            let out = list.iter().filter(|&&away| away).count();
            assert!(out.abs_diff(list.len() - out) <= 1, "{out} of {}", list.len());
        }
    }
}

#[test]
fn the_draw_is_pinned() {
    // Plans name a seed; every build must draw the same schedule from it.
    let schedule = Schedule::apart(&Graph::complete(7), 3, 42).unwrap();
    let flat: Vec<Vec<Party>> = schedule.out().iter().map(|round| round.concat()).collect();
    assert_eq!(flat, PINNED);
    assert_ne!(Schedule::apart(&Graph::complete(7), 3, 43).unwrap(), schedule);
}
const PINNED: [[Party; 7]; 3] = [
    [2, 5, 3, 1, 6, 4, 0],
    [3, 6, 1, 4, 2, 0, 5],
    [1, 4, 5, 6, 0, 3, 2],
];
