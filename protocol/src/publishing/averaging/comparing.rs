//! What follows a result: its author says that it has one, tells sums of it once the others have
//! theirs, and compares what they tell with its own.
//!
//! Sums compare nothing if somebody knew their signs too early: who holds back its last message to
//! one victim, and has read the seeds of all others, can send it a lie that none of their sums
//! shows. So results come first, and signs after them:
//!
//! 1. Who has its result says so ([`Notice::Averaged`]), and never changes it again.
//! 2. Then it tells its sums ([`Notice::Sums`]), and of whom it had *not* heard that they had
//!    ended. The seed is a hash of a signature of its own that it shows to nobody: until it tells
//!    the seed, nobody else knows anything of it.
//!
//! V counts the sums of U only if U had heard of V's end. Let both be honest: V's result was fixed
//! before it said that it had ended, and U told the seed after it had read that. So both results
//! were fixed before anybody but U knew the signs, and no lie to either can have been made for
//! them. V need not commit itself to its result, as by a hash: it is V that compares, and V knows
//! that it has kept it. What dishonest nodes say of theirs is worth nothing either way: that is
//! what the quorum is for. Two honest nodes whose results a quorum confirmed share an honest one
//! whose result is near to both.
//!
//! Who waits for whom: sums are told once all have ended that are not gone, or an eighth of
//! `settle_ms` after somebody has that no earlier sums of this node took into account. There are
//! [`MOST_SKETCHES`] at most, or liars who end one after
//! the other could ask for them without end; the last are kept until nobody is left to end, or all
//! honest ones must have. So whoever ends is in somebody's sums, late at worst.
//!
//! What is compared is the mean that was given out, or will be. A node that has one of the fast
//! form keeps it when others fall back: if the fall-back's is near to it all agree, else those with
//! the mean that a quorum holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::averaging::sketch::{self, MOST_SKETCHES, Measure};
use crate::messages::notice::{Notice, Sketch};
use crate::publishing::averaging::averaged::{Averaged, VerifiedMean};
use crate::publishing::averaging::comparison::Comparing;
use crate::publishing::averaging::machine::{Averaging, MOST_STAGES};
use crate::publishing::interface::{Published, PublishingDeed, Surroundings};
use crate::publishing::result::{Accuracy, Sum};
use crate::time::Time;
use crate::topology::party::Party;

impl Averaging {
    /// This node has its result, or knows that it gets none: it says so.
    pub(super) fn end(&mut self, now: Time, included: BTreeSet<Party>, mean: Option<VerifiedMean>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let all = self
            .electorate
            .as_ref()
            .is_some_and(|electorate| electorate.members == included);
        let mean = mean.map(Arc::new);
        let whole = mean.clone().filter(|mean| all && self.is_within(mean));
        self.deeds.push(PublishingDeed::Say(Notice::Averaged {
            whole: whole.is_some(),
        }));
        let averaged = Averaged {
            included,
            whole: whole.is_some(),
            mean,
            contradicted: BTreeSet::new(),
        };
        self.comparing = Comparing {
            mean: whole,
            result: Some(averaged),
            ended_at: now,
            ..Comparing::default()
        };
    }

    /// All of E but this node.
    fn others(&self) -> impl Iterator<Item = Party> {
        let members = self
            .electorate
            .iter()
            .flat_map(|electorate| electorate.members.iter().copied());
        members.filter(|party| *party != self.setup.me)
    }

    /// So many times `settle_ms` after E was agreed.
    pub(super) fn stages_end(&self, stages: u64) -> Time {
        let begun = self
            .electorate
            .as_ref()
            .map_or(Time::ZERO, |electorate| electorate.begun);
        begun.plus_millis(self.setup.settle_ms.saturating_mul(stages))
    }

    /// Until when the others' sums are waited for before a result is given out: those of a quorum
    /// as long as averaging may take, of the rest briefly.
    pub(super) fn given_out_by(&self) -> Time {
        let ended_at = self.comparing.ended_at;
        match &self.comparing.result {
            None => Time::FAR,
            Some(result) if !result.whole => ended_at,
            Some(_) if self.is_confirmed() => ended_at.plus_millis(self.setup.settle_ms / 4),
            Some(_) => self.stages_end(MOST_STAGES).max(ended_at),
        }
    }

    /// When this node tells its sums (again).
    pub(super) fn tells_at(&self, around: &Surroundings<'_>) -> Time {
        let Some(since) = self
            .comparing
            .unheard_since
            .filter(|_| self.comparing.told < MOST_SKETCHES)
        else {
            return Time::FAR;
        };
        let mut left = self
            .others()
            .filter(|party| around.flood.averaged(*party).is_none())
            .peekable();
        if left.peek().is_none() {
            since
        } else if self.comparing.told + 1 == MOST_SKETCHES {
            self.stages_end(MOST_STAGES - 1).max(since)
        } else if left.all(|party| around.gone.contains_key(&party)) {
            since
        } else {
            since.plus_millis(self.setup.settle_ms / 8)
        }
    }

    /// Whether a quorum holds this node's mean: all of E, if E is smaller.
    fn is_confirmed(&self) -> bool {
        let needed = self
            .electorate
            .as_ref()
            .map_or(0, |electorate| electorate.members.len())
            .min(self.setup.quorum);
        1 + self.comparing.compared.values().filter(|near| **near).count() >= needed
    }

    /// Compares this node's result of all of E with what others say of theirs, tells them of its
    /// own, and gives it out.
    pub(super) fn compare(&mut self, now: Time, around: &Surroundings<'_>) {
        if !self.ended {
            return;
        }
        self.compare_sums(around);
        self.tell_sums(now, around);
        // Who has its result leaves, and its sums may still be on their way through others.
        let is_confirmed = self.is_confirmed();
        let is_lost = |party: Party| is_confirmed && around.gone.contains_key(&party);
        let answers = |party: Party| match around.flood.averaged(party) {
            Some(false) => true,
            _ => self.comparing.compared.contains_key(&party) || is_lost(party),
        };
        if self.others().all(answers) || now >= self.given_out_by() {
            self.give_out();
        }
    }

    fn compare_sums(&mut self, around: &Surroundings<'_>) {
        let Some((mean, measure)) = self.measured() else {
            return;
        };
        let me = self.setup.me;
        let open = self
            .others()
            .filter(|party| !self.comparing.compared.contains_key(party));
        let said = open.filter_map(|party| {
            let (_, sketch) = around
                .flood
                .sums(party)
                .find(|(unheard, _)| !unheard.contains(&me))?;
            Some((party, *sketch))
        });
        for (party, Sketch { seed, sums }) in said.collect::<Vec<_>>() {
            let own = sketch::sums(&seed, mean.sum.iter().copied(), &measure);
            let near = sketch::are_near(&own, &sums, mean.sum.len(), &measure);
            self.comparing.compared.insert(party, near);
            if !near {
                self.fault(format!(
                    "party {party} says that it holds another mean of the same finals: somebody sent wrong values"
                ));
            }
        }
    }

    fn tell_sums(&mut self, now: Time, around: &Surroundings<'_>) {
        if self.comparing.mean.is_none() {
            return;
        }
        let has_result = |party: &Party| around.flood.averaged(*party) == Some(true);
        if self
            .others()
            .any(|party| has_result(&party) && !self.comparing.heard.contains(&party))
        {
            self.comparing.unheard_since.get_or_insert(now);
        }
        if now >= self.tells_at(around) {
            self.tell_sums_now(around);
        }
    }

    fn tell_sums_now(&mut self, around: &Surroundings<'_>) {
        let Some((mean, measure)) = self.measured() else {
            return;
        };
        let (heard, unheard): (Vec<Party>, Vec<Party>) = self
            .others()
            .partition(|party| around.flood.averaged(*party).is_some());
        let number = self.comparing.told;
        match self.setup.signer.seed(number) {
            Ok(seed) => {
                let sums = sketch::sums(&seed, mean.sum.iter().copied(), &measure);
                let sketch = Box::new(Sketch { seed, sums });
                self.deeds.push(PublishingDeed::Say(Notice::Sums {
                    number,
                    unheard,
                    sketch,
                }));
            }
            Err(reason) => self.fault(reason.to_string()),
        }
        self.comparing.told += 1;
        self.comparing.heard.extend(heard);
        self.comparing.unheard_since = None;
    }

    /// Gives out the result. One that a quorum holds is agreed, whatever a few others say: they
    /// have lied, or were lied to.
    fn give_out(&mut self) {
        let confirmed = self.is_confirmed();
        let Some(mut averaged) = self.comparing.result.take() else {
            return;
        };
        if averaged.whole && !confirmed {
            let compared = self.comparing.compared.iter();
            averaged.contradicted = compared
                .filter(|(_, near)| !**near)
                .map(|(party, _)| *party)
                .collect();
            averaged.whole = false;
        }
        let published = self.published(averaged);
        self.deeds.push(PublishingDeed::Ended(Box::new(published)));
    }

    /// A result as it is given out: no bound is known once somebody has lied.
    fn published(&self, averaged: Averaged) -> Published {
        let Averaged {
            included,
            mean,
            whole,
            contradicted,
        } = averaged;
        let known = |bound: f64| {
            if contradicted.is_empty() {
                bound
            } else {
                f64::INFINITY
            }
        };
        let largest = 0.5 * self.terms.accuracy();
        Published {
            included,
            agreed: whole,
            accuracy: mean.as_ref().map(|mean| Accuracy {
                steps: known(mean.steps),
                standard_errors: known(mean.standard_errors),
                apart: known(mean.standard_errors + largest),
            }),
            sum: mean.map(|mean| Sum {
                value: self.lattice.vector(mean.sum.iter().copied()),
                weight: mean.weight,
            }),
        }
    }

    /// The last words of a node that leaves, and its result.
    pub(super) fn give_out_at_once(&mut self, around: &Surroundings<'_>) {
        let unheard =
            |party| around.flood.averaged(party) == Some(true) && !self.comparing.heard.contains(&party);
        if self.others().any(unheard) && self.comparing.told < MOST_SKETCHES {
            self.tell_sums_now(around);
        }
        self.give_out();
    }

    /// The mean that is compared, and how: another's over all of E may be off by ν/2 at most, or it
    /// would not tell its sums.
    fn measured(&self) -> Option<(Arc<VerifiedMean>, Measure)> {
        let (mean, electorate) = (self.comparing.mean.clone()?, self.electorate.as_ref()?);
        let terms = &self.terms;
        let (parties, weight) = (
            electorate.members.len(),
            self.lattice.weight_to_f64(mean.weight.0),
        );
        let unit_steps = parties as f64 * libm::exp2(f64::from(terms.grain_log2));
        let most = 0.5 * terms.accuracy() / terms.unit_errors(parties, weight) * unit_steps;
        let measure = Measure::of(mean.steps, most);
        Some((mean, measure))
    }

    /// Whether nobody who averages needs this node any more, as far as it knows: all that are not
    /// gone have ended, and those with a result have told sums that take each other's ends into
    /// account.
    pub fn is_over(&self, around: &Surroundings<'_>) -> bool {
        let Some(electorate) = &self.electorate else {
            return true;
        };
        let (flood, here) = (around.flood, |party: &Party| !around.gone.contains_key(party));
        let has_result = |party: &Party| here(party) && flood.averaged(*party) == Some(true);
        let has_heard =
            |party: Party, other: Party| flood.sums(party).any(|(unheard, _)| !unheard.contains(&other));
        let with_result = || electorate.members.iter().copied().filter(has_result);
        let has_told = |party: Party| {
            // As a rule one sketch is for all.
            flood
                .sums(party)
                .any(|(unheard, _)| !unheard.iter().any(has_result))
                || with_result().all(|other| other == party || has_heard(party, other))
        };
        electorate
            .members
            .iter()
            .filter(|party| here(party))
            .all(|party| flood.averaged(*party).is_some())
            && (with_result().count() < 2 || with_result().all(has_told))
    }
}
