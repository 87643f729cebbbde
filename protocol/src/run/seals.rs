//! The keys that a node seals its final with, and its sealed final beside its log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::ChaCha20Rng;
use zeroize::Zeroizing;

use crate::messages::log::{SealTerms, Sealed};
use crate::messages::stage::Stage;
use crate::mixing::exchange::ShareExchange;
use crate::publishing::opening::{Dealt, Kept};
use crate::publishing::way::Way;
use crate::run::context::StepContext;
use crate::run::outcome::SealedFinal;
use crate::sealing::deal::{CheckedDeal, Deal, Dealer, Secret};
use crate::sealing::holders::{HolderOrder, Threshold, ThresholdError};
use crate::sealing::pair_masks::PairMasks;
use crate::sealing::run_key::{PairKey, RunKey};
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// The keys that a node seals and reads letters with, from START on, once its members' keys are
/// fixed. Wiped when the run ends.
pub(super) struct Seals {
    pub(super) run_key: Arc<RunKey>,
    pub(super) rng: ChaCha20Rng,
    /// The run keys of START's members.
    pub(super) keys: BTreeMap<Party, [u8; 32]>,
    pub(super) threshold: Threshold,
    pub(super) order: HolderOrder,
    /// This node's masks with its neighbours in the mask graph; `None` where there is none, or once
    /// nothing is corrected any more.
    pub(super) masks: Option<PairMasks>,
    /// The secret that this node's final is sealed with, once it is.
    pub(super) own: Option<Secret>,
}

impl Seals {
    /// Fixes what everybody seals with, where the plan seals: START names whose keys count.
    pub(super) fn prepare(
        seal_seed: Zeroizing<[u8; 32]>,
        (run_key, pair_key): (RunKey, Option<PairKey>),
        cx: &mut StepContext<'_>,
    ) -> Result<Option<Box<Seals>>, ThresholdError> {
        let (plan, me, started) = (&cx.config.plan, cx.config.mixing.me, &cx.record.started);
        let Some(threshold) = plan.threshold(started.len())? else {
            return Ok(None);
        };
        let bytes = match &cx.public_state.rules.way {
            Way::Sealed(finals) => Some(finals.bytes() as u64),
            // Releases to come are sealed, with the keys of this START.
            Way::Kept => None,
            Way::Readable(_) => return Ok(None),
        };
        let key = |&party: &Party| match party == me {
            true => Some((party, *run_key.public())),
            false => Some((party, *cx.public_state.flood.run_key(party)?)),
        };
        let keys = started.iter().filter_map(key).collect();
        let seals = Seals {
            rng: ChaCha20Rng::from_seed(*seal_seed),
            keys,
            threshold,
            masks: pair_key.map(|pair_key| Seals::pair_masks(pair_key, cx)),
            order: HolderOrder::draw(plan.schedule_seed().unwrap_or(0), plan.parties()),
            own: None,
            run_key: Arc::new(run_key),
        };
        // A run that only mixes noise seals nothing yet.
        if let Some(bytes) = bytes {
            let placing = cx.config.placing(started, threshold);
            cx.public_state
                .begin(cx.now, SealTerms { threshold, bytes }, placing);
        }
        Ok(Some(Box::new(seals)))
    }

    /// Draws a secret, and deals it to its holders.
    pub(super) fn deal(&mut self, cx: &StepContext<'_>) -> (Secret, Deal) {
        let me = cx.config.mixing.me;
        let holders = self.holders(me, &cx.record.started).into_iter();
        let to: Vec<(Party, [u8; 32])> = holders
            .filter_map(|holder| Some((holder, *self.keys.get(&holder)?)))
            .collect();
        let dealer = Dealer {
            key: &self.run_key,
            party: me,
            digest: &cx.config.mixing.digest,
            round: cx.config.plan.sealed_round(),
        };
        dealer.deal(self.threshold.needed(), &to, &mut self.rng)
    }

    /// Seals the state that this node's log tells of, and gives it, unless it travels in slices:
    /// these are returned, to be given after the log. `None` where it cannot be sealed.
    pub(super) fn seal(
        &mut self,
        exchange: &ShareExchange,
        cx: &mut StepContext<'_>,
    ) -> Option<(Sealed, Vec<Vec<u8>>)> {
        let (secret, deal) = self.deal(cx);
        let Way::Sealed(finals) = &cx.public_state.rules.way else {
            return None;
        };
        let (me, state, masks) = (cx.config.mixing.me, exchange.state(), self.masks.as_ref());
        let bytes = finals.bytes() as u64;
        let sealed = match finals.slices() {
            Some(_) => {
                let sealed = finals.seal_slices(me, &state, masks, &secret);
                sealed.map(|sealed| (sealed.root, sealed.items))
            }
            None => {
                let item = finals.seal(me, &state, masks, &secret);
                item.map(|item| (cx.public_state.give_body(Stage::Sealed, item), Vec::new()))
            }
        };
        let (hash, slices) = match sealed {
            Ok(sealed) => sealed,
            Err(reason) => {
                cx.fault(reason);
                return None;
            }
        };
        self.own = Some(secret);
        // Once it is announced the others may open it, whatever becomes of this node.
        cx.record.sealed = Some(SealedFinal::Unknown);
        Some((Sealed { hash, bytes, deal }, slices))
    }

    /// Returns the holders of shares of a party's secret.
    fn holders(&self, dealer: Party, started: &BTreeSet<Party>) -> Vec<Party> {
        self.order.holders(dealer, started, self.threshold)
    }

    /// Returns the deal of a party, with the holders of its shares.
    pub(super) fn dealt(&self, dealer: Party, deal: CheckedDeal, started: &BTreeSet<Party>) -> Dealt {
        let holders = self.holders(dealer, started);
        Dealt { deal, holders }
    }

    /// Returns this node's part of the secrets of these parties until they are opened: its own,
    /// unless it withholds, and the letters to it.
    pub(super) fn keep_secrets(
        &mut self,
        of: &BTreeMap<Party, (Sealed, Dealt)>,
        cx: &StepContext<'_>,
    ) -> Kept {
        let me = cx.config.mixing.me;
        let may_open = cx.record.withheld.is_none();
        let own = self.own.take().filter(|_| may_open);
        let mut kept = Kept::new(me, cx.config.plan.sealed_round(), own);
        for (&party, (sealed, dealt)) in of.iter().filter(|(party, _)| **party != me) {
            let Some(key) = self.keys.get(&party) else {
                continue;
            };
            let digest = &cx.config.mixing.digest;
            kept.keep_letter(&self.run_key, digest, (party, key), &sealed.deal, dealt);
        }
        kept
    }

    /// This node's masks with its neighbours in the mask graph who have started.
    fn pair_masks(pair_key: PairKey, cx: &StepContext<'_>) -> PairMasks {
        let (me, started) = (cx.config.mixing.me, &cx.record.started);
        let graph = match cx.config.plan.reads_circles() {
            // In some round anybody may be in a circle with anybody.
            true => Some(Graph::complete(cx.config.electorate.parties)),
            false => cx.config.plan.mask_graph(),
        };
        let neighbours = graph.iter().flat_map(|graph| graph.neighbours(me));
        let others = neighbours.filter(|other| started.contains(other));
        let keys = others.filter_map(|&other| Some((other, *cx.public_state.flood.pair_key(other)?)));
        PairMasks::of(me, pair_key, &cx.config.mixing.digest, &keys.collect())
    }

    /// Wipes the keys of this release's masks; those of the next one follow from them first, if
    /// there may be one.
    pub(super) fn wipe_masks(&mut self, goes_on: bool) {
        match &mut self.masks {
            Some(masks) if goes_on => masks.advance(),
            _ => self.masks = None,
        }
    }

    /// Goes on to a release of these parties.
    pub(super) fn go_on(&mut self, started: &BTreeSet<Party>, threshold: Threshold) {
        self.keys.retain(|party, _| started.contains(party));
        self.masks.iter_mut().for_each(|masks| masks.retain(started));
        (self.threshold, self.own) = (threshold, None);
    }
}
