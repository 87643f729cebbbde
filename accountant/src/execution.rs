//! What happened in a run's mixing phase: EXECUTION.json (CONTRACTS), read strictly and checked once.
//!
//! An [`Execution`] can only be had checked: every share that it lists was sent, every mass ends with somebody who was online
//! to take it. [`crate::view`] runs it; receipts are written from it. PPSC's executions are written in a format of their own
//! ([`crate::ppsc::execution`]) and are the same here: rounds, shares, who was online.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use undertone_protocol::injection::Injection;
use undertone_protocol::mixing::{Mechanism, Party};

use crate::ppsc;

/// Numbers that the states of one round may take at most (512 MiB): a file cannot ask for more memory than that.
const LARGEST_ROUND: usize = 1 << 26;

/// Why an execution was refused. Always the file's fault.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExecutionError {
    /// Not JSON, or not these keys.
    #[error("execution file, line {line}, column {column}: {message}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What the parser expected.
        message: String,
    },
    /// An entry that contradicts the rest.
    #[error("execution file, {place}: {problem}")]
    Invalid {
        /// The key, with its indices.
        place: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl ExecutionError {
    /// Why serde refused the text.
    pub(crate) fn syntax(error: &serde_json::Error) -> Self {
        ExecutionError::Syntax {
            line: error.line(),
            column: error.column(),
            message: error.to_string(),
        }
    }
}

pub(crate) fn invalid(place: impl Into<String>, problem: impl Into<String>) -> ExecutionError {
    ExecutionError::Invalid {
        place: place.into(),
        problem: problem.into(),
    }
}

/// That `party` is one of 0 … `parties` − 1.
pub(crate) fn check_party(
    parties: usize,
    place: impl Fn() -> String,
    party: Party,
) -> Result<(), ExecutionError> {
    if party < parties {
        return Ok(());
    }
    Err(invalid(
        place(),
        format!(
            "party {party} is out of range: parties count from 0 to {}",
            parties - 1
        ),
    ))
}

/// A list of parties, each in range and none twice.
pub(crate) fn party_set(
    parties: usize,
    place: &str,
    list: &[Party],
) -> Result<BTreeSet<Party>, ExecutionError> {
    let mut set = BTreeSet::new();
    for (index, &party) in list.iter().enumerate() {
        check_party(parties, || format!("{place}[{index}]"), party)?;
        if !set.insert(party) {
            return Err(invalid(
                format!("{place}[{index}]"),
                format!("party {party} is listed twice"),
            ));
        }
    }
    Ok(set)
}

/// Who injects what in which round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "injection must be \"incremental\", \"early\", or {\"c\": [T + 1 numbers], \"z\": [T + 1 rows of T numbers]}"
)]
pub enum InjectionSpec {
    /// One of the paper's examples.
    Named(NamedInjection),
    /// Any valid (c, Z)-Gaussian (Definition 3.4): T + 1 numbers, T + 1 rows of T.
    Custom(CustomInjection),
}

/// Examples 3.1 and 3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedInjection {
    /// D_Inc.
    Incremental,
    /// D_EI.
    Early,
}

/// c and Z as numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomInjection {
    /// Shares of the value, T + 1 of them.
    pub c: Vec<f64>,
    /// Factors of the noises, T + 1 rows of T.
    pub z: Vec<Vec<f64>>,
}

/// How value and noise get into states, and what a share is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "injection must be \"incremental\", \"early\", or {\"c\": [T + 1 numbers], \"z\": [T + 1 rows of T numbers]}"
)]
pub enum Family {
    /// INCA: a row of (c, Z) in each round; a share is an equal part of the state.
    Inca(InjectionSpec),
    /// PPSC: the value before round 1. A party that sends hands out its whole state less a fresh γ, which it keeps.
    #[serde(skip)]
    Ppsc,
}

impl From<InjectionSpec> for Family {
    fn from(injection: InjectionSpec) -> Self {
        Family::Inca(injection)
    }
}

/// What became of a share's mass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It joined its receiver.
    Accepted,
    /// Its sender took it back.
    Returned,
    /// It joined nobody.
    Lost,
}

/// One share that did not simply arrive in its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareFault {
    /// The round t in which it was sent, from 1.
    pub round: u32,
    /// Its sender.
    pub from: Party,
    /// Its receiver.
    pub to: Party,
    /// What became of its mass.
    pub fate: Fate,
    /// R ≥ t: the round at whose end the mass joins the receiver or the sender again. Default t; past T means T.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<u32>,
    /// Whether the receiver may have read it.
    #[serde(default = "yes")]
    pub seen: bool,
}

pub(crate) fn yes() -> bool {
    true
}

/// Who looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adversary {
    /// Colluding parties: everything that they receive, hold or inject, and all published finals.
    Corrupted(BTreeSet<Party>),
    /// An eavesdropper: the states y_i^(t), t < T, of these (i, t), and all published finals.
    Observed(BTreeSet<(Party, u32)>),
}

/// EXECUTION.json as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExecution {
    pub(crate) parties: usize,
    pub(crate) rounds: usize,
    #[serde(rename = "injection")]
    pub(crate) family: Family,
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

/// A checked execution. Written in the format of its mechanism.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "RawExecution")]
pub struct Execution {
    raw: RawExecution,
    /// None for PPSC.
    injection: Option<Arc<Injection<f64>>>,
    /// The noises of party i are numbers `noises[i]..noises[i + 1]` of all.
    noises: Vec<usize>,
    faults: BTreeMap<(u32, Party, Party), ShareFault>,
    adversary: Adversary,
    rolled_back: BTreeSet<Party>,
    published: BTreeSet<Party>,
}

/// How one share fared: its exception, or what follows from who was online.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareOutcome {
    /// What became of its mass.
    pub fate: Fate,
    /// The round at whose end the mass joins somebody, t ≤ R ≤ T.
    pub applied: u32,
    /// Whether the receiver may have read it.
    pub seen: bool,
}

impl Execution {
    /// Reads EXECUTION.json; unknown keys are refused.
    pub fn parse(text: &str) -> Result<Self, ExecutionError> {
        let raw: RawExecution = serde_json::from_str(text).map_err(|error| ExecutionError::syntax(&error))?;
        raw.try_into()
    }

    /// A run without any fault: everybody online, every share accepted in its round, all finals published, nobody corrupted.
    pub fn fault_free(family: impl Into<Family>, out: Vec<Vec<Vec<Party>>>) -> Result<Self, ExecutionError> {
        RawExecution {
            parties: out.first().map_or(0, Vec::len),
            rounds: out.len(),
            family: family.into(),
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

    /// The same run with other exceptions, checked again.
    pub fn with_shares(mut self, shares: Vec<ShareFault>) -> Result<Self, ExecutionError> {
        self.raw.shares = Some(shares).filter(|shares| !shares.is_empty());
        self.raw.try_into()
    }

    /// The same run with other absences: T + 1 rows of n, the first all true.
    pub fn with_online(mut self, online: Vec<Vec<bool>>) -> Result<Self, ExecutionError> {
        self.raw.online = Some(online);
        self.raw.try_into()
    }

    /// The same run against another coalition.
    pub fn with_corrupted(
        mut self,
        corrupted: impl IntoIterator<Item = Party>,
    ) -> Result<Self, ExecutionError> {
        self.raw.observed = None;
        self.raw.corrupted = Some(corrupted.into_iter().collect());
        self.raw.try_into()
    }

    /// The same run with these departed parties taken out again by all others.
    pub fn with_rolled_back(
        mut self,
        departed: impl IntoIterator<Item = Party>,
    ) -> Result<Self, ExecutionError> {
        self.raw.rolled_back =
            Some(departed.into_iter().collect::<Vec<_>>()).filter(|departed| !departed.is_empty());
        self.raw.try_into()
    }

    /// The same run in which only the finals of these parties are seen.
    pub fn with_published(
        mut self,
        published: impl IntoIterator<Item = Party>,
    ) -> Result<Self, ExecutionError> {
        self.raw.published = Some(published.into_iter().collect());
        self.raw.try_into()
    }

    /// The same run with a sensitivity for each party.
    pub fn with_sensitivity(mut self, sensitivity: Vec<f64>) -> Result<Self, ExecutionError> {
        self.raw.sensitivity = Some(sensitivity);
        self.raw.try_into()
    }

    /// n.
    pub fn parties(&self) -> usize {
        self.raw.parties
    }

    /// T.
    pub fn rounds(&self) -> usize {
        self.raw.rounds
    }

    /// How value and noise get into states.
    pub fn family(&self) -> &Family {
        &self.raw.family
    }

    /// (c, Z); none for PPSC.
    pub fn injection(&self) -> Option<&Arc<Injection<f64>>> {
        self.injection.as_ref()
    }

    /// What `party`'s machine is made for.
    pub(crate) fn mechanism(&self, party: Party) -> Mechanism<f64> {
        match &self.injection {
            Some(injection) => Mechanism::Injection(injection.clone()),
            None => Mechanism::HandOver {
                hand_outs: self.noises(party).len(),
            },
        }
    }

    /// The numbers of `party`'s noises, among those of everybody: T each for INCA, one a hand-out for PPSC.
    pub fn noises(&self, party: Party) -> Range<usize> {
        self.noises[party]..self.noises[party + 1]
    }

    /// Unknowns of the run: n values, then all noises.
    pub fn unknowns(&self) -> usize {
        self.raw.parties + self.noises[self.raw.parties]
    }

    /// Out-neighbours of `party` in round `round` (1…T).
    pub fn out(&self, round: u32, party: Party) -> &[Party] {
        &self.raw.out[round as usize - 1][party]
    }

    /// Whether `party` is online in `round` (0…T).
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

    /// Who looks.
    pub fn adversary(&self) -> &Adversary {
        &self.adversary
    }

    /// Departed parties that all others take out again.
    pub fn rolled_back(&self) -> &BTreeSet<Party> {
        &self.rolled_back
    }

    /// Whose finals are seen.
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

    /// Who is online: T + 1 rows, if somebody is not always.
    pub(crate) fn absences(&self) -> Option<&[Vec<bool>]> {
        self.raw.online.as_deref()
    }

    /// Whether the file has `shares` or `rolled_back`: then Lemma 4.4's conditions are not stated (CONTRACTS).
    pub fn goes_beyond_the_paper(&self) -> bool {
        self.raw.shares.is_some() || self.raw.rolled_back.is_some()
    }

    fn applied(&self, fault: &ShareFault) -> u32 {
        fault.applied.unwrap_or(fault.round).min(self.raw.rounds as u32)
    }
}

impl Serialize for Execution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.raw.family {
            Family::Inca(_) => self.raw.serialize(serializer),
            Family::Ppsc => ppsc::execution::serialize(self, serializer),
        }
    }
}

impl TryFrom<RawExecution> for Execution {
    type Error = ExecutionError;

    fn try_from(raw: RawExecution) -> Result<Self, ExecutionError> {
        raw.check_sizes()?;
        raw.check_schedule()?;
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

impl RawExecution {
    fn check_sizes(&self) -> Result<(), ExecutionError> {
        if self.parties == 0 {
            return Err(invalid("parties", "must be at least 1"));
        }
        if self.family == Family::Ppsc {
            return ppsc::execution::check_sizes(
                self.parties,
                self.rounds,
                self.out.iter().flatten().map(Vec::len).sum(),
            );
        }
        if self.rounds == 0 {
            return Err(invalid("rounds", "must be at least 1"));
        }
        let size = self
            .parties
            .checked_mul(self.parties)
            .and_then(|square| square.checked_mul(self.rounds.checked_add(1)?));
        if size.is_none_or(|size| size > LARGEST_ROUND) {
            return Err(invalid(
                "parties",
                format!(
                    "parties² · (rounds + 1) must be at most {LARGEST_ROUND}: this is too large to account exactly"
                ),
            ));
        }
        Ok(())
    }

    fn check_party(&self, place: impl Fn() -> String, party: Party) -> Result<(), ExecutionError> {
        check_party(self.parties, place, party)
    }

    fn party_set(&self, place: &str, parties: &[Party]) -> Result<BTreeSet<Party>, ExecutionError> {
        party_set(self.parties, place, parties)
    }

    fn check_schedule(&self) -> Result<(), ExecutionError> {
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
                if self.family == Family::Ppsc && neighbours.len() > 1 {
                    return Err(invalid(
                        place,
                        format!("party {from} sends to more than one party: with PPSC to one at most"),
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_online(&self) -> Result<(), ExecutionError> {
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

    fn check_sensitivity(&self) -> Result<(), ExecutionError> {
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
    fn noises(&self) -> Vec<usize> {
        let of_party = |party: Party| match self.family {
            Family::Inca(_) => self.rounds,
            Family::Ppsc => self.out.iter().filter(|round| !round[party].is_empty()).count(),
        };
        let mut noises = vec![0];
        for party in 0..self.parties {
            noises.push(noises[party] + of_party(party));
        }
        noises
    }

    fn injection(&self) -> Result<Option<Injection<f64>>, ExecutionError> {
        let Family::Inca(injection) = &self.family else {
            return Ok(None);
        };
        Ok(Some(match injection {
            InjectionSpec::Named(NamedInjection::Incremental) => Injection::incremental(self.rounds),
            InjectionSpec::Named(NamedInjection::Early) => Injection::early(self.rounds),
            InjectionSpec::Custom(CustomInjection { c, z }) => {
                if c.len() != self.rounds + 1 {
                    let problem = format!(
                        "has {} entries, expected {}: one more than rounds",
                        c.len(),
                        self.rounds + 1
                    );
                    return Err(invalid("injection.c", problem));
                }
                Injection::custom(c.clone(), z.clone())
                    .map_err(|error| invalid("injection", error.to_string()))?
            }
        }))
    }

    fn faults(&self) -> Result<BTreeMap<(u32, Party, Party), ShareFault>, ExecutionError> {
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

    fn adversary(&self) -> Result<Adversary, ExecutionError> {
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

    fn published(&self, rolled_back: &BTreeSet<Party>) -> Result<BTreeSet<Party>, ExecutionError> {
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

impl Execution {
    /// Every exception names a share that was sent, and its mass ends with somebody who is online to take it.
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
