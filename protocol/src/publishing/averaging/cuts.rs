//! Which edges are cut, and what follows from that: who still averages with whom, and who enters
//! the final of a party that vanished.
//!
//! Everything here is a function of the signed notices that everybody floods. A node's component is
//! whom it reaches over edges that neither end has cut. A party outside of it has vanished, as far
//! as this component goes: all of its neighbours in it have cut it off. If one of them holds its
//! opening, the first of these, its *steward*, enters it: that final is public by then, and bit for
//! bit what its author committed to. So a party that vanishes costs nothing if its opening has
//! reached a neighbour, and its own weight only if not.

mod reach;

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use crate::agreement::flood::Flood;
use crate::publishing::averaging::cuts::reach::LiveEdges;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// The cut edges that a node has heard of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// (who cut it, other end) → whether the cutter holds the other's opening.
    cuts: BTreeMap<(Party, Party), bool>,
}

/// What a view means for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Whom it reaches, itself included.
    pub component: BTreeSet<Party>,
    /// Its neighbours over live edges, ascending.
    pub live: Vec<Party>,
    /// Vanished party → its steward.
    pub stewards: BTreeMap<Party, Party>,
    /// The longest way within the component, in edges; at least 1.
    pub diameter: u32,
}

impl Roles {
    /// Whose finals are averaged here.
    pub fn included(&self) -> BTreeSet<Party> {
        self.component
            .iter()
            .chain(self.stewards.keys())
            .copied()
            .collect()
    }
}

impl View {
    /// What has been flooded about edges between these members.
    pub fn of(flood: &Flood, graph: &Graph, members: &BTreeSet<Party>) -> Self {
        let between =
            |a: &Party, b: &Party| members.contains(a) && members.contains(b) && graph.joins(*a, *b);
        let cuts = flood
            .severed()
            .filter(|(author, party, _)| between(author, party));
        View {
            cuts: cuts
                .map(|(author, party, held)| ((author, party), held))
                .collect(),
        }
    }

    /// Whether either end has cut this edge.
    pub fn is_cut(&self, a: Party, b: Party) -> bool {
        self.cuts.contains_key(&(a, b)) || self.cuts.contains_key(&(b, a))
    }

    /// Whether this party has cut its edge to that one.
    pub fn has_cut(&self, author: Party, party: Party) -> bool {
        self.cuts.contains_key(&(author, party))
    }

    /// A name for it: 0 while nothing is cut, else a part of its hash.
    pub fn label(&self) -> u64 {
        if self.cuts.is_empty() {
            return 0;
        }
        let mut hash = Sha256::new();
        for (&(author, party), &held) in &self.cuts {
            hash.update((author as u64).to_le_bytes());
            hash.update((party as u64).to_le_bytes());
            hash.update([u8::from(held)]);
        }
        let hash: [u8; 32] = hash.finalize().into();
        u64::from_le_bytes(hash[..8].try_into().expect("8 of 32 bytes"))
    }

    /// What this view means for `me`, one of the members.
    pub fn roles(&self, graph: &Graph, members: &BTreeSet<Party>, me: Party) -> Roles {
        let mut edges = LiveEdges::of(graph, members);
        self.cuts.keys().for_each(|&(a, b)| edges.cut(a, b));
        let reached = edges.reached_from(me);
        let component: BTreeSet<Party> = reached.parties().collect();
        let steward = |party: Party| {
            let mut neighbours = graph
                .neighbours(party)
                .iter()
                .copied()
                .filter(|&other| reached.has(other));
            neighbours.find(|&other| self.cuts.get(&(other, party)) == Some(&true))
        };
        let vanished = members.iter().copied().filter(|&party| !reached.has(party));
        let stewards = vanished
            .filter_map(|party| Some((party, steward(party)?)))
            .collect();
        let (live, diameter) = (edges.of_party(me).parties().collect(), edges.diameter(&reached));
        Roles {
            live,
            component,
            stewards,
            diameter,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::public_draw::PublicDraw;

    fn view(cuts: &[(Party, Party, bool)]) -> View {
        View {
            cuts: cuts.iter().map(|&(a, b, held)| ((a, b), held)).collect(),
        }
    }

    fn all(parties: usize) -> BTreeSet<Party> {
        (0..parties).collect()
    }

    /// Whom a party reaches, and how far they are: one breadth-first search over sets.
    fn distances(view: &View, graph: &Graph, members: &BTreeSet<Party>, from: Party) -> BTreeMap<Party, u32> {
        let mut distances = BTreeMap::from([(from, 0)]);
        let mut front = vec![from];
        for distance in 1.. {
            let live = |&party: &Party| live(view, graph, members, party);
            let next: BTreeSet<Party> = front.iter().flat_map(live).collect();
            front = next
                .into_iter()
                .filter(|party| !distances.contains_key(party))
                .collect();
            if front.is_empty() {
                break;
            }
            distances.extend(front.iter().map(|&party| (party, distance)));
        }
        distances
    }

    fn live(view: &View, graph: &Graph, members: &BTreeSet<Party>, party: Party) -> Vec<Party> {
        let others = graph.neighbours(party).iter().copied();
        others
            .filter(|&other| members.contains(&other) && !view.is_cut(party, other))
            .collect()
    }

    /// A graph, who of its parties is a member, and some cuts: with words of bits that are full,
    /// nearly empty, and one of several.
    fn any_case() -> impl Strategy<Value = (Graph, BTreeSet<Party>, View)> {
        let sizes = prop_oneof![2usize..12, 60usize..70, 126usize..132];
        (sizes, 1u8..=100, 0u8..30, any::<u64>()).prop_map(|(parties, density, cut, seed)| {
            let mut draw = PublicDraw::new("undertone/tests/views", seed);
            let mut one_in = |percent: u8| draw.below(100) < usize::from(percent);
            let pairs = (0..parties).flat_map(|a| (a + 1..parties).map(move |b| (a, b)));
            let edges: Vec<_> = pairs.filter(|_| one_in(density)).collect();
            let members: BTreeSet<Party> = (0..parties).filter(|&party| party == 0 || !one_in(10)).collect();
            let ends = edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
            let cuts = ends.filter(|_| one_in(cut)).collect::<Vec<_>>();
            let cuts = cuts.into_iter().map(|ends| (ends, one_in(50))).collect();
            (
                Graph::from_edges(parties, &edges).expect("pairs, each once"),
                members,
                View { cuts },
            )
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn roles_are_those_of_a_plain_search((graph, members, view) in any_case()) {
            let me = *members.first().expect("party 0");
            let roles = view.roles(&graph, &members, me);
            let distances = |from: Party| distances(&view, &graph, &members, from);
            let component: BTreeSet<Party> = distances(me).into_keys().collect();
            let longest = |&from: &Party| distances(from).into_values().max().unwrap_or(0);
            prop_assert_eq!(roles.diameter, component.iter().map(longest).max().unwrap_or(0).max(1));
            prop_assert_eq!(&roles.live, &live(&view, &graph, &members, me));
            for &party in members.difference(&component) {
                let held_by = |other: Party| view.cuts.get(&(other, party)) == Some(&true);
                let holds = |&&other: &&Party| component.contains(&other) && held_by(other);
                prop_assert_eq!(roles.stewards.get(&party), graph.neighbours(party).iter().find(holds));
            }
            let is_outside = |party: &Party| members.contains(party) && !component.contains(party);
            prop_assert!(roles.stewards.keys().all(is_outside));
            prop_assert_eq!(roles.component, component);
        }
    }

    #[test]
    fn nothing_cut_is_everybody() {
        let roles = View::default().roles(&Graph::ring(6), &all(6), 2);
        assert_eq!(
            (roles.component, roles.live, roles.diameter),
            (all(6), vec![1, 3], 3)
        );
        assert!(roles.stewards.is_empty());
        assert_eq!(View::default().label(), 0);
    }

    #[test]
    fn the_first_neighbour_that_holds_it_enters_a_vanished_partys_final() {
        let graph = Graph::complete(5);
        let cut = view(&[(0, 3, false), (1, 3, true), (2, 3, true), (4, 3, true)]);
        let roles = cut.roles(&graph, &all(5), 0);
        assert_eq!(roles.component, BTreeSet::from([0, 1, 2, 4]));
        assert_eq!(roles.stewards, BTreeMap::from([(3, 1)]));
        assert_eq!(roles.included(), all(5));
        // The steward vanishes, too: the next one enters what it had entered, and its own.
        let more = view(&[
            (0, 3, false),
            (1, 3, true),
            (2, 3, true),
            (4, 3, true),
            (0, 1, true),
            (2, 1, true),
            (4, 1, false),
        ]);
        let roles = more.roles(&graph, &all(5), 4);
        assert_eq!(roles.stewards, BTreeMap::from([(1, 0), (3, 2)]));
        // Not all have cut it: it is still there.
        let half = view(&[(0, 3, true), (1, 3, true)]).roles(&graph, &all(5), 0);
        assert_eq!((half.component, half.live), (all(5), vec![1, 2, 4]));
        // Nobody holds it: it costs its own weight.
        let lost =
            view(&[(0, 3, false), (1, 3, false), (2, 3, false), (4, 3, false)]).roles(&graph, &all(5), 0);
        assert_eq!(lost.included(), BTreeSet::from([0, 1, 2, 4]));
    }

    #[test]
    fn a_chord_shortens_and_a_cut_lengthens() {
        let graph = Graph::ring(6);
        let cut = view(&[(5, 0, true)]).roles(&graph, &all(6), 0);
        assert_eq!((cut.component.len(), cut.diameter, cut.live), (6, 5, vec![1]));
        assert_ne!(view(&[(5, 0, true)]).label(), view(&[(5, 0, false)]).label());
        assert_ne!(view(&[(5, 0, true)]).label(), view(&[(0, 5, true)]).label());
    }
}
