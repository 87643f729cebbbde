//! The pairs of parties that a run connects: of those that its graphs allow, as many as it needs.

use crate::plan::checked::Plan;
use crate::topology::graph::Graph;

/// In a complete public graph of more parties than this, notices travel over some of its edges. Our
/// choice: below it a connection to everybody costs a second at most, and everybody is one hop
/// away.
const MOST_CONNECTED_TO_ALL: usize = 32;

impl Plan {
    /// The pairs that connect privately: those with shares between them (nobody where masks come
    /// from keys), and all of the private graph where START draws the schedule, or where each outer
    /// iteration has a schedule of its own, of which the plan has the first.
    pub fn private_links(&self) -> Graph {
        if self.draws_at_start() || self.draft().computation.recursion().is_some() {
            return self.draft().private_graph.clone();
        }
        if self.exchanges().rounds() == 0 {
            return Graph::circulant(self.parties(), &[]);
        }
        self.exchanges().meetings()
    }

    /// The pairs that connect in public. Of a complete graph of many parties a circulant one: each
    /// party with those 1, 2, … m places before and after it in plan order, and then 2m, 4m, … as
    /// far as half of the circle. The first m alone make a graph that stays connected whichever
    /// 2m − 1 parties are taken out (Harary 1962), here at least all that may collude or depart;
    /// the others keep ways short. Where results are averaged every edge has rounds, and counts.
    pub fn public_links(&self) -> Graph {
        let draft = self.draft();
        let (graph, parties) = (&draft.public_graph, self.parties());
        let is_complete = graph.least_degree() + 1 == parties;
        let floods = !draft.run.dissemination.is_by_consensus();
        if !is_complete || !floods || parties <= MOST_CONNECTED_TO_ALL {
            return graph.clone();
        }
        let lost = draft.privacy.colluding + draft.privacy.dropouts;
        let near = (lost + 1).div_ceil(2).max(2);
        let far = std::iter::successors(Some(2 * near), |distance| Some(2 * distance));
        let far = far.take_while(|&distance| distance <= parties / 2);
        let distances: Vec<usize> = (1..=near.min(parties / 2)).chain(far).collect();
        Graph::circulant(parties, &distances)
    }
}

#[cfg(test)]
mod tests {
    use crate::simulator::cluster::tests::plan;
    use crate::topology::connectivity::connectivity;

    #[test]
    fn few_are_connected_to_all_and_many_to_as_many_as_it_takes() {
        let few = plan(8, "", 3);
        assert_eq!(few.public_links(), few.draft().public_graph);
        for (parties, colluding, dropouts) in [(33, 1, 1), (60, 1, 1), (60, 5, 4), (41, 8, 3)] {
            let lines = format!("[privacy]\ncolluding = {colluding}\ndropouts = {dropouts}");
            let links = plan(parties, &lines, 3).public_links();
            assert!(connectivity(&links).kappa > colluding + dropouts, "{parties}");
            let hops = (0..parties).flat_map(|party| links.distances(party)).max();
            assert!(hops.flatten().is_some_and(|hops| hops <= 4), "{hops:?}");
            let degree = links.least_degree();
            assert!(degree < 2 * (colluding + dropouts) + 14 && degree < parties - 1);
        }
    }

    #[test]
    fn pairs_without_shares_do_not_connect_privately() {
        let plan = plan(20, "", 3);
        let links = plan.private_links();
        for (a, b) in plan.draft().private_graph.edges() {
            let shares = (1..=plan.rounds()).any(|round| {
                plan.schedule().sends_to(round, *a).contains(b)
                    || plan.schedule().sends_to(round, *b).contains(a)
            });
            assert_eq!(links.joins(*a, *b), shares);
        }
    }
}
