//! Precomputed noise, several times where a mixing was in vain.
//!
//! An attempt follows only from the agreed logs of the one before, with which the gate let nobody
//! go on: all of their authors see that alike. It is of these, with fresh noise, and all that is
//! said in it is signed for a digest with its number and these parties in it. To whoever carries
//! them, its shares have numbers of their own: what became of a share of an earlier attempt says
//! nothing of one of this.

use sha2::{Digest as _, Sha256};

use crate::messages::log::ShareId;
use crate::messages::signature::Digest;
use crate::messages::wire::{self, Bytes, PrivateFrame};
use crate::mixing::ticket::Recalled;
use crate::plan::checked::Plan;
use crate::run::interface::{Input, InputError, Output};
use crate::run::outcome::{Event, Outcome};
use crate::task::training::Training;
use crate::time::Time;
use crate::topology::party::Party;

/// The distance of the rounds of one attempt from those of the next, in the names of shares for
/// those that carry them. A plan that precomputes noise has fewer rounds.
const ROUNDS_APART: u32 = 1 << 8;

/// Returns the digest for all messages of another mixing: the plan, the mixing's number, and its
/// members.
fn digest_of(plan: &Plan, number: u32, members: impl Iterator<Item = Party>) -> Digest {
    let mut hash = Sha256::new();
    hash.update(b"undertone/mixing/1\0");
    hash.update(plan.digest());
    hash.update(number.to_le_bytes());
    members.for_each(|party| hash.update((party as u64).to_le_bytes()));
    hash.finalize().into()
}

/// A share of an attempt, as whoever carries it is told of it.
fn reported(number: u32, share: ShareId) -> ShareId {
    let round = share.round + (number - 1) * ROUNDS_APART;
    ShareId { round, ..share }
}

/// A share of this attempt, from what whoever carries it says; `None` of another attempt.
fn heard(number: u32, share: ShareId) -> Option<ShareId> {
    let round = share.round.checked_sub((number - 1) * ROUNDS_APART)?;
    (1..=ROUNDS_APART)
        .contains(&round)
        .then_some(ShareId { round, ..share })
}

impl Training {
    /// Begins another mixing, where this one was in vain and the plan has one more.
    pub(super) fn mixes_again(&mut self, now: Time, outcome: &Outcome, reason: &str) -> bool {
        let most = self.plan.most_mixings();
        let (Some(noise), Some(logs)) = (self.noise.clone(), &outcome.logs) else {
            return false;
        };
        // Of so few the gate would refuse every other one, too.
        if self.mixings >= most || logs.len() < self.plan.draft().run.min_parties {
            return false;
        }
        let next = self.number + 1;
        let digest = digest_of(&self.plan, next, logs.keys().copied());
        let Some(mut run) = self.run.again(digest, Box::new(noise)) else {
            return false;
        };
        if let Some(shelf) = &self.shelf {
            run = run.shelving(shelf);
        }
        self.vain.push(*self.run.digest());
        self.outbox.push_back(Output::Event(Event::Fault(format!(
            "{reason}; noise is mixed again, attempt {next} of {most}"
        ))));
        self.before = Some(std::mem::replace(&mut self.run, run));
        (self.number, self.mixings) = (next, next);
        self.feed_early(now);
        for (share, frame) in std::mem::take(&mut self.early_shares) {
            // A peer's frame is never an error.
            let from = share.from;
            let _ = self.run.handle(now, Input::Private { from, frame });
        }
        true
    }

    /// Shares and answers are exchanged while noise is mixed, and at no other time. Those of the
    /// next attempt wait for it, those of earlier ones come too late.
    pub(super) fn receive_of_mixing(
        &mut self,
        now: Time,
        from: Party,
        frame: Bytes,
    ) -> Result<(), InputError> {
        let input = |frame| Input::Private { from, frame };
        if !self.run.precomputes_noise() {
            let before = self.before.as_ref().map(|before| *before.digest());
            match wire::read_private(&frame) {
                Ok(PrivateFrame::Share { digest, .. } | PrivateFrame::Answer { digest, .. })
                    if Some(digest) != before =>
                {
                    // It was long on its way: of the mixing nothing is open any more.
                }
                _ => self.feed_before(now, input(frame)),
            }
            return Ok(());
        }
        match wire::read_private(&frame) {
            Ok(PrivateFrame::Share { digest, .. } | PrivateFrame::Answer { digest, .. })
                if self.vain.contains(&digest) =>
            {
                // Of an attempt that is over nothing is of use to anybody.
            }
            Ok(PrivateFrame::Share {
                digest, id, values, ..
            }) if digest != *self.run.digest()
                && self.mixings < self.plan.most_mixings()
                && id.from == from
                && self.run.is_like_due(&id, values.len()) =>
            {
                self.early_shares.entry(id).or_insert(frame);
            }
            _ => self.run.handle(now, input(frame))?,
        }
        Ok(())
    }

    /// Adds the number of the attempt to the ids of shares in an output.
    pub(super) fn with_attempt(&self, output: Output, number: u32) -> Output {
        match output {
            Output::Private { to, frame, share } if self.plan.precomputes_noise() => Output::Private {
                to,
                frame,
                share: share.map(|share| reported(number, share)),
            },
            Output::Recall(shares) if self.plan.precomputes_noise() => {
                Output::Recall(shares.into_iter().map(|share| reported(number, share)).collect())
            }
            output => output,
        }
    }

    /// The fate of shares; of an attempt that is over nothing hangs on it.
    pub(super) fn hear_of_shares(&mut self, now: Time, input: Input) -> Result<(), InputError> {
        if !self.plan.precomputes_noise() {
            return self.run.handle(now, input);
        }
        let number = self.number;
        let all = |shares: Vec<ShareId>| -> Option<Vec<ShareId>> {
            shares.into_iter().map(|share| heard(number, share)).collect()
        };
        let heard = match input {
            Input::Left { share } => heard(number, share).map(|share| Input::Left { share }),
            Input::Recalled(Recalled { left, back }) => {
                let of_this = all(left).zip(all(back));
                of_this.map(|(left, back)| Input::Recalled(Recalled { left, back }))
            }
            input => Some(input),
        };
        match heard {
            Some(input) => self.run.handle(now, input),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::simulator::cluster::tests::plan;

    #[test]
    fn a_share_is_sent_and_accepted_in_one_attempt_only() {
        for round in [1, 7, ROUNDS_APART] {
            let share = ShareId {
                round,
                from: 2,
                to: 5,
            };
            let all = [1, 2, 3].map(|number| reported(number, share));
            assert_eq!(all[0], share);
            for (at, said) in all.into_iter().enumerate() {
                let heard = [1, 2, 3].map(|number| heard(number, said));
                let expected = [0, 1, 2].map(|number| (number == at).then_some(share));
                assert_eq!(heard, expected, "round {round} of attempt {}", at + 1);
            }
        }
    }

    #[test]
    fn a_digest_has_the_attempt_and_its_parties_in_it() {
        let plan = plan(4, "", 3);
        let all = [
            *plan.digest(),
            digest_of(&plan, 2, 0..4),
            digest_of(&plan, 3, 0..4),
            digest_of(&plan, 2, 0..3),
            digest_of(&plan, 2, [0, 1, 3].into_iter()),
        ];
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
}
