//! Publishing by averaging, as far as the parent machine goes: it feeds [`Averaging`] and carries
//! out its deeds.

use std::collections::{BTreeMap, BTreeSet};

use crate::averaging::entry::FinalEntry;
use crate::lattice::grid::LatticeWeight;
use crate::lattice::vector::LatticeVector;
use crate::messages::notice::{ItemSet, Stage};
use crate::mixing::portion::Portion;
use crate::publishing::averaging::averaged::Averaged;
use crate::publishing::averaging::machine::{Averaging, PublishingDeed, Setup};
use crate::publishing::averaging::opening::Opening;
use crate::publishing::result::{Accuracy, Sum};
use crate::run::machine::{Machine, Run};
use crate::run::outcome::Ending;
use crate::time::Time;
use crate::topology::party::Party;

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
            Some((*party, FinalEntry::from_bytes(body.bytes(), parties).ok()?))
        };
        let entries: BTreeMap<Party, FinalEntry> = set.iter().filter_map(entry).collect();
        let (now, me) = (self.now, self.course.me);
        match &mut self.machine {
            Machine::Publishing {
                averaging: Some(averaging),
                ..
            } if entries.contains_key(&me) => {
                averaging.begin(now, entries, &self.commons.sights(&self.gone));
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
        averaging.advance(self.now, &self.commons.sights(&self.gone));
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
                PublishingDeed::Say(notice) => self.commons.say(notice),
                PublishingDeed::Tell(peer, notice) => self.commons.tell(peer, notice),
                PublishingDeed::Send(peer, frame) => self.commons.send(peer, frame),
                PublishingDeed::Offence(peer, text) => self.commons.offence(peer, text),
                PublishingDeed::Fault(text) => self.commons.event(super::Event::Fault(text)),
                PublishingDeed::Ended(averaged) => self.conclude_averaging(*averaged),
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
            } => averaging.wake(self.now, &self.commons.sights(&self.gone)),
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
        averaging.is_over(&self.commons.sights(&self.gone))
    }
}
