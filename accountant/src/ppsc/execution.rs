//! What happened in PPSC's mixing: the edges of each iteration and how each exchange fared (CONTRACTS, `account ppsc`).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use undertone_protocol::mixing::Party;

use crate::execution::{ExecutionError, Fate, check_party, invalid, party_set, yes};

/// Numbers that the final states may take at most (128 MiB), which also bounds the factorisation of the view.
const LARGEST_VIEW: usize = 1 << 24;

/// One exchange that did not simply happen in its iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeFault {
    /// s, from 1.
    pub iteration: u32,
    /// Who sent ω and kept γ.
    pub out: Party,
    /// Who was to add ω.
    #[serde(rename = "in")]
    pub into: Party,
    /// What became of ω: added by `in`, added again by `out` (whose state is then as before), or by nobody.
    pub fate: Fate,
    /// Whether `in` may have read ω.
    #[serde(default = "yes")]
    pub seen: bool,
}

/// The file as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExecution {
    parties: usize,
    edges: Vec<Vec<(Party, Party)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    corrupted: Option<Vec<Party>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exchanges: Option<Vec<ExchangeFault>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crashed: Option<Vec<(Party, u32)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    published: Option<Vec<Party>>,
}

/// An exchange that took place: its out-agent was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// s, from 1.
    pub iteration: u32,
    /// Its place among the edges of its iteration, from 0.
    pub slot: usize,
    /// Who sent ω and kept γ.
    pub out: Party,
    /// Who was to add ω.
    pub into: Party,
    /// What became of ω.
    pub fate: Fate,
    /// Whether `into` may have read ω.
    pub seen: bool,
}

/// A checked PPSC execution: every exception names an edge of its iteration whose out-agent was there.
#[derive(Debug, Clone)]
pub struct PpscExecution {
    parties: usize,
    iterations: usize,
    exchanges: Vec<Exchange>,
    corrupted: BTreeSet<Party>,
    published: BTreeSet<Party>,
}

impl PpscExecution {
    /// Reads the file; unknown keys are refused.
    pub fn parse(text: &str) -> Result<Self, ExecutionError> {
        let raw: RawExecution = serde_json::from_str(text).map_err(|error| ExecutionError::syntax(&error))?;
        raw.check()
    }

    /// n.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// S.
    pub fn iterations(&self) -> usize {
        self.iterations
    }

    /// What took place, in order. The edge of an out-agent that had crashed is not among it.
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// The coalition inside the private graph.
    pub fn corrupted(&self) -> &BTreeSet<Party> {
        &self.corrupted
    }

    /// Whose final states are seen on the public graph.
    pub fn published(&self) -> &BTreeSet<Party> {
        &self.published
    }

    /// The connected components of accepted exchanges, each in ascending order, by their first party.
    pub fn components(&self) -> Vec<Vec<Party>> {
        let mut component: Vec<usize> = (0..self.parties).collect();
        for exchange in self.exchanges.iter().filter(|exchange| exchange.fate == Fate::Accepted) {
            let (a, b) = (root(&mut component, exchange.out), root(&mut component, exchange.into));
            component[a.max(b)] = a.min(b);
        }
        let mut members: BTreeMap<usize, Vec<Party>> = BTreeMap::new();
        for party in 0..self.parties {
            members.entry(root(&mut component, party)).or_default().push(party);
        }
        members.into_values().collect()
    }
}

/// The first party of its component, halving the path on the way.
fn root(component: &mut [usize], mut party: Party) -> Party {
    while component[party] != party {
        component[party] = component[component[party]];
        party = component[party];
    }
    party
}

impl RawExecution {
    fn check(self) -> Result<PpscExecution, ExecutionError> {
        self.check_sizes()?;
        self.check_edges()?;
        let crashed = self.crashed()?;
        let faults = self.faults(&crashed)?;
        let corrupted = party_set(self.parties, "corrupted", self.corrupted.as_deref().unwrap_or_default())?;
        let published = match &self.published {
            Some(listed) => party_set(self.parties, "published", listed)?,
            None => (0..self.parties).filter(|party| !crashed.contains_key(party)).collect(),
        };
        let gone = |party: Party, iteration: u32| crashed.get(&party).is_some_and(|&since| since <= iteration);
        let mut exchanges = Vec::new();
        for (iteration, edges) in (1..).zip(&self.edges) {
            for (slot, &(out, into)) in edges.iter().enumerate().filter(|(_, edge)| !gone(edge.0, iteration)) {
                let (fate, seen) = match faults.get(&(iteration, out, into)) {
                    Some(fault) => (fault.fate, fault.seen),
                    None if gone(into, iteration) => (Fate::Returned, false),
                    None => (Fate::Accepted, true),
                };
                exchanges.push(Exchange { iteration, slot, out, into, fate, seen });
            }
        }
        Ok(PpscExecution { parties: self.parties, iterations: self.edges.len(), exchanges, corrupted, published })
    }

    fn check_sizes(&self) -> Result<(), ExecutionError> {
        if self.parties == 0 {
            return Err(invalid("parties", "must be at least 1"));
        }
        let exchanges: usize = self.edges.iter().map(Vec::len).sum();
        let size = self.parties.checked_add(exchanges).and_then(|unknowns| unknowns.checked_mul(self.parties));
        if size.is_none_or(|size| size > LARGEST_VIEW) {
            let problem =
                format!("parties · (parties + edges) must be at most {LARGEST_VIEW}: this is too large to account exactly");
            return Err(invalid("parties", problem));
        }
        Ok(())
    }

    /// Ends in range, no loop, and nobody in two edges of one iteration: these are simultaneous, one per component.
    fn check_edges(&self) -> Result<(), ExecutionError> {
        for (index, edges) in self.edges.iter().enumerate() {
            let mut busy = BTreeSet::new();
            for (slot, &(out, into)) in edges.iter().enumerate() {
                for (end, party) in [(0, out), (1, into)] {
                    let place = || format!("edges[{index}][{slot}][{end}]");
                    check_party(self.parties, place, party)?;
                    if end == 1 && out == into {
                        return Err(invalid(place(), format!("party {party} exchanges with itself")));
                    }
                    if !busy.insert(party) {
                        let problem = format!("party {party} is in two edges of one iteration: there is one a component");
                        return Err(invalid(place(), problem));
                    }
                }
            }
        }
        Ok(())
    }

    /// From which iteration on a party is gone.
    fn crashed(&self) -> Result<BTreeMap<Party, u32>, ExecutionError> {
        let mut crashed = BTreeMap::new();
        for (index, &(party, iteration)) in self.crashed.iter().flatten().enumerate() {
            check_party(self.parties, || format!("crashed[{index}][0]"), party)?;
            let place = format!("crashed[{index}][1]");
            if iteration == 0 {
                return Err(invalid(place, "iterations count from 1: before the first everybody is there"));
            }
            if iteration as usize > self.edges.len() + 1 {
                let problem = format!("there are {} iterations; {} is after the last", self.edges.len(), self.edges.len() + 1);
                return Err(invalid(place, problem));
            }
            if crashed.insert(party, iteration).is_some() {
                return Err(invalid(format!("crashed[{index}][0]"), format!("party {party} is listed twice")));
            }
        }
        Ok(crashed)
    }

    fn faults(&self, crashed: &BTreeMap<Party, u32>) -> Result<BTreeMap<(u32, Party, Party), ExchangeFault>, ExecutionError> {
        let mut faults = BTreeMap::new();
        for (index, fault) in self.exchanges.iter().flatten().enumerate() {
            let ExchangeFault { iteration, out, into, fate, .. } = *fault;
            let place = |key: &str| format!("exchanges[{index}].{key}");
            if iteration == 0 || iteration as usize > self.edges.len() {
                return Err(invalid(place("iteration"), format!("must be from 1 to {}", self.edges.len())));
            }
            check_party(self.parties, || place("out"), out)?;
            check_party(self.parties, || place("in"), into)?;
            if !self.edges[iteration as usize - 1].contains(&(out, into)) {
                let problem = format!("party {out} sends nothing to party {into} in iteration {iteration} (see \"edges\")");
                return Err(invalid(place("in"), problem));
            }
            let gone = |party: Party| crashed.get(&party).is_some_and(|&since| since <= iteration);
            if gone(out) {
                let problem = format!("party {out} has crashed in iteration {iteration} and sends nothing (see \"crashed\")");
                return Err(invalid(place("out"), problem));
            }
            if gone(into) && fate == Fate::Accepted {
                let problem = format!("party {into} takes ω in iteration {iteration} but has crashed (see \"crashed\")");
                return Err(invalid(place("fate"), problem));
            }
            if faults.insert((iteration, out, into), *fault).is_some() {
                return Err(invalid(format!("exchanges[{index}]"), "the same exchange is listed twice"));
            }
        }
        Ok(faults)
    }
}
