use proptest::prelude::*;

use super::*;

fn graph(parties: usize, edges: &[(usize, usize)]) -> Graph {
    Graph::from_edges(parties, edges).expect("pairs, each once")
}

/// How many parties `party` reaches, itself among them, without those removed (a bit each).
fn piece(graph: &Graph, party: Party, removed: u32) -> u32 {
    let (mut seen, mut open) = (removed | 1 << party, vec![party]);
    while let Some(reached) = open.pop() {
        for &next in graph.neighbours(reached) {
            if seen >> next & 1 == 0 {
                seen |= 1 << next;
                open.push(next);
            }
        }
    }
    seen & !removed
}

/// All coalitions of `colluding` others.
fn coalitions(parties: usize, party: Party, colluding: usize) -> impl Iterator<Item = u32> {
    let fits = move |set: &u32| set.count_ones() as usize == colluding && set >> party & 1 == 0;
    (0u32..1 << parties).filter(fits)
}

/// The gate's number of a party, by taking away every coalition (accountant/docs/connectivity.md).
fn by_brute_force(graph: &Graph, party: Party, colluding: usize) -> usize {
    let parties = graph.parties();
    let all = |removed: u32| (parties as u32).min(32) - removed.count_ones();
    let holds = (0..parties).all(|other| {
        let mut sets = (0..=colluding).flat_map(|fewer| coalitions(parties, other, fewer));
        sets.all(|removed| piece(graph, other, removed).count_ones() == all(removed))
    });
    if holds && colluding + 1 < parties {
        return parties - colluding;
    }
    let stays = |&other: &Party| {
        let mut sets = (0..=colluding).flat_map(|fewer| coalitions(parties, party, fewer));
        other == party
            || graph.joins(party, other)
            || sets.all(|removed| removed >> other & 1 == 1 || piece(graph, party, removed) >> other & 1 == 1)
    };
    (0..parties)
        .filter(stays)
        .count()
        .saturating_sub(colluding)
        .max(1)
}

/// Checks that m is as defined, and that no coalition leaves a party in a smaller piece; returns
/// whether it is less than the least piece.
fn check(graph: &Graph) -> usize {
    let parties = graph.parties();
    let mut below = 0;
    for colluding in 0..parties {
        for (party, &m) in among(graph, colluding).iter().enumerate() {
            assert_eq!(
                m,
                by_brute_force(graph, party, colluding),
                "{graph:?}: {party}, {colluding}"
            );
            let pieces =
                coalitions(parties, party, colluding).map(|set| piece(graph, party, set).count_ones());
            let least = pieces.min().expect("there are enough others") as usize;
            assert!(
                m <= least,
                "{graph:?}: {party} is among {least}, not {m}, of {colluding}"
            );
            below += usize::from(m < least);
        }
    }
    below
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_coalition_leaves_a_smaller_piece(
        parties in 1usize..9,
        joined in proptest::collection::vec(0u8..100, 36),
        percent in 15u8..95,
    ) {
        let pairs = (0..parties).flat_map(|i| (i + 1..parties).map(move |j| (i, j)));
        let edges: Vec<(usize, usize)> =
            pairs.zip(joined).filter(|&(_, chance)| chance < percent).map(|(pair, _)| pair).collect();
        check(&graph(parties, &edges));
    }
}

#[test]
fn nine_parties_and_pieces() {
    // A wheel, two squares that share a party, a path, three pieces.
    let wheel: Vec<(usize, usize)> = (1..9).flat_map(|i| [(0, i), (i, i % 8 + 1)]).collect();
    let squares = [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 0),
        (3, 4),
        (4, 5),
        (5, 6),
        (6, 3),
        (7, 8),
    ];
    let path: Vec<(usize, usize)> = (1..9).map(|i| (i - 1, i)).collect();
    for edges in [&wheel[..], &squares, &path, &[(0, 1), (2, 3), (3, 4), (4, 2)]] {
        check(&graph(9, edges));
    }
    // With nobody in a coalition m is one's piece.
    assert_eq!(among(&graph(9, &squares), 0), [7, 7, 7, 7, 7, 7, 7, 2, 2]);
    assert_eq!(among(&graph(9, &squares), usize::MAX), [1; 9]);
    assert_eq!(among(&Graph::complete(5), 3), [2; 5]);
    assert_eq!(among(&Graph::complete(5), 4), [1; 5]);
    assert_eq!(among(&Graph::complete(0), 0), [0; 0]);
}

#[test]
fn large_graphs_in_pieces_take_no_time() {
    // A chain of 60 cliques of ten, each joined throughout with the next: twenty separate it, so
    // 29 neighbours but for the ends. Not a time limit: nearly all pairs are decided by cuts.
    let pairs = (0..600usize).flat_map(|i| (i + 1..600).map(move |j| (i, j)));
    let edges: Vec<(usize, usize)> = pairs.filter(|&(i, j)| j / 10 - i / 10 <= 1).collect();
    let found = among(&graph(600, &edges), 20);
    assert!(
        found[..10].iter().chain(&found[590..]).all(|&m| m == 1),
        "{found:?}"
    );
    assert!(found[10..590].iter().all(|&m| m == 1 + 29 - 20), "{found:?}");
    assert_eq!(among(&graph(600, &edges), 9), [591; 600]);
}

#[test]
fn what_an_independent_program_found() {
    let small = [(0, 2), (0, 3), (0, 5), (1, 2), (2, 4), (3, 4)];
    assert_eq!(among(&graph(6, &small), 1), [4, 1, 4, 3, 3, 1]);
    assert_eq!(among(&graph(4, &[(0, 1), (0, 2), (0, 3), (1, 3)]), 3), [1; 4]);
    let mut expected = [24; 28];
    for leaf in [2, 5, 17] {
        expected[leaf] = 1;
    }
    for beside in [12, 16, 19] {
        expected[beside] = 25;
    }
    assert_eq!(among(&graph(28, &WITH_LEAVES), 1), expected);
}
#[rustfmt::skip]
const WITH_LEAVES: [(usize, usize); 61] = [
    (0, 12), (0, 15), (0, 16), (1, 3), (1, 9), (1, 21), (1, 22), (1, 25), (2, 12), (3, 15),
    (3, 21), (3, 22), (4, 10), (4, 14), (4, 16), (4, 18), (4, 27), (5, 19), (6, 13), (6, 20),
    (6, 22), (6, 23), (6, 27), (7, 13), (7, 18), (8, 9), (8, 11), (8, 13), (8, 21), (8, 26),
    (9, 10), (9, 14), (9, 21), (9, 22), (10, 11), (10, 14), (10, 22), (10, 24), (10, 26), (11, 16),
    (11, 22), (11, 27), (12, 14), (13, 14), (13, 16), (13, 19), (13, 22), (14, 23), (15, 16), (16, 17),
    (16, 20), (16, 21), (18, 25), (18, 27), (19, 22), (19, 27), (21, 26), (21, 27), (22, 24), (23, 27),
    (24, 25),
];
