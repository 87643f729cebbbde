//! The secrets that a run keeps in memory, for tests of the knowledge of an attacker who breaks
//! into a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::messages::log::ShareId;
use crate::mixing::exchange::ArrivedShare;
use crate::run::machine::Run;
use crate::run::phase::RunPhase;
use crate::sealing::run_key::RunKey;
use crate::time::Time;

/// All of a run's secrets.
#[derive(Default)]
pub(crate) struct HeldSecrets {
    /// Keys of chains of pairs, and secrets of own masks.
    pub(crate) keys: Vec<[u8; 32]>,
    /// The keys that letters to this node are read with.
    pub(crate) run_keys: Vec<Arc<RunKey>>,
    /// Letters and shares that are kept for an opening.
    pub(crate) shares: usize,
}

impl Run {
    /// Returns the moment when the second half of opening begins, while this node is at it.
    pub(crate) fn half_of_opening(&self) -> Option<Time> {
        match &self.phase {
            RunPhase::Opening(phase) => Some(phase.opening.clock().half),
            _ => None,
        }
    }

    /// Returns the shares that wait for this run to begin.
    pub(crate) fn early(&self) -> BTreeMap<ShareId, ArrivedShare> {
        match &self.phase {
            RunPhase::Gathering(phase) => phase.early.0.clone(),
            RunPhase::Awaiting(phase) => phase.early.0.clone(),
            RunPhase::Spending(phase) => phase.early.0.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// Adds the secrets that this run keeps to those held elsewhere.
    pub(crate) fn held_secrets(&self, held: &mut HeldSecrets) {
        if let Some(seals) = self.phase.seals() {
            held.keys
                .extend(seals.own.iter().map(|secret| *secret.to_bytes()));
            held.keys
                .extend(seals.masks.iter().flat_map(|masks| masks.keys()));
            held.run_keys.push(seals.run_key.clone());
        }
        if let RunPhase::Opening(phase) = &self.phase {
            let opening = &phase.opening;
            let secrets = opening.secrets().unwrap_or_default();
            held.keys
                .extend(secrets.values().map(|secret| *secret.to_bytes()));
            held.shares += opening.held_shares();
        }
    }
}
