//! The events of a run's mixing phase, checked once.
//!
//! An [`Execution`] can only be had checked: every share that it lists was sent, every mass ends
//! with somebody who was online to take it. [`crate::execution::trace`] runs it; receipts are
//! written from it. However a mechanism's executions are written ([`crate::execution::file`]), here
//! they are rounds, shares, and who was online.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use undertone_protocol::lattice::injection::Injection;
use undertone_protocol::plan::exchange::injector;
use undertone_protocol::topology::party::Party;

use crate::execution::adversary::Adversary;
use crate::execution::error::{ExecutionError, invalid};
use crate::execution::raw::RawExecution;
use crate::execution::share::{Fate, ShareFault, ShareOutcome};
use crate::mechanism::chosen::Mechanism;
use crate::mechanism::rules::Format;

/// A checked execution. Written in the format of its mechanism.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawExecution")]
pub struct Execution {
    raw: RawExecution,
    /// How value and noise enter INCA's states; none for PPSC.
    injection: Option<Arc<Injection<f64>>>,
    /// The noises of party i are numbers `noises[i]..noises[i + 1]` of all.
    noises: Vec<usize>,
    faults: BTreeMap<(u32, Party, Party), ShareFault>,
    adversary: Adversary,
    rolled_back: BTreeSet<Party>,
    published: BTreeSet<Party>,
}

impl Execution {
    /// A run without any fault: everybody online, every share accepted in its round, all finals
    /// published, nobody corrupted.
    pub fn fault_free(
        mechanism: impl Into<Mechanism>,
        out: Vec<Vec<Vec<Party>>>,
    ) -> Result<Self, ExecutionError> {
        RawExecution {
            parties: out.first().map_or(0, Vec::len),
            rounds: out.len(),
            mechanism: mechanism.into(),
            out,
            online: None,
            shares: None,
            corrupted: Some(vec![]),
            observed: None,
            rolled_back: None,
            published: None,
            sensitivity: None,
        }
        .try_into()
    }

    /// This run with other exceptions, checked again.
    pub fn with_shares(mut self, shares: Vec<ShareFault>) -> Result<Self, ExecutionError> {
        self.raw.shares = Some(shares).filter(|shares| !shares.is_empty());
        self.raw.try_into()
    }

    /// This run with other absences: a row before the first round, all true, and one a round, each
    /// with an entry a party.
    pub fn with_online(mut self, online: Vec<Vec<bool>>) -> Result<Self, ExecutionError> {
        self.raw.online = Some(online);
        self.raw.try_into()
    }

    /// This run against another coalition.
    pub fn with_corrupted(
        mut self,
        corrupted: impl IntoIterator<Item = Party>,
    ) -> Result<Self, ExecutionError> {
        self.raw.observed = None;
        self.raw.corrupted = Some(corrupted.into_iter().collect());
        self.raw.try_into()
    }

    /// This run, of which an eavesdropper has read the states that these parties split in the round
    /// after the one given.
    #[cfg(test)]
    pub(crate) fn with_observed(
        mut self,
        observed: impl IntoIterator<Item = (Party, u32)>,
    ) -> Result<Self, ExecutionError> {
        self.raw.corrupted = None;
        self.raw.observed = Some(observed.into_iter().collect());
        self.raw.try_into()
    }

    /// This run with these departed parties taken out again by all others.
    pub fn with_rolled_back(
        mut self,
        departed: impl IntoIterator<Item = Party>,
    ) -> Result<Self, ExecutionError> {
        self.raw.rolled_back =
            Some(departed.into_iter().collect::<Vec<_>>()).filter(|departed| !departed.is_empty());
        self.raw.try_into()
    }

    /// This run, of which only the finals of these parties are seen.
    pub fn with_published(
        mut self,
        published: impl IntoIterator<Item = Party>,
    ) -> Result<Self, ExecutionError> {
        self.raw.published = Some(published.into_iter().collect());
        self.raw.try_into()
    }

    /// This run with a sensitivity for each party.
    pub fn with_sensitivity(mut self, sensitivity: Vec<f64>) -> Result<Self, ExecutionError> {
        self.raw.sensitivity = Some(sensitivity);
        self.raw.try_into()
    }

    /// The execution as EXECUTION.json writes it.
    pub(super) fn raw(&self) -> &RawExecution {
        &self.raw
    }

    /// How many parties there are.
    pub fn parties(&self) -> usize {
        self.raw.parties
    }

    /// How many rounds the run has.
    pub fn rounds(&self) -> usize {
        self.raw.rounds
    }

    /// How value and noise get into states.
    pub fn mechanism(&self) -> &Mechanism {
        &self.raw.mechanism
    }

    /// INCA's (c, Z): what enters the states in each round, c of the value, Z of the noises; none
    /// for PPSC.
    pub fn injection(&self) -> Option<&Arc<Injection<f64>>> {
        self.injection.as_ref()
    }

    /// Returns the settings that `party`'s machine is made for.
    pub(crate) fn machine(&self, party: Party) -> injector::Mechanism<f64> {
        match &self.injection {
            Some(injection) => injector::Mechanism::Injection(injection.clone()),
            None if self.mechanism().rules().format() == Format::Masks => injector::Mechanism::Masks {
                masks: self.noises(party).len(),
            },
            None => injector::Mechanism::HandOver {
                hand_outs: self.noises(party).len(),
            },
        }
    }

    /// The numbers of `party`'s noises, among those of everybody: one a round for INCA, one a
    /// hand-out for PPSC.
    pub fn noises(&self, party: Party) -> Range<usize> {
        self.noises[party]..self.noises[party + 1]
    }

    /// How many unknowns the run has: a value a party, then all noises.
    pub fn unknowns(&self) -> usize {
        self.raw.parties + self.noises[self.raw.parties]
    }

    /// Returns the parties that `party` sends to in `round`, from 1.
    pub fn out(&self, round: u32, party: Party) -> &[Party] {
        &self.raw.out[round as usize - 1][party]
    }

    /// To how many parties somebody sends in one round at most.
    pub fn out_degree(&self) -> usize {
        self.raw.out.iter().flatten().map(Vec::len).max().unwrap_or(0)
    }

    /// Whether `party` is online in `round`; 0 is before the first.
    pub fn online(&self, round: u32, party: Party) -> bool {
        self.raw
            .online
            .as_ref()
            .is_none_or(|online| online[round as usize][party])
    }

    /// How the share that `from`, online, sends to its out-neighbour `to` in `round` fared.
    pub fn outcome(&self, round: u32, from: Party, to: Party) -> ShareOutcome {
        match self.faults.get(&(round, from, to)) {
            Some(fault) => ShareOutcome {
                fate: fault.fate,
                applied: self.applied(fault),
                seen: fault.seen,
            },
            None if self.online(round, to) => ShareOutcome {
                fate: Fate::Accepted,
                applied: round,
                seen: true,
            },
            None => ShareOutcome {
                fate: Fate::Returned,
                applied: round,
                seen: false,
            },
        }
    }

    /// Returns the adversary of the run.
    pub fn adversary(&self) -> &Adversary {
        &self.adversary
    }

    /// Departed parties that all others take out again.
    pub fn rolled_back(&self) -> &BTreeSet<Party> {
        &self.rolled_back
    }

    /// The parties whose finals are seen.
    pub fn published(&self) -> &BTreeSet<Party> {
        &self.published
    }

    /// One sensitivity a party, if the file has them.
    pub fn sensitivity(&self) -> Option<&[f64]> {
        self.raw.sensitivity.as_deref()
    }

    /// The exceptions, in the order of the file.
    pub fn shares(&self) -> &[ShareFault] {
        self.raw.shares.as_deref().unwrap_or_default()
    }

    /// Returns who is online before the first round and in each, if somebody is not always.
    pub(crate) fn absences(&self) -> Option<&[Vec<bool>]> {
        self.raw.online.as_deref()
    }

    /// Whether the file has `shares` or `rolled_back`, or is of another mechanism than the paper's:
    /// then Lemma 4.4's conditions are not stated (node/guide/formats.md).
    pub fn goes_beyond_the_paper(&self) -> bool {
        matches!(self.mechanism(), Mechanism::Pairwise | Mechanism::Custom(_))
            || self.raw.shares.is_some()
            || self.raw.rolled_back.is_some()
    }

    fn applied(&self, fault: &ShareFault) -> u32 {
        fault.applied.unwrap_or(fault.round).min(self.raw.rounds as u32)
    }
}

impl TryFrom<RawExecution> for Execution {
    type Error = ExecutionError;

    fn try_from(raw: RawExecution) -> Result<Self, ExecutionError> {
        raw.check_sizes()?;
        raw.check_schedule()?;
        raw.check_machine()?;
        raw.check_online()?;
        raw.check_sensitivity()?;
        let rolled_back = raw.party_set("rolled_back", raw.rolled_back.as_deref().unwrap_or_default())?;
        let execution = Execution {
            injection: raw.injection()?.map(Arc::new),
            noises: raw.noises(),
            faults: raw.faults()?,
            adversary: raw.adversary()?,
            published: raw.published(&rolled_back)?,
            rolled_back,
            raw,
        };
        execution.check_faults()?;
        Ok(execution)
    }
}

impl Execution {
    /// Every exception names a share that was sent, and its mass ends with somebody who is online
    /// to take it.
    fn check_faults(&self) -> Result<(), ExecutionError> {
        for (index, fault) in self.shares().iter().enumerate() {
            let ShareFault { round, from, to, .. } = *fault;
            let place = |key: &str| format!("shares[{index}].{key}");
            if !self.out(round, from).contains(&to) {
                return Err(invalid(
                    place("to"),
                    format!("party {from} sends nothing to party {to} in round {round} (see \"out\")"),
                ));
            }
            if !self.online(round, from) {
                return Err(invalid(
                    place("from"),
                    format!("party {from} is offline in round {round} and sends nothing"),
                ));
            }
            if fault.applied.is_some_and(|applied| applied < round) {
                return Err(invalid(
                    place("applied"),
                    format!("must be {round} or later: the share was sent in round {round}"),
                ));
            }
            let (taker, applied) = match fault.fate {
                Fate::Accepted => (to, self.applied(fault)),
                Fate::Returned => (from, self.applied(fault)),
                Fate::Lost => continue,
            };
            if !self.online(applied, taker) {
                let problem = format!("party {taker} takes the mass in round {applied} but is offline then");
                return Err(invalid(place("applied"), problem));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
