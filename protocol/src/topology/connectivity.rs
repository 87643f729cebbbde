//! Vertex connectivity κ of a graph, with the parties that must be taken away before it falls into
//! pieces. Integers only, so that every machine finds the same.
//!
//! By Even's algorithm (1975). A cut of fewer than K parties leaves one of the first K parties, and
//! some other party on its far side. So the first K are asked pairwise whether K ways lead from one
//! to the other without a common party, and each later one whether K ways lead to different parties
//! among all before it: K(K − 1)/2 + n − K questions, n the parties. Each is answered by at most K
//! searches through the graph (Ford and Fulkerson), most of them by a look at the common
//! neighbours.

use std::collections::VecDeque;

use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// A graph's connectivity κ, with the parties that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeastCut {
    /// The least number of parties whose removal leaves the others in several pieces; one less than
    /// there are parties if every pair is joined, which nothing separates.
    pub kappa: usize,
    /// Such parties, as few as can be, ascending: none of them if the graph is in pieces as it is.
    /// `None` if every pair is joined.
    pub cut: Option<Vec<Party>>,
}

/// The evidence that a graph is less connected than was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Fewer parties than asked, ascending, whose removal leaves the others in several pieces; they
    /// need not be the fewest. `None` if every pair is joined: there are too few parties.
    pub cut: Option<Vec<Party>>,
}

/// Whether κ ≥ `wanted`, without computing κ. At most `wanted`²/2 + n questions of `wanted`
/// searches each, n the parties.
pub fn at_least(graph: &Graph, wanted: usize) -> Result<(), Shortfall> {
    if wanted == 0 {
        return Ok(());
    }
    let around = fewest_neighbours(graph);
    let cut = if around.len() >= wanted {
        narrower(graph, wanted, Search::First)
    } else if around.len() + 1 >= graph.parties() {
        return Err(Shortfall { cut: None });
    } else {
        // Without its neighbours a party reaches nobody.
        Some(around.to_vec())
    };
    cut.map_or(Ok(()), |cut| Err(Shortfall { cut: Some(cut) }))
}

/// κ with a least cut. At most δ²/2 + n questions of δ searches each, n the parties, δ the least
/// number of neighbours.
pub fn connectivity(graph: &Graph) -> LeastCut {
    let around = fewest_neighbours(graph);
    if around.len() + 1 >= graph.parties() {
        return LeastCut {
            kappa: around.len(),
            cut: None,
        };
    }
    let cut = narrower(graph, around.len(), Search::Least).unwrap_or_else(|| around.to_vec());
    LeastCut {
        kappa: cut.len(),
        cut: Some(cut),
    }
}

/// The neighbours of the first of the parties that have the fewest.
fn fewest_neighbours(graph: &Graph) -> &[Party] {
    let lists = (0..graph.parties()).map(|party| graph.neighbours(party));
    lists.min_by_key(|list| list.len()).unwrap_or(&[])
}

/// The moment when a search for cuts may stop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    /// The first cut that is narrow enough.
    First,
    /// The absence of a narrower cut.
    Least,
}

/// A cut of fewer than `most` parties, if there is one; every party must have `most` neighbours.
fn narrower(graph: &Graph, mut most: usize, search: Search) -> Option<Vec<Party>> {
    let mut ways = Ways::new(graph);
    let mut narrowest = None;
    for party in 1..graph.parties() {
        // A smaller `most` does not change earlier answers: they were about more ways.
        let pairs = if party < most { party } else { 0 };
        let questions = (0..pairs).map(Some).chain((pairs == 0).then_some(None));
        for question in questions {
            let found = match question {
                Some(earlier) => ways.cut_between(party, earlier, most),
                None => ways.cut_from_all_before(party, most),
            };
            let Some(cut) = found else { continue };
            most = cut.len();
            narrowest = Some(cut);
            if search == Search::First || most == 0 {
                return narrowest;
            }
        }
    }
    narrowest
}

/// The number of no party of any graph.
const NOBODY: usize = usize::MAX;

/// Ways through a graph of which no two have a party in common, but for the one where they begin.
/// Holds what searches need, to be used again.
///
/// A way ends at an end, and may not pass through one. To find one way more, a search may follow a
/// way that is there backwards, from where it comes upon it: so each party has two sides, where
/// ways come in and where they go out, and on a party that is on a way only the other way around
/// leads from one to the other.
pub struct Ways<'a> {
    graph: &'a Graph,
    ends: Vec<bool>,
    /// The predecessor of a party on its way; nobody if it is on none.
    before: Vec<usize>,
    /// The party from where the last search came to a party's incoming side; itself if from its
    /// outgoing side.
    entered: Vec<usize>,
    /// The party from where the last search came to a party's outgoing side.
    left: Vec<usize>,
    open: VecDeque<Party>,
}

impl<'a> Ways<'a> {
    /// Nothing asked yet of this graph.
    pub fn new(graph: &'a Graph) -> Self {
        let nobody = vec![NOBODY; graph.parties()];
        Ways {
            graph,
            ends: vec![false; graph.parties()],
            before: nobody.clone(),
            entered: nobody.clone(),
            left: nobody,
            open: VecDeque::new(),
        }
    }

    /// A least set of parties without which `from` cannot reach `to`, if fewer than `most` do it,
    /// ascending. `None` if no such set is that small: always between neighbours, which nobody
    /// separates, and from a party to itself. Both are parties of the graph.
    pub fn cut_between(&mut self, from: Party, to: Party, most: usize) -> Option<Vec<Party>> {
        if from == to || self.graph.joins(from, to) {
            return None;
        }
        self.ends.fill(false);
        for &end in self.graph.neighbours(to) {
            self.ends[end] = true;
        }
        (!self.lead(from, most)).then(|| self.cut())
    }

    /// A least set of parties without which `party` can reach none of those before it, if fewer
    /// than `most` do it, ascending.
    fn cut_from_all_before(&mut self, party: Party, most: usize) -> Option<Vec<Party>> {
        self.ends.fill(false);
        self.ends[..party].fill(true);
        (!self.lead(party, most)).then(|| self.cut())
    }

    /// Whether `most` ways lead from `source` to different ends.
    fn lead(&mut self, source: Party, most: usize) -> bool {
        self.before.fill(NOBODY);
        let mut count = self.lead_shortly(source, most);
        while count < most {
            if !self.lead_once_more(source) {
                return false;
            }
            count += 1;
        }
        true
    }

    /// Finds ways of one or two steps, as they come, up to `most`; returns how many.
    fn lead_shortly(&mut self, source: Party, most: usize) -> usize {
        let around = self.graph.neighbours(source);
        let (near, far): (Vec<Party>, Vec<Party>) = around.iter().partition(|&&party| self.ends[party]);
        // Some greatest number of ways has all that are this short.
        for &end in &near {
            self.before[end] = source;
        }
        let mut count = near.len();
        for middle in far {
            if count >= most {
                break;
            }
            let free = |&&end: &&Party| self.ends[end] && self.before[end] == NOBODY;
            // From its own number on: were all to begin with the first, these would soon be taken.
            let list = self.graph.neighbours(middle);
            let (below, above) = list.split_at(list.partition_point(|&other| other < middle));
            if let Some(&end) = above.iter().chain(below).find(free) {
                self.before[middle] = source;
                self.before[end] = middle;
                count += 1;
            }
        }
        count
    }

    /// Finds one way more, moving those that are there if need be.
    fn lead_once_more(&mut self, source: Party) -> bool {
        self.entered.fill(NOBODY);
        self.left.fill(NOBODY);
        self.open.clear();
        self.open.push_back(source);
        while let Some(party) = self.open.pop_front() {
            for &next in self.graph.neighbours(party) {
                if next == source || self.entered[next] != NOBODY {
                    continue;
                }
                self.entered[next] = party;
                if self.before[next] != NOBODY {
                    self.follow_back(source, next);
                } else if self.ends[next] {
                    self.take(source, next);
                    return true;
                } else {
                    self.left[next] = party;
                    self.open.push_back(next);
                }
            }
            if party != source && self.before[party] != NOBODY && self.entered[party] == NOBODY {
                self.entered[party] = party;
                self.follow_back(source, party);
            }
        }
        false
    }

    /// From the incoming side of a party on a way to the outgoing side of the one before it.
    fn follow_back(&mut self, source: Party, party: Party) {
        let back = self.before[party];
        if back != source && self.left[back] == NOBODY {
            self.left[back] = party;
            self.open.push_back(back);
        }
    }

    /// Takes the way that the search has found to `end`, from there to its beginning. It may leave
    /// parties behind that only stand before each other, in a ring: a later search can come to them
    /// and leave them as if they were on no way.
    fn take(&mut self, source: Party, end: Party) {
        let mut party = end;
        while party != source {
            // Where the search came upon a way, it went back to `party`, which now leads elsewhere.
            if self.before[party] != NOBODY {
                party = self.left[party];
                while self.entered[party] == party {
                    // The search went back through this one: it is on no way any more.
                    self.before[party] = NOBODY;
                    party = self.left[party];
                }
            }
            self.before[party] = self.entered[party];
            party = self.before[party];
        }
    }

    /// The parties that the last search, which found no way, could come to but not pass: one on
    /// each way.
    fn cut(&self) -> Vec<Party> {
        let stops = |&party: &Party| self.entered[party] != NOBODY && self.left[party] == NOBODY;
        (0..self.graph.parties()).filter(stops).collect()
    }
}

#[cfg(test)]
mod tests;
