//! The file format of PPSC's mixing: the edges of each iteration and how each exchange fared
//! (node/guide/formats.md).
//!
//! It is an [`Execution`] in other words: iterations are rounds, an exchange is the share that its
//! out-agent hands over.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer, ser};
use undertone_protocol::topology::party::Party;

use crate::execution::adversary::Adversary;
use crate::execution::checked::Execution;
use crate::execution::error::{ExecutionError, check_party, check_some, invalid, party_set};
use crate::execution::raw::RawExecution;
use crate::execution::share::{Fate, ShareFault, yes};
use crate::mechanism::chosen::Mechanism;

/// One exchange that did not simply happen in its iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeFault {
    /// The iteration in which it was due, from 1.
    pub iteration: u32,
    /// The out-agent: who sent a share ω and kept a noise γ.
    pub out: Party,
    /// The in-agent: who was to add ω to its state.
    #[serde(rename = "in")]
    pub into: Party,
    /// The fate of ω: added by `in`, added again by `out` (whose state is then as before, if it
    /// exchanged nothing since), or by nobody.
    pub fate: Fate,
    /// The iteration at whose end ω is added: `iteration`, if nothing is given, or a later one;
    /// past the last means the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<u32>,
    /// Whether `in` may have read ω.
    #[serde(default = "yes")]
    pub seen: bool,
}

/// The file as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExecutionFile {
    parties: usize,
    edges: Vec<Vec<(Party, Party)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    corrupted: Option<Vec<Party>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    exchanges: Option<Vec<ExchangeFault>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crashed: Option<Vec<(Party, u32)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rolled_back: Option<Vec<Party>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    published: Option<Vec<Party>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sensitivity: Option<Vec<f64>>,
}

/// Reads the file; unknown keys are refused.
pub fn parse(text: &str) -> Result<Execution, ExecutionError> {
    let file: ExecutionFile = serde_json::from_str(text).map_err(|error| ExecutionError::syntax(&error))?;
    file.check()
}

/// Writes an execution of PPSC in this format.
pub(crate) fn serialize<S: Serializer>(execution: &Execution, serializer: S) -> Result<S::Ok, S::Error> {
    ExecutionFile::of(execution)
        .map_err(ser::Error::custom)?
        .serialize(serializer)
}

impl ExecutionFile {
    /// The file of an execution; refused, in words for the serializer, where the format has no
    /// place for it.
    fn of(execution: &Execution) -> Result<Self, &'static str> {
        let Adversary::Corrupted(corrupted) = execution.adversary() else {
            return Err("an execution of PPSC has a coalition, no eavesdropper");
        };
        let edges = |iteration: u32| {
            let of_party = |out: Party| execution.out(iteration, out).iter().map(move |&into| (out, into));
            (0..execution.parties()).flat_map(of_party).collect()
        };
        let fault = |share: &ShareFault| {
            let ShareFault {
                round: iteration,
                from: out,
                to: into,
                fate,
                applied,
                seen,
            } = *share;
            ExchangeFault {
                iteration,
                out,
                into,
                fate,
                applied,
                seen,
            }
        };
        let some = |list: Vec<Party>| Some(list).filter(|list| !list.is_empty());
        Ok(ExecutionFile {
            parties: execution.parties(),
            edges: (1..=execution.rounds() as u32).map(edges).collect(),
            corrupted: Some(corrupted.iter().copied().collect()),
            exchanges: Some(execution.shares().iter().map(fault).collect())
                .filter(|list: &Vec<_>| !list.is_empty()),
            crashed: crashed(execution)?,
            rolled_back: some(execution.rolled_back().iter().copied().collect()),
            published: Some(execution.published().iter().copied().collect()),
            sensitivity: execution.sensitivity().map(<[f64]>::to_vec),
        })
    }

    fn check(self) -> Result<Execution, ExecutionError> {
        // What the file says by itself, place by place.
        let mechanism = Mechanism::Ppsc;
        check_some(self.parties)?;
        let exchanges = self.edges.iter().map(Vec::len).sum();
        mechanism
            .rules()
            .check_size(self.parties, self.edges.len(), exchanges)?;
        self.check_edges()?;
        let crashed = self.crashed()?;
        self.check_faults(&crashed)?;
        let rolled_back = party_set(
            self.parties,
            "rolled_back",
            self.rolled_back.as_deref().unwrap_or_default(),
        )?;
        let published = match self.published {
            Some(listed) => listed,
            None => (0..self.parties)
                .filter(|party| !crashed.contains_key(party) && !rolled_back.contains(party))
                .collect(),
        };
        // The same in rounds and shares; what is left is checked there.
        let rounds = self.edges.len();
        let here = |iteration: usize| {
            (0..self.parties)
                .map(|party| {
                    crashed
                        .get(&party)
                        .is_none_or(|&since| iteration < since as usize)
                })
                .collect()
        };
        let mut out = vec![vec![Vec::new(); self.parties]; rounds];
        for (round, edges) in out.iter_mut().zip(&self.edges) {
            edges.iter().for_each(|&(from, to)| round[from] = vec![to]);
        }
        let share = |fault: ExchangeFault| {
            let ExchangeFault {
                iteration: round,
                out: from,
                into: to,
                fate,
                applied,
                seen,
            } = fault;
            ShareFault {
                round,
                from,
                to,
                fate,
                applied,
                seen,
            }
        };
        RawExecution {
            parties: self.parties,
            rounds,
            mechanism,
            out,
            online: (!crashed.is_empty()).then(|| (0..=rounds).map(here).collect()),
            shares: self
                .exchanges
                .map(|exchanges| exchanges.into_iter().map(share).collect()),
            corrupted: Some(self.corrupted.unwrap_or_default()),
            observed: None,
            rolled_back: self.rolled_back,
            published: Some(published),
            sensitivity: self.sensitivity,
        }
        .try_into()
    }

    /// Ends in range, no loop, and nobody in two edges of one iteration: these are simultaneous,
    /// one per component.
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
                        let problem = format!(
                            "party {party} is in two edges of one iteration: a component has one edge per iteration"
                        );
                        return Err(invalid(place(), problem));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the iteration from which on each party that crashes is gone.
    fn crashed(&self) -> Result<BTreeMap<Party, u32>, ExecutionError> {
        let mut crashed = BTreeMap::new();
        for (index, &(party, iteration)) in self.crashed.iter().flatten().enumerate() {
            check_party(self.parties, || format!("crashed[{index}][0]"), party)?;
            let place = format!("crashed[{index}][1]");
            if iteration == 0 {
                return Err(invalid(
                    place,
                    "iterations count from 1: before the first everybody is there",
                ));
            }
            if iteration as usize > self.edges.len() + 1 {
                let problem = format!(
                    "there are {} iterations; {} is after the last",
                    self.edges.len(),
                    self.edges.len() + 1
                );
                return Err(invalid(place, problem));
            }
            if crashed.insert(party, iteration).is_some() {
                return Err(invalid(
                    format!("crashed[{index}][0]"),
                    format!("party {party} is listed twice"),
                ));
            }
        }
        Ok(crashed)
    }

    /// Every exception names an exchange that took place, once, and somebody who is there takes ω.
    fn check_faults(&self, crashed: &BTreeMap<Party, u32>) -> Result<(), ExecutionError> {
        let mut listed = BTreeSet::new();
        for (index, fault) in self.exchanges.iter().flatten().enumerate() {
            let ExchangeFault {
                iteration,
                out,
                into,
                fate,
                applied,
                ..
            } = *fault;
            let place = |key: &str| format!("exchanges[{index}].{key}");
            // That there was such an exchange …
            if iteration == 0 || iteration as usize > self.edges.len() {
                return Err(invalid(
                    place("iteration"),
                    format!("must be from 1 to {}", self.edges.len()),
                ));
            }
            check_party(self.parties, || place("out"), out)?;
            check_party(self.parties, || place("in"), into)?;
            if !self.edges[iteration as usize - 1].contains(&(out, into)) {
                let problem = format!(
                    "party {out} sends nothing to party {into} in iteration {iteration} (see \"edges\")"
                );
                return Err(invalid(place("in"), problem));
            }
            let gone = |party: Party, at: u32| crashed.get(&party).is_some_and(|&since| since <= at);
            if gone(out, iteration) {
                let problem = format!(
                    "party {out} has crashed in iteration {iteration} and sends nothing (see \"crashed\")"
                );
                return Err(invalid(place("out"), problem));
            }
            if gone(into, iteration) && fate == Fate::Accepted {
                let problem = format!(
                    "party {into} takes ω in iteration {iteration} but has crashed (see \"crashed\")"
                );
                return Err(invalid(place("fate"), problem));
            }
            // … and that somebody was there to take ω when it was applied.
            if applied.is_some_and(|applied| applied < iteration) {
                return Err(invalid(
                    place("applied"),
                    format!("must be {iteration} or later: ω was sent in iteration {iteration}"),
                ));
            }
            let taker = if fate == Fate::Accepted { into } else { out };
            let at = applied.unwrap_or(iteration).min(self.edges.len() as u32);
            if fate != Fate::Lost && gone(taker, at) {
                let problem =
                    format!("party {taker} takes ω in iteration {at} but has crashed (see \"crashed\")");
                return Err(invalid(place("applied"), problem));
            }
            if !listed.insert((iteration, out, into)) {
                return Err(invalid(
                    format!("exchanges[{index}]"),
                    "the same exchange is listed twice",
                ));
            }
        }
        Ok(())
    }
}

/// Returns the iteration from which on each party that is not there to the end is gone.
fn crashed(execution: &Execution) -> Result<Option<Vec<(Party, u32)>>, &'static str> {
    let Some(online) = execution.absences() else {
        return Ok(None);
    };
    let mut crashed = Vec::new();
    for party in 0..execution.parties() {
        let Some(since) = online.iter().position(|row| !row[party]) else {
            continue;
        };
        if online[since..].iter().any(|row| row[party]) {
            return Err("a party that comes back has no place in an execution of PPSC");
        }
        crashed.push((party, since as u32));
    }
    Ok(Some(crashed).filter(|crashed| !crashed.is_empty()))
}
