//! What a node seals its final with, and its sealed final beside its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;

use crate::messages::log::{SealTerms, Sealed};
use crate::messages::notice::{ItemHash, ItemSet};
use crate::messages::stage::Stage;
use crate::mixing::exchange::ShareExchange;
use crate::publishing::opening::{Dealt, Kept};
use crate::publishing::way::Way;
use crate::run::machine::Run;
use crate::run::outcome::{Event, SealedFinal};
use crate::run::seals::Seals;
use crate::sealing::deal::{CheckedDeal, Deal, DealError, Dealer, Secret};
use crate::sealing::holders::{HolderOrder, ThresholdError};
use crate::sealing::pair_masks::PairMasks;
use crate::sealing::run_key::{PairKey, RunKey};
use crate::topology::graph::Graph;
use crate::topology::party::Party;

impl Run {
    /// Fixes what everybody seals with, where the plan seals: START names whose keys count.
    pub(super) fn prepare_seals(
        &mut self,
        (run_key, pair_key): (RunKey, Option<PairKey>),
    ) -> Result<(), ThresholdError> {
        // Where nothing is sealed it is wiped here.
        let seal_seed = std::mem::take(&mut self.seal_seed);
        let started = &self.record.started;
        let Some(threshold) = self.plan.threshold(started.len())? else {
            return Ok(());
        };
        let bytes = match &self.commons.rules.way {
            Way::Sealed(finals) => Some(finals.bytes() as u64),
            // Releases to come are sealed, with the keys of this START.
            Way::Kept => None,
            Way::Readable(_) => return Ok(()),
        };
        let key = |&party: &Party| match party == self.course.me {
            true => Some((party, *run_key.public())),
            false => Some((party, *self.commons.flood.run_key(party)?)),
        };
        let keys = started.iter().filter_map(key).collect();
        let seed = self.plan.schedule_seed().unwrap_or(0);
        let masks = pair_key.map(|pair_key| self.pair_masks(pair_key));
        self.seals = Some(Box::new(Seals {
            rng: ChaCha20Rng::from_seed(*seal_seed),
            run_key: Arc::new(run_key),
            keys,
            threshold,
            masks,
            order: HolderOrder::draw(seed, self.electorate.parties),
            own: None,
            left_with: None,
        }));
        if let Some(bytes) = bytes {
            self.commons.begin(self.now, SealTerms { threshold, bytes });
        }
        Ok(())
    }

    /// This node's masks with its neighbours in the mask graph who have started.
    fn pair_masks(&self, pair_key: PairKey) -> PairMasks {
        let (me, started) = (self.course.me, &self.record.started);
        let graph = match self.plan.reads_circles() {
            // In some round anybody may be in a circle with anybody.
            true => Some(Graph::complete(self.electorate.parties)),
            false => self.plan.mask_graph(),
        };
        let neighbours = graph.iter().flat_map(|graph| graph.neighbours(me));
        let others = neighbours.filter(|other| started.contains(other));
        let keys = others.filter_map(|&other| Some((other, *self.commons.flood.pair_key(other)?)));
        PairMasks::of(me, pair_key, &self.course.digest, &keys.collect())
    }

    /// Draws a secret, and deals it to its holders. None where the plan seals nothing.
    pub(super) fn deal(&mut self) -> Option<(Secret, Deal)> {
        let me = self.course.me;
        let holders = self.holders(me)?;
        let seals = self.seals.as_mut()?;
        let to: Vec<(Party, [u8; 32])> = holders
            .into_iter()
            .filter_map(|holder| Some((holder, *seals.keys.get(&holder)?)))
            .collect();
        let dealer = Dealer {
            key: &seals.run_key,
            party: me,
            digest: &self.course.digest,
            round: self.plan.sealed_round(),
        };
        Some(dealer.deal(seals.threshold.needed(), &to, &mut seals.rng))
    }

    /// Seals the state that this node's log tells of, and gives it: what the log says of it. None
    /// where the plan seals nothing.
    pub(super) fn seal(&mut self, exchange: &ShareExchange) -> Option<Sealed> {
        let me = self.course.me;
        let (secret, deal) = self.deal()?;
        let (seals, Way::Sealed(finals)) = (self.seals.as_mut()?, &self.commons.rules.way) else {
            return None;
        };
        let state = exchange.state().value;
        let item = match finals.seal(me, &state, seals.masks.as_ref(), &secret) {
            Ok(item) => item,
            Err(reason) => {
                self.commons.event(Event::Fault(reason.to_string()));
                return None;
            }
        };
        seals.own = Some(secret);
        let bytes = item.length as u64;
        let hash = self.commons.give_body(Stage::Sealed, item);
        self.record.sealed = Some(SealedFinal::Unknown);
        Some(Sealed { hash, bytes, deal })
    }

    /// Notes with which log this node's sealed final left, until that is told.
    pub(super) fn left_with_log(&mut self, log: Option<ItemHash>) {
        if let Some(seals) = &mut self.seals {
            seals.left_with = log;
        }
    }

    /// Tells once that this node's sealed final is out of its hands: another party's list or vote
    /// names the log that it left with, and such a log counts as held only with what it seals.
    /// Always false: nothing follows from it.
    pub(super) fn notice_own_final(&mut self) -> bool {
        let me = self.course.me;
        let own = self.seals.as_ref().and_then(|seals| Some((me, seals.left_with?)));
        let (Some(own), Way::Sealed(finals)) = (own, &self.commons.rules.way) else {
            return false;
        };
        let (flood, bytes) = (&self.commons.flood, finals.bytes() as u64);
        // This node has signed one log only: a list that has it has that one.
        let listed = flood
            .lists(Stage::Settling)
            .any(|list| list.author != me && list.held.has(me));
        let voted = flood.votes(Stage::Settling).any(|vote| {
            let names = |set: &ItemSet| set.binary_search(&own).is_ok();
            vote.signer != me && vote.set.is_some_and(names)
        });
        if listed || voted {
            self.left_with_log(None);
            self.commons.event(Event::Sealed(bytes));
        }
        false
    }

    /// Who holds shares of a party's secret; none where the plan seals nothing.
    fn holders(&self, dealer: Party) -> Option<Vec<Party>> {
        let seals = self.seals.as_ref()?;
        let started = &self.record.started;
        Some(seals.order.holders(dealer, started, seals.threshold))
    }

    /// Tells a person that a member's letter gives this node no share of its secret.
    pub(super) fn tell_of_no_share(&mut self, of: Party, reason: DealError) {
        let name = &self.plan.draft().members[of].name;
        let text = format!("{name} dealt this node no share of its secret: {reason}");
        self.commons.event(Event::Fault(text));
    }

    /// What a party has dealt, and to whom.
    pub(super) fn dealt(&self, dealer: Party, deal: CheckedDeal) -> Option<Dealt> {
        let holders = self.holders(dealer)?;
        Some(Dealt { deal, holders })
    }

    /// What this node keeps of the secrets of these parties until they are opened: its own, unless
    /// it withholds, and the letters to it.
    pub(super) fn keep_secrets(&mut self, of: &BTreeMap<Party, (Sealed, Dealt)>) -> Option<Kept> {
        let me = self.course.me;
        let may_open = self.record.withheld.is_none();
        let seals = self.seals.as_mut()?;
        let mut kept = Kept::new(
            me,
            self.plan.sealed_round(),
            seals.own.take().filter(|_| may_open),
        );
        for (&party, (sealed, dealt)) in of.iter().filter(|(party, _)| **party != me) {
            let Some(key) = seals.keys.get(&party) else {
                continue;
            };
            let digest = &self.course.digest;
            kept.keep_letter(&seals.run_key, digest, (party, key), &sealed.deal, dealt);
        }
        Some(kept)
    }

    /// Nobody opens this node's final: an agreed set is without it, or may not be opened.
    pub(super) fn stays_closed(&mut self) {
        if let Some(sealed) = &mut self.record.sealed {
            *sealed = SealedFinal::Closed;
        }
    }
}
