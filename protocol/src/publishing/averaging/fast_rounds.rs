//! The rounds: as many as fit to E, one after the other, until a message is missed.

use std::collections::{BTreeMap, BTreeSet};

use crate::averaging::entry::FinalEntry;
use crate::averaging::spectrum::Spectrum;
use crate::averaging::terms;
use crate::messages::wire::Bytes;
use crate::publishing::averaging::machine::{Averaging, Mode};
use crate::publishing::interface::Surroundings;
use crate::time::Time;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

impl Averaging {
    pub(super) fn schedule(
        &self,
        members: &BTreeSet<Party>,
        entries: &BTreeMap<Party, FinalEntry>,
    ) -> Option<terms::FastForm> {
        let ranges: Vec<f64> = entries.values().map(|entry| entry.range as f64).collect();
        let (terms, weight) = (&self.terms, self.weight(entries.values()));
        if members.len() == self.setup.graph.parties() {
            return terms.fast_form(terms.spectrum(), &ranges, weight);
        }
        let order: Vec<Party> = members.iter().copied().collect();
        let index = |party: Party| order.binary_search(&party).ok();
        let edges = self
            .setup
            .graph
            .edges()
            .iter()
            .filter_map(|&(a, b)| Some((index(a)?, index(b)?)));
        let graph = Graph::from_edges(order.len(), &edges.collect::<Vec<_>>()).ok()?;
        terms.fast_form(&Spectrum::of(&graph)?, &ranges, weight)
    }

    fn weight<'a>(&self, entries: impl Iterator<Item = &'a FinalEntry>) -> f64 {
        self.lattice
            .weight_to_f64(entries.map(|entry| entry.weight.0).fold(0, i128::saturating_add))
    }

    /// One round, if all of its messages are here. False: nothing can be done now.
    pub(super) fn step_rounds(&mut self, now: Time, around: &Surroundings<'_>) -> bool {
        let Mode::Rounds(fast) = &mut self.stage else {
            return false;
        };
        let Some(round) = fast.wants() else { return false };
        let here = |party: &Party| match round {
            0 => self.openings.contains_key(party),
            _ => self.inbox.has(*party, round),
        };
        let lacking: Vec<Party> = fast
            .neighbours()
            .iter()
            .copied()
            .filter(|party| !here(party))
            .collect();
        if !lacking.is_empty() {
            let is_late = now >= self.averaging_ends();
            if is_late || lacking.iter().any(|&party| self.is_lost(party, now, around)) {
                self.miss(around);
                return true;
            }
            return false;
        }
        let (openings, inbox) = (&self.openings, &mut self.inbox);
        let mut take = |party: Party| match round {
            0 => openings.get(&party).cloned(),
            _ => inbox.take(party, round),
        };
        let messages: BTreeMap<Party, Bytes> = fast
            .neighbours()
            .iter()
            .filter_map(|&party| Some((party, take(party)?)))
            .collect();
        if let Some(party) = fast.beyond(&messages) {
            self.breaks(
                party,
                format!("a change in round {round} of averaging that the entries do not allow"),
            );
            self.miss(around);
            return true;
        }
        let made = fast.step(&messages);
        let done = fast.wants().is_none();
        self.wait(now);
        match made {
            Ok(Some(bytes)) => {
                let signed = self.setup.signer.round(round + 1, &bytes);
                self.send(signed, &bytes, around.connected);
            }
            Ok(None) if done => self.conclude(now),
            Ok(None) => {}
            Err(reason) => {
                self.fault(reason);
                self.miss(around);
            }
        }
        true
    }
}
