//! Checks of what a schedule withstands, by brute force: whatever parties are taken away, and
//! whatever shares are missing.

use crate::topology::connectivity::connectivity;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// All sets of `count` of the numbers below `of`, ascending.
fn subsets(of: usize, count: usize) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = vec![vec![]];
    for _ in 0..count {
        let longer = |set: &Vec<usize>| {
            let from = set.last().map_or(0, |last| last + 1);
            let set = set.clone();
            (from..of).map(move |next| [set.as_slice(), &[next]].concat())
        };
        sets = sets.iter().flat_map(longer).collect();
    }
    sets
}

/// Whether the parties that are not removed reach each other along the shares that are not missing.
fn in_one_piece(parties: usize, shares: &[(Party, Party)], removed: &[Party], missing: &[usize]) -> bool {
    let mut piece: Vec<usize> = (0..parties).collect();
    for (index, &(from, to)) in shares.iter().enumerate() {
        if missing.contains(&index) || removed.contains(&from) || removed.contains(&to) {
            continue;
        }
        let (joined, other) = (piece[from], piece[to]);
        piece
            .iter_mut()
            .filter(|found| **found == other)
            .for_each(|found| *found = joined);
    }
    let mut left = (0..parties)
        .filter(|party| !removed.contains(party))
        .map(|party| piece[party]);
    let first = left.next();
    left.all(|found| Some(found) == first)
}

/// Takes away every `removed` parties and every `missing` shares; returns how many of these leave
/// several pieces.
fn breaks(schedule: &Schedule, parties: usize, removed: usize, missing: usize) -> usize {
    let sent = |(from, to): (usize, &Vec<usize>)| to.iter().map(|&to| (from, to)).collect::<Vec<_>>();
    let rounds = schedule.out().iter();
    let shares: Vec<(Party, Party)> = rounds
        .flat_map(|round| round.iter().enumerate().flat_map(sent))
        .collect();
    let faults = subsets(shares.len(), missing);
    let coalitions = subsets(parties, removed);
    let pairs = coalitions
        .iter()
        .flat_map(|removed| faults.iter().map(move |missing| (removed, missing)));
    pairs
        .filter(|(removed, missing)| !in_one_piece(parties, &shares, removed, missing))
        .count()
}

#[test]
fn a_schedule_withstands_what_its_connectivity_says() {
    let mut asked = 0;
    let mut beyond = 0;
    for (graph, most) in [
        (Graph::complete(4), 2),
        (Graph::complete(6), 2),
        (Graph::complete(8), 2),
        (Graph::complete(9), 1),
        (Graph::complete(10), 1),
        (Graph::ring(8), 2),
        (Graph::random_regular(8, 3, 1).unwrap(), 2),
        (Graph::random_regular(10, 4, 1).unwrap(), 1),
    ] {
        let parties = graph.parties();
        for rounds in 1..=3 {
            let schedule = Schedule::apart(&graph, rounds, 5).unwrap();
            let kappa = connectivity(&schedule.meetings()).kappa;
            for missing in 0..=most {
                for removed in 0..kappa.saturating_sub(missing) {
                    assert_eq!(breaks(&schedule, parties, removed, missing), 0, "{graph:?}");
                    asked += 1;
                }
            }
            // And not more: some parties, as many as κ, are too many.
            if kappa + 1 < parties {
                assert!(breaks(&schedule, parties, kappa, 0) > 0, "{graph:?}");
                beyond += 1;
            }
        }
    }
    assert!(asked > 100 && beyond > 15, "{asked} {beyond}");
}
