//! An execution as EXECUTION.json writes it, and what it is checked for (node/guide/formats.md).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use undertone_protocol::lattice::injection::Injection;
use undertone_protocol::topology::party::Party;

use crate::execution::adversary::Adversary;
use crate::execution::error::{ExecutionError, check_party, check_some, invalid, party_set};
use crate::execution::share::ShareFault;
use crate::mechanism::chosen::Mechanism;

/// EXECUTION.json as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExecution {
    pub(crate) parties: usize,
    pub(crate) rounds: usize,
    #[serde(rename = "injection")]
    pub(crate) mechanism: Mechanism,
    pub(crate) out: Vec<Vec<Vec<Party>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) online: Option<Vec<Vec<bool>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shares: Option<Vec<ShareFault>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) corrupted: Option<Vec<Party>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) observed: Option<Vec<(Party, u32)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rolled_back: Option<Vec<Party>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) published: Option<Vec<Party>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sensitivity: Option<Vec<f64>>,
}

impl RawExecution {
    pub(super) fn check_sizes(&self) -> Result<(), ExecutionError> {
        check_some(self.parties)?;
        let shares = self.out.iter().flatten().map(Vec::len).sum();
        Ok(self
            .mechanism
            .rules()
            .check_size(self.parties, self.rounds, shares)?)
    }

    fn check_party(&self, place: impl Fn() -> String, party: Party) -> Result<(), ExecutionError> {
        check_party(self.parties, place, party)
    }

    pub(super) fn party_set(
        &self,
        place: &str,
        parties: &[Party],
    ) -> Result<BTreeSet<Party>, ExecutionError> {
        party_set(self.parties, place, parties)
    }

    pub(super) fn check_schedule(&self) -> Result<(), ExecutionError> {
        let wrong = |place: String, what: &str, found: usize, expected: usize| {
            Err(invalid(place, format!("has {found} {what}, expected {expected}")))
        };
        if self.out.len() != self.rounds {
            return wrong("out".into(), "rounds", self.out.len(), self.rounds);
        }
        for (index, round) in self.out.iter().enumerate() {
            if round.len() != self.parties {
                return wrong(format!("out[{index}]"), "parties", round.len(), self.parties);
            }
            for (from, neighbours) in round.iter().enumerate() {
                let place = format!("out[{index}][{from}]");
                if self.party_set(&place, neighbours)?.contains(&from) {
                    return Err(invalid(place, format!("party {from} sends to itself")));
                }
                self.mechanism
                    .rules()
                    .check_receivers(from, neighbours.len())
                    .map_err(|unfit| invalid(place, unfit.to_string()))?;
            }
        }
        Ok(())
    }

    /// Refuses a mechanism of one's own whose rules are of none of the machines that run
    /// executions, or of other noises than that machine draws: its account would be another's.
    pub(super) fn check_machine(&self) -> Result<(), ExecutionError> {
        if !matches!(self.mechanism, Mechanism::Custom(_)) {
            return Ok(());
        }
        let (rules, injection) = (self.mechanism.rules(), self.injection()?);
        let refused = |problem: &str| Err(invalid("injection", problem));
        match injection {
            Some(injection) if injection.rounds() != self.rounds => {
                refused("the mechanism's injection is over another number of rounds")
            }
            Some(_) if rules.hands_over() => {
                refused("a mechanism with an injection splits its states: it hands none over")
            }
            None if !rules.hands_over() => {
                refused("a mechanism without an injection hands its states over, or masks them")
            }
            injection => {
                let expected = |hand_outs| injection.as_ref().map_or(hand_outs, |_| self.rounds);
                let mut hand_outs = 0..=self.rounds;
                match hand_outs.all(|sent| rules.noises(self.rounds, sent) == expected(sent)) {
                    true => Ok(()),
                    false => refused("a party draws a noise a round, or one a hand-out where it hands over"),
                }
            }
        }
    }

    pub(super) fn check_online(&self) -> Result<(), ExecutionError> {
        let Some(online) = &self.online else { return Ok(()) };
        if online.len() != self.rounds + 1 {
            let problem = format!(
                "has {} rows, expected {}: one for before round 1, one a round",
                online.len(),
                self.rounds + 1
            );
            return Err(invalid("online", problem));
        }
        for (round, row) in online.iter().enumerate() {
            if row.len() != self.parties {
                let problem = format!(
                    "has {} entries, expected one for each of {} parties",
                    row.len(),
                    self.parties
                );
                return Err(invalid(format!("online[{round}]"), problem));
            }
        }
        match online[0].iter().position(|&here| !here) {
            Some(party) => Err(invalid(
                format!("online[0][{party}]"),
                "before round 1 everybody is online; one that is absent from START is offline from round 1",
            )),
            None => Ok(()),
        }
    }

    pub(super) fn check_sensitivity(&self) -> Result<(), ExecutionError> {
        let Some(sensitivity) = &self.sensitivity else {
            return Ok(());
        };
        if sensitivity.len() != self.parties {
            let problem = format!(
                "has {} entries, expected one for each of {} parties",
                sensitivity.len(),
                self.parties
            );
            return Err(invalid("sensitivity", problem));
        }
        match sensitivity
            .iter()
            .position(|&delta| !(delta >= 0.0 && delta.is_finite()))
        {
            Some(party) => Err(invalid(
                format!("sensitivity[{party}]"),
                "must be zero or a positive number",
            )),
            None => Ok(()),
        }
    }

    /// Prefix sums of how many noises each party may need.
    pub(super) fn noises(&self) -> Vec<usize> {
        let of_party = |party: Party| {
            let hand_outs = self.out.iter().filter(|round| !round[party].is_empty()).count();
            self.mechanism.rules().noises(self.rounds, hand_outs)
        };
        let mut noises = vec![0];
        for party in 0..self.parties {
            noises.push(noises[party] + of_party(party));
        }
        noises
    }

    pub(super) fn injection(&self) -> Result<Option<Injection<f64>>, ExecutionError> {
        Ok(self.mechanism.rules().injection(self.rounds)?)
    }

    pub(super) fn faults(&self) -> Result<BTreeMap<(u32, Party, Party), ShareFault>, ExecutionError> {
        let mut faults = BTreeMap::new();
        for (index, fault) in self.shares.iter().flatten().enumerate() {
            let place = |key: &str| format!("shares[{index}].{key}");
            if fault.round == 0 || fault.round as usize > self.rounds {
                return Err(invalid(
                    place("round"),
                    format!("{} is out of range: rounds are 1 to {}", fault.round, self.rounds),
                ));
            }
            self.check_party(|| place("from"), fault.from)?;
            self.check_party(|| place("to"), fault.to)?;
            if faults
                .insert((fault.round, fault.from, fault.to), *fault)
                .is_some()
            {
                return Err(invalid(format!("shares[{index}]"), "this share is listed twice"));
            }
        }
        Ok(faults)
    }

    pub(super) fn adversary(&self) -> Result<Adversary, ExecutionError> {
        match (&self.corrupted, &self.observed) {
            (Some(corrupted), None) => Ok(Adversary::Corrupted(self.party_set("corrupted", corrupted)?)),
            (None, Some(observed)) => {
                let mut set = BTreeSet::new();
                for (index, &(party, round)) in observed.iter().enumerate() {
                    self.check_party(|| format!("observed[{index}]"), party)?;
                    if round as usize >= self.rounds {
                        let problem = format!(
                            "round {round} is out of range: states that are split have t from 0 to {}",
                            self.rounds - 1
                        );
                        return Err(invalid(format!("observed[{index}]"), problem));
                    }
                    set.insert((party, round));
                }
                Ok(Adversary::Observed(set))
            }
            _ => Err(invalid(
                "corrupted",
                "give exactly one of \"corrupted\" and \"observed\"",
            )),
        }
    }

    pub(super) fn published(&self, rolled_back: &BTreeSet<Party>) -> Result<BTreeSet<Party>, ExecutionError> {
        let Some(published) = &self.published else {
            let here = |&party: &Party| {
                self.online
                    .as_ref()
                    .is_none_or(|online| online[self.rounds][party])
            };
            return Ok((0..self.parties)
                .filter(here)
                .filter(|party| !rolled_back.contains(party))
                .collect());
        };
        let published = self.party_set("published", published)?;
        match published.intersection(rolled_back).next() {
            Some(party) => Err(invalid(
                "published",
                format!("party {party} is rolled back: it has no final state"),
            )),
            None => Ok(published),
        }
    }
}
