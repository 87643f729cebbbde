use proptest::prelude::*;

use super::*;
use crate::topology::public_draw::PublicDraw;

/// Whether the parties outside of `removed` (a bit each) reach each other; so do none, and one.
fn stays_joined(graph: &Graph, removed: u32) -> bool {
    let left = |party: Party| removed >> party & 1 == 0;
    let Some(first) = (0..graph.parties()).find(|&party| left(party)) else {
        return true;
    };
    let (mut reached, mut open) = (1u32 << first, vec![first]);
    while let Some(party) = open.pop() {
        for &next in graph.neighbours(party) {
            if left(next) && reached >> next & 1 == 0 {
                reached |= 1 << next;
                open.push(next);
            }
        }
    }
    (0..graph.parties()).all(|party| !left(party) || reached >> party & 1 == 1)
}

/// κ by taking away every set of parties.
fn by_brute_force(graph: &Graph) -> usize {
    let sets = 0u32..1 << graph.parties();
    let cuts = sets.filter(|&removed| !stays_joined(graph, removed));
    let least = cuts.map(|removed| removed.count_ones() as usize).min();
    least.unwrap_or(graph.parties().saturating_sub(1))
}

/// A graph in which each pair is joined with a chance of `percent`.
fn random(parties: usize, percent: usize, seed: u64) -> Graph {
    let mut draw = PublicDraw::new("undertone/test-graph", seed);
    let pairs = (0..parties).flat_map(|i| (i + 1..parties).map(move |j| (i, j)));
    let edges: Vec<(usize, usize)> = pairs.filter(|_| draw.below(100) < percent).collect();
    Graph::from_edges(parties, &edges).expect("pairs, each once")
}

fn bits(parties: &[Party]) -> u32 {
    parties.iter().map(|party| 1 << party).sum()
}

/// Checks the answers of `connectivity`, `at_least` and `cut_between` about a graph against brute
/// force.
fn check(graph: &Graph) {
    let kappa = by_brute_force(graph);
    let found = connectivity(graph);
    assert_eq!(found.kappa, kappa, "{graph:?}");
    let pairs = graph.parties() * graph.parties().saturating_sub(1) / 2;
    assert_eq!(found.cut.is_none(), graph.edges().len() == pairs, "{graph:?}");
    if let Some(cut) = &found.cut {
        assert_eq!(cut.len(), kappa, "{graph:?}");
        assert!(!stays_joined(graph, bits(cut)), "{graph:?}: {cut:?}");
    }
    for wanted in 0..graph.parties() + 2 {
        match at_least(graph, wanted) {
            Ok(()) => assert!(kappa >= wanted, "{graph:?}: not {wanted}"),
            Err(Shortfall { cut }) => {
                assert!(kappa < wanted, "{graph:?}: {wanted}, and {cut:?} is no cut");
                assert_eq!(cut.is_none(), found.cut.is_none());
                if let Some(cut) = cut {
                    assert!(cut.len() < wanted && !stays_joined(graph, bits(&cut)));
                    assert!(cut.windows(2).all(|w| w[0] < w[1]));
                }
            }
        }
    }
    check_pairs(graph);
}

fn check_pairs(graph: &Graph) {
    let mut ways = Ways::new(graph);
    let parties = graph.parties();
    for (from, to) in (0..parties).flat_map(|i| (0..parties).map(move |j| (i, j))) {
        if from == to || graph.joins(from, to) {
            assert_eq!(ways.cut_between(from, to, parties), None);
            continue;
        }
        let others = (0u32..1 << parties).filter(|set| set >> from & 1 == 0 && set >> to & 1 == 0);
        let least = others
            .filter(|&removed| separated(graph, from, to, removed))
            .map(|removed| removed.count_ones() as usize)
            .min()
            .expect("all others separate what is not joined");
        let cut = ways.cut_between(from, to, parties).expect("fewer than all");
        assert_eq!(cut.len(), least, "{graph:?}: {from} {to} {cut:?}");
        assert!(
            separated(graph, from, to, bits(&cut)),
            "{graph:?}: {from} {to} {cut:?}"
        );
        assert_eq!(ways.cut_between(from, to, least), None);
    }
}

fn separated(graph: &Graph, from: Party, to: Party, removed: u32) -> bool {
    let kept = |&&(i, j): &&(usize, usize)| removed >> i & 1 == 0 && removed >> j & 1 == 0;
    let edges: Vec<(usize, usize)> = graph.edges().iter().filter(kept).copied().collect();
    let rest = Graph::from_edges(graph.parties(), &edges).expect("a part of a graph");
    !rest
        .components()
        .iter()
        .any(|piece| piece.contains(&from) && piece.contains(&to))
}

#[test]
fn it_agrees_with_taking_away_every_set() {
    let mut kappas = [0u32; 9];
    for parties in 0..=9 {
        for seed in 0..if parties < 8 { 40 } else { 15 } {
            for percent in [20, 45, 65, 85, 100] {
                let graph = random(parties, percent, seed);
                check(&graph);
                kappas[connectivity(&graph).kappa] += 1;
            }
        }
    }
    // All of them come up, those between nothing and everything often.
    assert!(
        kappas.iter().all(|&count| count > 0) && kappas[1..5].iter().all(|&count| count > 50),
        "{kappas:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn regular_graphs_in_any_order_of_parties(parties in 5usize..10, degree in 2usize..7, seed: u64) {
        prop_assume!(degree < parties && parties * degree % 2 == 0);
        check(&Graph::random_regular(parties, degree, seed).unwrap());
    }

    /// Two cliques that share some parties, in a random order: the shared ones are the only least
    /// cut, and ways have to be moved to find it.
    #[test]
    fn the_waist_between_two_cliques(
        left in 1usize..30,
        waist in 0usize..12,
        right in 1usize..30,
        seed: u64,
    ) {
        let parties = left + waist + right;
        let mut names: Vec<usize> = (0..parties).collect();
        PublicDraw::new("undertone/test-names", seed).shuffle(&mut names);
        let apart = |i: usize, j: usize| i < left && j >= left + waist;
        let pairs = (0..parties).flat_map(|i| (i + 1..parties).map(move |j| (i, j)));
        let edges: Vec<(usize, usize)> =
            pairs.filter(|&(i, j)| !apart(i, j)).map(|(i, j)| (names[i], names[j])).collect();
        let graph = Graph::from_edges(parties, &edges).unwrap();
        let mut cut = names[left..left + waist].to_vec();
        cut.sort_unstable();
        let found = connectivity(&graph);
        prop_assert_eq!((found.kappa, found.cut.as_ref()), (waist, Some(&cut)));
        prop_assert_eq!(at_least(&graph, waist), Ok(()));
        let cut = at_least(&graph, waist + 1).unwrap_err().cut;
        prop_assert_eq!(cut, found.cut);
    }
}

/// The ways of the last question, and its cut, prove each other: disjoint ways, one for each party
/// of a cut that separates.
fn check_proof(ways: &Ways<'_>, from: Party, to: Party, cut: &[Party]) {
    let graph = ways.graph;
    let mut passed = vec![from];
    let last = graph
        .neighbours(to)
        .iter()
        .filter(|&&end| ways.before[end] != NOBODY);
    for &end in last.clone() {
        let mut party = end;
        while party != from {
            assert!(!passed.contains(&party), "two ways have {party}");
            passed.push(party);
            assert!(graph.joins(party, ways.before[party]));
            party = ways.before[party];
        }
    }
    assert_eq!(last.count(), cut.len());
    assert!(
        cut.iter()
            .all(|party| passed.contains(party) && ![from, to].contains(party))
    );
    let kept = |(i, j): &&(usize, usize)| !cut.contains(i) && !cut.contains(j);
    let edges: Vec<(usize, usize)> = graph.edges().iter().filter(kept).copied().collect();
    let rest = Graph::from_edges(graph.parties(), &edges).expect("a part of a graph");
    let mut pieces = rest.components().into_iter();
    assert!(!pieces.any(|piece| piece.contains(&from) && piece.contains(&to)));
}

#[test]
fn ways_and_cuts_prove_each_other() {
    // Sparse enough that ways are long, and have to be moved and given up for others.
    let mut asked = 0;
    for seed in 0..12 {
        for graph in [
            random(40, 10, seed),
            Graph::random_regular(60, 4, seed).unwrap(),
            Graph::random_regular(36, 7, seed).unwrap(),
        ] {
            let mut ways = Ways::new(&graph);
            let parties = graph.parties();
            for (from, to) in (0..parties).flat_map(|i| (0..parties).map(move |j| (i, j))) {
                if let Some(cut) = ways.cut_between(from, to, parties) {
                    check_proof(&ways, from, to, &cut);
                    asked += 1;
                }
            }
        }
    }
    assert!(asked > 50_000, "{asked}");
}

#[test]
fn the_narrowest_of_several_cuts_is_found() {
    // Four cliques of eight, joined by three pairs, by two, by one: found in this order.
    let within = (0..32)
        .flat_map(|i| (i + 1..32).map(move |j| (i, j)))
        .filter(|(i, j)| i / 8 == j / 8);
    let between = [(0, 8), (1, 9), (2, 10), (8, 16), (9, 17), (16, 24)];
    let graph = Graph::from_edges(32, &within.chain(between).collect::<Vec<_>>()).unwrap();
    let found = connectivity(&graph);
    assert_eq!(found.kappa, 1);
    assert!(matches!(found.cut.as_deref(), Some([16 | 24])), "{found:?}");
    assert_eq!(at_least(&graph, 1), Ok(()));
    assert!(at_least(&graph, 2).is_err());
}

#[test]
fn known_graphs() {
    // Harary's circulants have the greatest connectivity that so many edges allow: their degree.
    for (parties, degree) in [(10, 4), (31, 6), (64, 8)] {
        let near = (0..parties).flat_map(|i| (1..=degree / 2).map(move |d| (i, (i + d) % parties)));
        let graph = Graph::from_edges(parties, &near.collect::<Vec<_>>()).unwrap();
        assert_eq!(connectivity(&graph).kappa, degree);
        assert_eq!(at_least(&graph, degree), Ok(()));
        assert!(at_least(&graph, degree + 1).is_err());
    }
    // Petersen's graph: three, and every cut of three is somebody's neighbours or leaves two parts.
    let outer = (0..5).flat_map(|i| [(i, (i + 1) % 5), (i, i + 5), (i + 5, (i + 2) % 5 + 5)]);
    let petersen = Graph::from_edges(10, &outer.collect::<Vec<_>>()).unwrap();
    assert_eq!(connectivity(&petersen).kappa, 3);
    // In pieces: nobody has to be taken away.
    let pieces = Graph::from_edges(5, &[(0, 1), (1, 2), (3, 4)]).unwrap();
    assert_eq!(
        connectivity(&pieces),
        LeastCut {
            kappa: 0,
            cut: Some(vec![])
        }
    );
    assert_eq!(at_least(&pieces, 1), Err(Shortfall { cut: Some(vec![]) }));
    // Nothing separates what is joined throughout, however much is asked.
    assert_eq!(
        connectivity(&Graph::complete(6)),
        LeastCut { kappa: 5, cut: None }
    );
    assert_eq!(
        at_least(&Graph::complete(6), usize::MAX),
        Err(Shortfall { cut: None })
    );
}
