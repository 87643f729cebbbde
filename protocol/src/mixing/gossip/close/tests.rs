//! The reference vectors of `close`, computed by an independent program, and what they have not:
//! denials, earlier sets and plans' limits.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct SetVector {
    parties: usize,
    edges: Vec<(Party, Party)>,
    held: BTreeMap<Party, BTreeSet<Party>>,
    least: usize,
    set: Option<BTreeSet<Party>>,
}

fn items(held: impl IntoIterator<Item = (Party, BTreeSet<Party>)>) -> BTreeMap<Party, HeldVectors> {
    let held = held.into_iter().map(|(author, got)| {
        let answered = BTreeSet::new();
        (author, HeldVectors { got, answered })
    });
    held.collect()
}

#[test]
fn sixteen_reference_sets() {
    let vectors: Vec<SetVector> = serde_json::from_str(include_str!("vectors.json")).expect("vectors parse");
    assert_eq!(vectors.len(), 16);
    for (index, vector) in vectors.into_iter().enumerate() {
        let edges = Graph::from_edges(vector.parties, &vector.edges).expect("a graph");
        let closing = Closing {
            edges: &edges,
            before: &(0..vector.parties).collect(),
            least: vector.least,
            dropouts: vector.parties - vector.least,
        };
        assert_eq!(closing.close(&items(vector.held)), vector.set, "vector {index}");
    }
}

/// Everybody on a complete graph of `parties` has everything.
fn complete(parties: usize) -> (Graph, BTreeMap<Party, HeldVectors>) {
    let held = (0..parties).map(|own| (own, (0..parties).filter(|&other| other != own).collect()));
    (Graph::complete(parties), items(held))
}

#[test]
fn who_denies_what_it_answered_is_out_and_its_neighbour_is_not() {
    let (edges, mut items) = complete(5);
    let before = (0..5).collect();
    let closing = Closing {
        edges: &edges,
        before: &before,
        least: 3,
        dropouts: 2,
    };
    items.get_mut(&3).expect("an item").got.remove(&4);
    // Without an answer the last of the two goes, whoever lied.
    assert_eq!(closing.close(&items), Some((0..4).collect()));
    items.get_mut(&4).expect("an item").answered.insert(3);
    assert_eq!(closing.close(&items), Some([0, 1, 2, 4].into()));
    // An answer counts in an item of a member only: 4 denies 0 as well, whose item proves it.
    items.get_mut(&4).expect("an item").got.remove(&0);
    items.get_mut(&0).expect("an item").answered.insert(4);
    assert_eq!(
        closing.close(&items),
        Some((0..3).collect()),
        "all deniers go at once"
    );
    // An item of somebody who was out before proves nothing.
    let before = [0, 1, 2, 3].into();
    assert_eq!(
        Closing {
            before: &before,
            ..closing
        }
        .close(&items),
        Some((0..4).collect())
    );
}

#[test]
fn sets_that_are_too_small_are_none() {
    let (edges, mut items) = complete(6);
    items.remove(&5);
    let before = (0..6).collect();
    let closing = |least, dropouts| Closing {
        edges: &edges,
        before: &before,
        least,
        dropouts,
    };
    assert_eq!(closing(5, 1).close(&items), Some((0..5).collect()));
    assert_eq!(closing(6, 1).close(&items), None);
    // Whoever is missing for whatever reason counts as departed.
    assert_eq!(closing(5, 0).close(&items), None);
    // Somebody who is not in the plan is nobody.
    items.insert(9, HeldVectors::default());
    assert_eq!(closing(5, 1).close(&items), Some((0..5).collect()));
}
