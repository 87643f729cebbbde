//! The end of the phase: the log, and the final state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::lattice::payload::{Coefficient, Payload, Ratio};
use crate::messages::log::{AgreedLogs, Fate, Log, ReceivedEntry, SentEntry, ShareId, Verdict, fates};
use crate::mixing::exchange::{Outgoing, ShareExchange, Whereabouts};
use crate::mixing::finals::{FinalState, StateCorrection};
use crate::mixing::precomputed::PrecomputedNoise;
use crate::time::Time;
use crate::topology::party::Party;

impl ShareExchange {
    /// Whether the log can be signed: all rounds are over, and nothing more is due to this node or
    /// from it, or it is time.
    pub fn is_quiet(&self, now: Time) -> bool {
        let answered = |(id, share): (&ShareId, &Outgoing)| {
            share.whereabouts == Whereabouts::Back
                || share.answer.is_some()
                || self.unreachable.contains(&id.to)
        };
        let in_hand =
            |key: (u32, Party)| self.received.contains_key(&key) || self.unreachable.contains(&key.1);
        self.is_over()
            && (now >= self.deadline(self.parameters.rounds())
                || (self.parameters.due().all(in_hand) && self.outgoing.iter().all(answered)))
    }

    /// Whether a share that is due from this party has not come.
    pub fn is_owed_by(&self, party: Party) -> bool {
        self.parameters
            .due()
            .any(|(round, from)| from == party && !self.received.contains_key(&(round, from)))
    }

    /// The log, to be signed; from now on every share that was not answered before is refused.
    /// `unreachable`: whom it calls gone.
    pub fn close(&mut self, unreachable: Vec<Party>) -> Log {
        self.closed = true;
        self.waiting.clear();
        let mut due: BTreeMap<(u32, Party), SentEntry> = BTreeMap::new();
        for round in 1..=self.parameters.rounds() {
            for &to in self.parameters.schedule.sends_to(round, self.parameters.me) {
                due.insert(
                    (round, to),
                    SentEntry {
                        round,
                        to,
                        left: false,
                        answer: None,
                    },
                );
            }
        }
        for (id, share) in &self.outgoing {
            let entry = SentEntry {
                round: id.round,
                to: id.to,
                left: share.whereabouts == Whereabouts::Left,
                answer: share.answer.clone(),
            };
            due.insert((id.round, id.to), entry);
        }
        let received = self
            .received
            .iter()
            .filter_map(|(&(round, from), verdict)| match *verdict {
                Verdict::Accepted { applied } => Some(ReceivedEntry { round, from, applied }),
                Verdict::Refused => None,
            });
        Log {
            party: self.parameters.me,
            sent: due.into_values().collect(),
            received: received.collect(),
            unreachable,
            sealed: None,
        }
    }

    /// The final state, from the agreed logs: shares that the logs send back are taken back,
    /// then everybody outside of `publishers` is rolled back. Without roll-back a share that a
    /// departed party refused goes back, and all others that left stay where they are.
    ///
    /// # Errors
    /// A publisher's log denies a share that it has signed for before this node's log was closed:
    /// this node cannot take it back and must withhold. The gate leaves such members out
    /// ([`deniers`](crate::messages::log::deniers)), and what they got is rolled back.
    pub fn settle(mut self, logs: &AgreedLogs, publishers: &BTreeSet<Party>) -> Result<FinalState, Party> {
        self.take_back_returned(logs, publishers)?;
        let departed = self.departed(publishers);
        Ok(FinalState(self.mixing.finish(&departed)))
    }

    /// Returns what has to be added to the state that this node's log is about, so that it is the
    /// final state of [`ShareExchange::settle`]; called again with fewer publishers, and the same
    /// logs, what has to be added then besides. It is what a node corrects its sealed final by.
    ///
    /// # Errors
    /// As [`ShareExchange::settle`]'s.
    pub fn correct(
        &mut self,
        logs: &AgreedLogs,
        publishers: &BTreeSet<Party>,
    ) -> Result<StateCorrection, Party> {
        let before = self.mixing.state().value.pack();
        self.take_back_returned(logs, publishers)?;
        self.mixing.roll_back(&self.departed(publishers));
        let mut correction = self.mixing.state().value;
        correction.add_multiples(&[(Ratio::one().negated(), &before)]);
        Ok(StateCorrection(correction))
    }

    /// The noise of releases to come, of `dimension` coordinates each, from the agreed logs of its
    /// mixing: as [`ShareExchange::settle`] leaves it, block by block.
    ///
    /// # Errors
    /// As [`ShareExchange::settle`]'s.
    pub(crate) fn into_precomputed(
        mut self,
        logs: &Arc<AgreedLogs>,
        publishers: &BTreeSet<Party>,
        dimension: usize,
    ) -> Result<PrecomputedNoise, Party> {
        self.take_back_returned(logs, publishers)?;
        let departed = self.departed(publishers);
        self.mixing.roll_back(&departed);
        Ok(self.mixing.into_precomputed(dimension, logs.clone()))
    }

    fn departed(&self, publishers: &BTreeSet<Party>) -> BTreeSet<Party> {
        let parties = 0..self.parameters.parties;
        parties.filter(|party| !publishers.contains(party)).collect()
    }

    /// Takes back the own shares that left and that the agreed logs do not list.
    fn take_back_returned(&mut self, logs: &AgreedLogs, publishers: &BTreeSet<Party>) -> Result<(), Party> {
        let fates = fates(logs, self.parameters.rounds());
        let ids: Vec<ShareId> = self
            .outgoing
            .iter()
            .filter(|(_, share)| share.is_out())
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let back = match fates.get(&id) {
                Some(fate) => matches!(fate, Fate::Returned { .. }),
                None => !self.parameters.rollback && self.was_refused(id),
            };
            if back && !self.take_back(id) && publishers.contains(&id.to) {
                return Err(id.to);
            }
        }
        Ok(())
    }

    fn was_refused(&self, id: ShareId) -> bool {
        self.outgoing[&id]
            .answer
            .as_ref()
            .is_some_and(|answer| answer.verdict == Verdict::Refused)
    }
}
