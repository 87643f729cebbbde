//! Publishing by averaging, as far as the parent machine goes: it feeds [`Averaging`] and carries out its deeds.

use std::collections::{BTreeMap, BTreeSet};

use super::{Commons, Ending, Machine, Run, Sum};
use crate::dissemination::entry::Entry;
use crate::dissemination::{Averaged, Averaging, Deed, Opening, Setup, Sights};
use crate::lattice::{LatticeVector, LatticeWeight};
use crate::message::{Form, ItemSet, Round, Stage};
use crate::mixing::{Party, Portion};
use crate::time::Time;
use crate::wire::Bytes;

/// What a verified result is known to be off by; ∞ if somebody says that it holds another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Each coordinate of the sum is within this of the exact sum of the included finals, in lattice steps.
    pub steps: f64,
    /// The same for the result, in standard errors.
    pub standard_errors: f64,
    /// Two nodes that say `agreed` are within this of each other, in standard errors, if nobody lied: this node's own bound and the largest that another
    /// may have, half of the plan's ν. Of lies, [`sketch`](crate::dissemination::sketch) says what comparing shows.
    pub apart: f64,
}

/// Rounds of averaging that came before this node had its own final: one a neighbour and form.
pub(super) type Early = BTreeMap<(Party, Form), (Round, Bytes)>;

pub(super) fn sights<'a>(commons: &'a Commons, gone: &'a BTreeMap<Party, Time>) -> Sights<'a> {
    Sights {
        flood: &commons.flood,
        gone,
        connected: commons.reached(),
        heard: &commons.heard,
    }
}

impl Run {
    /// Commits to the final and sends it to the neighbours.
    pub(super) fn begin_averaging(
        &mut self,
        last: Portion<LatticeVector, LatticeWeight>,
    ) -> Result<Box<Averaging>, String> {
        let Some(terms) = self.commons.rules.terms.clone() else {
            return Err("this plan floods its finals".into());
        };
        let opening = Opening::of(&terms, last.value.steps(), last.weight)?;
        self.commons
            .give_item(Stage::Publishing, &opening.entry.to_bytes());
        let setup = Setup {
            me: self.course.me,
            signer: self.commons.signer().clone(),
            graph: self.electorate.public.clone(),
            terms,
            lattice: self.course.lattice,
            settle_ms: self.settle_ms,
            quorum: self.electorate.quorum(),
        };
        let mut averaging = Averaging::new(setup, opening, self.commons.reached());
        std::mem::take(&mut self.early_rounds)
            .into_values()
            .for_each(|(round, values)| averaging.round(round, values));
        Ok(Box::new(averaging))
    }

    /// Hands on what neighbours said in rounds of averaging.
    pub(super) fn hand_on_rounds(&mut self) {
        for (round, values) in std::mem::take(&mut self.commons.rounds) {
            match &mut self.machine {
                Machine::Publishing {
                    averaging: Some(averaging),
                    ..
                } => averaging.round(round, values),
                Machine::Settling { .. } | Machine::Auditing { .. } if round.round == 0 => {
                    self.early_rounds
                        .entry((round.author, round.form))
                        .or_insert((round, values));
                }
                _ => {}
            }
        }
    }

    /// A set of entries is agreed.
    pub(super) fn average(&mut self, set: &ItemSet) {
        let parties = self.electorate.parties;
        let entry = |(party, hash): &(Party, _)| {
            let body = self.commons.items(Stage::Publishing).version(*party, hash)?;
            Some((*party, Entry::from_bytes(body.bytes(), parties).ok()?))
        };
        let entries: BTreeMap<Party, Entry> = set.iter().filter_map(entry).collect();
        let (now, me) = (self.now, self.course.me);
        match &mut self.machine {
            Machine::Publishing {
                averaging: Some(averaging),
                ..
            } if entries.contains_key(&me) => {
                averaging.begin(now, entries, &sights(&self.commons, &self.gone));
            }
            _ => self.conclude_without_mean(set, true),
        }
    }

    /// No mean for this node: it withholds, or its entry is not in the set, or no set is agreed.
    pub(super) fn conclude_without_mean(&mut self, set: &ItemSet, agreed: bool) {
        let included: BTreeSet<Party> = set.iter().map(|(party, _)| *party).collect();
        let ending = match self.record.withheld.clone() {
            Some(reason) => Ending::Withheld { reason },
            None => Ending::Degraded,
        };
        self.finish(ending, included, agreed, None);
    }

    /// Lets averaging do what it can. False: it wants nothing now.
    pub(super) fn step_averaging(&mut self) -> bool {
        let Machine::Publishing {
            averaging: Some(averaging),
            ..
        } = &mut self.machine
        else {
            return false;
        };
        averaging.advance(self.now, &sights(&self.commons, &self.gone));
        self.carry_out_averaging()
    }

    /// False: there was nothing to do.
    pub(super) fn carry_out_averaging(&mut self) -> bool {
        let Machine::Publishing {
            averaging: Some(averaging),
            ..
        } = &mut self.machine
        else {
            return false;
        };
        let deeds = averaging.take_deeds();
        let any = !deeds.is_empty();
        for deed in deeds {
            match deed {
                Deed::Say(notice) => self.commons.say(notice),
                Deed::Tell(peer, notice) => self.commons.tell(peer, notice),
                Deed::Send(peer, frame) => self.commons.send(peer, frame),
                Deed::Offence(peer, text) => self.commons.offence(peer, text),
                Deed::Fault(text) => self.commons.event(super::Event::Fault(text)),
                Deed::Ended(averaged) => self.conclude_averaging(*averaged),
            }
        }
        any
    }

    fn conclude_averaging(&mut self, averaged: Averaged) {
        let Averaged {
            included,
            mean,
            whole,
            contradicted,
        } = averaged;
        let ending = if whole && included.len() == self.electorate.parties {
            Ending::Done
        } else {
            Ending::Degraded
        };
        let largest = self
            .commons
            .rules
            .terms
            .as_ref()
            .map_or(0.0, |terms| 0.5 * terms.accuracy());
        let known = |bound: f64| {
            if contradicted.is_empty() {
                bound
            } else {
                f64::INFINITY
            }
        };
        self.record.accuracy = mean.as_ref().map(|mean| Accuracy {
            steps: known(mean.steps),
            standard_errors: known(mean.standard_errors),
            apart: known(mean.standard_errors + largest),
        });
        let lattice = self.course.lattice;
        let sum = mean.map(|mean| Sum {
            value: lattice.vector(mean.sum.iter().copied()),
            weight: mean.weight,
        });
        self.finish(ending, included, whole, sum);
    }

    pub(super) fn averaging_wake(&self) -> Time {
        match &self.machine {
            Machine::Publishing {
                averaging: Some(averaging),
                ..
            } => averaging.wake(self.now, &sights(&self.commons, &self.gone)),
            _ => Time::FAR,
        }
    }

    /// Whether nobody who averages needs this node any more, as far as it knows.
    pub(super) fn all_averaged(&self) -> bool {
        let Machine::Publishing {
            averaging: Some(averaging),
            ..
        } = &self.machine
        else {
            return true;
        };
        averaging.is_over(&sights(&self.commons, &self.gone))
    }
}
