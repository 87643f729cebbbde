//! What secrets a run keeps in memory, for tests of what a node gives away that is broken into.

use std::sync::Arc;

use crate::run::machine::{Machine, Run};
use crate::sealing::run_key::RunKey;
use crate::time::Time;

/// All of a run's secrets.
#[derive(Default)]
pub(crate) struct HeldSecrets {
    /// Keys of chains of pairs, and secrets of own masks.
    pub(crate) keys: Vec<[u8; 32]>,
    /// What letters to this node are read with.
    pub(crate) run_keys: Vec<Arc<RunKey>>,
    /// Letters and shares that are kept for an opening.
    pub(crate) shares: usize,
}

impl Run {
    /// When the second half of opening begins, while this node is at it.
    pub(crate) fn half_of_opening(&self) -> Option<Time> {
        match &self.machine {
            Machine::Opening { opening, .. } => Some(opening.clock().half),
            _ => None,
        }
    }

    /// What this run keeps, added to what is held elsewhere.
    pub(crate) fn held_secrets(&self, held: &mut HeldSecrets) {
        if let Some(seals) = &self.seals {
            held.keys
                .extend(seals.own.iter().map(|secret| *secret.to_bytes()));
            held.keys
                .extend(seals.masks.iter().flat_map(|masks| masks.keys()));
            held.run_keys.push(seals.run_key.clone());
        }
        if let Machine::Opening { opening, .. } = &self.machine {
            let secrets = opening.secrets().unwrap_or_default();
            held.keys
                .extend(secrets.values().map(|secret| *secret.to_bytes()));
            held.shares += opening.held_shares();
        }
    }
}
