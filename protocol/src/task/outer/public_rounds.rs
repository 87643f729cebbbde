//! The progress of a node in the public rounds of all outer iterations, with the states that it
//! holds of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::averaging::finite_time;
use crate::averaging::spectrum::Spectrum;
use crate::plan::checked::Plan;
use crate::plan::computation::recursion::PublicAveraging;
use crate::topology::party::Party;

/// The progress of this node in all public rounds, with the states that it holds of them.
pub(super) struct PublicRounds {
    pub(super) neighbours: Vec<Party>,
    /// The factors of the differences, one for each round of an outer iteration.
    pub(super) steps: Vec<f64>,
    pub(super) state: Vec<f64>,
    /// The number of the round that is under way or comes next, over all outer iterations.
    pub(super) now: u32,
    /// One state of each neighbour, for this round and the next.
    pub(super) heard: BTreeMap<(u32, Party), Vec<f64>>,
    /// The last two messages: who is there again may lack both.
    pub(super) recent: VecDeque<Arc<[u8]>>,
}

impl PublicRounds {
    pub(super) fn of(plan: &Plan, me: Party) -> Self {
        let graph = &plan.draft().public_graph;
        let averaging = plan.draft().computation.recursion().map(|outer| outer.averaging);
        let steps = match averaging {
            Some(PublicAveraging::Paper { rounds, weight }) => {
                let weight = weight.unwrap_or(1.0 / plan.parties() as f64);
                vec![weight; rounds as usize]
            }
            Some(PublicAveraging::Exact) | None => {
                let spectrum = Spectrum::of(graph).expect("a checked plan's public graph is connected");
                let roots = finite_time::roots(&spectrum);
                roots.into_iter().map(|root| 1.0 / root).collect()
            }
        };
        PublicRounds {
            neighbours: graph.neighbours(me).to_vec(),
            steps,
            state: vec![],
            now: 0,
            heard: BTreeMap::new(),
            recent: VecDeque::new(),
        }
    }

    /// T.
    pub(super) fn in_an_iteration(&self) -> usize {
        self.steps.len().max(1)
    }

    /// Returns the neighbours whose awaited message has not come.
    pub(super) fn waits_for(&self) -> impl Iterator<Item = Party> + '_ {
        let here = |party: &&Party| self.heard.contains_key(&(self.now, **party));
        self.neighbours.iter().filter(move |party| !here(party)).copied()
    }

    /// Whether all neighbours have said what belongs to this round.
    pub(super) fn is_complete(&self) -> bool {
        self.waits_for().next().is_none()
    }

    /// x ← x + c·Σ (their x − x), neighbours one after the other.
    pub(super) fn move_on(&mut self) {
        let step = self.steps[self.now as usize % self.in_an_iteration()];
        let before = self.state.clone();
        for party in &self.neighbours {
            let Some(theirs) = self.heard.get(&(self.now, *party)) else {
                continue;
            };
            let moved = self.state.iter_mut().zip(theirs.iter().zip(&before));
            moved.for_each(|(x, (theirs, own))| *x += step * (theirs - own));
        }
        self.now += 1;
        let now = self.now;
        self.heard.retain(|(round, _), _| *round >= now);
    }
}
