//! Averaging as a way of publishing: entries for everybody, rounds for neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::agreement::items::Items;
use crate::averaging::entry::{ENTRY_BYTES, FinalEntry};
use crate::averaging::terms::AveragingTerms;
use crate::messages::notice::{ItemSet, Round};
use crate::messages::stage::Stage;
use crate::messages::wire::{self, Bytes};
use crate::mixing::finals::FinalState;
use crate::mixing::parameters::MixingParameters;
use crate::plan::checked::Plan;
use crate::publishing::averaging::early::EarlyRounds;
use crate::publishing::averaging::machine::{Averaging, MOST_STAGES};
use crate::publishing::averaging::opening::Opening;
use crate::publishing::flood::FloodedFinals;
use crate::publishing::interface::{FinalError, OwnItem, Published, PublishingAction, Setup, Surroundings};
use crate::publishing::publication::Publication;
use crate::time::Time;
use crate::topology::party::Party;

/// The entries that stand for finals, in a plan that averages them.
pub struct AveragedFinals {
    terms: Arc<AveragingTerms>,
    finals: FloodedFinals,
    dimension: usize,
    parties: usize,
}

impl AveragedFinals {
    /// The finals of a plan with these terms.
    pub(in crate::publishing) fn of(
        plan: &Plan,
        parameters: &MixingParameters,
        terms: Arc<AveragingTerms>,
    ) -> Self {
        AveragedFinals {
            terms,
            finals: FloodedFinals::of(plan, parameters),
            dimension: parameters.dimension,
            parties: plan.parties(),
        }
    }

    /// The most bytes of an entry, or of a final that is flooded after all.
    pub(in crate::publishing) fn item_limit(&self) -> usize {
        ENTRY_BYTES.max(self.finals.item_limit())
    }

    /// The longest frame of a round, in bytes.
    pub(in crate::publishing) fn frame_limit(&self) -> usize {
        Averaging::frame_limit(self.dimension)
    }

    /// Returns the most times `settle_ms` that averaging takes.
    pub(in crate::publishing) fn most_stages(&self) -> u64 {
        MOST_STAGES
    }

    /// Whether bytes are an entry, or after a missed message a final.
    pub(in crate::publishing) fn check_item(&self, stage: Stage, bytes: &Bytes) -> Result<(), FinalError> {
        match stage {
            Stage::Finals => {
                self.finals.read(bytes)?;
            }
            _ => {
                FinalEntry::from_bytes(bytes, self.parties)?;
            }
        }
        Ok(())
    }

    /// Commits to a node's own final, and sends it to the neighbours.
    pub(in crate::publishing) fn begin(
        &self,
        final_state: FinalState,
        setup: Setup,
        connected: &BTreeSet<Party>,
        early: EarlyRounds,
    ) -> Result<(OwnItem, Box<dyn Publication>), FinalError> {
        let state = final_state.portion();
        let opening = Opening::of(&self.terms, state.value.steps(), state.weight)?;
        let entry = opening.entry.to_bytes();
        let item = OwnItem {
            frame: wire::body_frame(Stage::Publishing, setup.me, &entry),
            length: entry.len(),
        };
        let of_plan = (self.terms.clone(), self.finals.clone());
        let mut averaging = Averaging::new(setup, of_plan, final_state, opening, connected);
        early
            .into_rounds()
            .for_each(|(round, values)| averaging.round(round, values));
        Ok((item, Box::new(averaging)))
    }
}

fn parties(set: &ItemSet) -> BTreeSet<Party> {
    set.iter().map(|(party, _)| *party).collect()
}

impl Publication for Averaging {
    fn agreed(&mut self, now: Time, set: &ItemSet, items: &Items, around: &Surroundings<'_>) {
        let members = self.setup.graph.parties();
        let entry = |(party, hash): &(Party, _)| {
            let body = items.version(*party, hash)?;
            Some((*party, FinalEntry::from_bytes(&body.bytes()?, members).ok()?))
        };
        let entries: BTreeMap<Party, FinalEntry> = set.iter().filter_map(entry).collect();
        if entries.contains_key(&self.setup.me) {
            self.begin(now, entries, around);
        } else {
            // The mean is known to those whose finals are averaged.
            self.end(Published::without_sum(parties(set), true));
        }
    }

    fn unresolved(&mut self, set: &ItemSet, _items: &Items) {
        self.end(Published::without_sum(parties(set), false));
    }

    fn into_flooding(self: Box<Self>) -> Box<dyn Publication> {
        Box::new(self.flooding())
    }

    fn take_actions(&mut self) -> Vec<PublishingAction> {
        std::mem::take(&mut self.actions)
    }

    fn round(&mut self, round: Round, values: Bytes) {
        Averaging::round(self, round, values);
    }

    fn connected(&mut self, peer: Party) {
        Averaging::connected(self, peer);
    }

    fn advance(&mut self, now: Time, around: &Surroundings<'_>) {
        Averaging::advance(self, now, around);
    }

    fn wake(&self, now: Time, around: &Surroundings<'_>) -> Time {
        Averaging::wake(self, now, around)
    }

    fn is_under_way(&self) -> bool {
        self.members().is_some()
    }

    fn leave(&mut self) {
        Averaging::leave(self);
    }

    fn is_over(&self, around: &Surroundings<'_>) -> bool {
        Averaging::is_over(self, around)
    }
}
