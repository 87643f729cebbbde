//! What follows a result: its sums are flooded, and compared with what others say of theirs.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::{Averaged, Averaging, Deed, MOST_STAGES, Mean, Sights, Stage, sketch};
use crate::message::{Notice, Sketch};
use crate::mixing::Party;
use crate::time::Time;

/// A result that waits for the others' sums.
pub(super) struct Uncompared {
    averaged: Averaged,
    since: Time,
}

impl Averaging {
    /// This node has its result, or knows that it gets none: it says so.
    pub(super) fn end(&mut self, now: Time, included: BTreeSet<Party>, mean: Option<Mean>) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let all = self.electorate.as_ref().is_some_and(|electorate| electorate.members == included);
        let whole = mean.as_ref().filter(|mean| all && self.is_within(mean));
        let sketch = whole.and_then(|mean| {
            let mut hash = Sha256::new();
            mean.sum.iter().for_each(|x| hash.update(x.to_le_bytes()));
            let seed = self.setup.signer.seed(&hash.finalize().into()).ok()?;
            Some(Sketch { seed, sums: sketch::sums(&seed, mean.sum.iter().copied()) })
        });
        self.deeds.push(Deed::Say(Notice::Averaged { sketch }));
        let averaged = Averaged { included, whole: whole.is_some(), mean, contradicted: BTreeSet::new() };
        self.result = Some(Uncompared { averaged, since: now });
    }

    /// Until when the others' sums are waited for before a result is given out: those of a quorum as long as averaging may take, of the rest briefly.
    pub(super) fn compared_by(&self, result: &Uncompared) -> Time {
        let settle_ms = self.setup.settle_ms;
        result.since.plus_millis(match result.averaged.whole {
            false => 0,
            true if self.is_confirmed() => settle_ms / 4,
            true => settle_ms.saturating_mul(MOST_STAGES),
        })
    }

    /// Whether a quorum holds this node's mean: of all of E, if E is smaller.
    fn is_confirmed(&self) -> bool {
        let needed = self.electorate.as_ref().map_or(0, |electorate| electorate.members.len()).min(self.setup.quorum);
        1 + self.compared.values().filter(|near| **near).count() >= needed
    }

    /// Compares this node's result of all of E with what others say of theirs, and gives it out.
    pub(super) fn compare(&mut self, now: Time, sights: &Sights<'_>) {
        let Some(electorate) = self.electorate.as_ref().filter(|_| self.ended) else { return };
        let others = || electorate.members.iter().copied().filter(|party| *party != self.setup.me);
        let said = others().filter(|party| !self.compared.contains_key(party));
        let said: Vec<(Party, Sketch)> = said.filter_map(|party| Some((party, *sights.flood.sketch(party)?))).collect();
        let waits = others().any(|party| !sights.flood.averaged(party) && !sights.gone.contains_key(&party));
        if let Some((sum, apart)) = self.whole_sum().filter(|_| !said.is_empty()) {
            for (party, sketch) in said {
                let own = sketch::sums(&sketch.seed, sum.iter().copied());
                let near = sketch::are_near(&own, &sketch.sums, sum.len(), apart);
                self.compared.insert(party, near);
                if !near {
                    self.fault(format!(
                        "party {party} says that it holds another mean of the same finals: somebody sent wrong values"
                    ));
                }
            }
        }
        if self.result.as_ref().is_some_and(|result| !waits || now >= self.compared_by(result)) {
            self.give_out();
        }
    }

    /// Gives out the result. One that a quorum holds is agreed, whatever a few others say: they have lied, or were lied to.
    pub(super) fn give_out(&mut self) {
        let confirmed = self.is_confirmed();
        let Some(Uncompared { mut averaged, .. }) = self.result.take() else { return };
        if averaged.whole && !confirmed {
            averaged.contradicted = self.compared.iter().filter(|(_, near)| !**near).map(|(party, _)| *party).collect();
            averaged.whole = false;
        }
        self.deeds.push(Deed::Ended(Box::new(averaged)));
    }

    /// This node's sum over all of E, as far as it has one, and how far another node's may be from it in each coordinate, in steps.
    fn whole_sum(&self) -> Option<(Vec<i128>, f64)> {
        let electorate = self.electorate.as_ref()?;
        let members = &electorate.members;
        let (sum, bound) = match &self.stage {
            Stage::Waiting => return None,
            Stage::Fast(fast) if fast.wants().is_none() => (self.sum_of_fast(fast, members), fast.schedule().course.error),
            Stage::Fast(_) => return None,
            Stage::Fallback { fallback, .. } => {
                let best = fallback.best().filter(|_| fallback.roles().included() == *members)?;
                (self.sum_of_fallback(&best.mean, members), best.bound)
            }
        };
        let own = self.mean(electorate, members, vec![], bound)?;
        // The other's bound is ν/2 at most: it says its sums only then.
        (own.standard_errors > 0.0)
            .then(|| (sum, own.steps + own.steps / own.standard_errors * 0.5 * self.setup.terms.accuracy()))
    }
}
