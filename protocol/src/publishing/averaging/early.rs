//! Openings that came before this node had its own final.

use std::collections::BTreeMap;

use crate::messages::notice::Round;
use crate::messages::wire::Bytes;
use crate::topology::party::Party;

/// One opening a neighbour, as it came first: a neighbour whose gate was faster.
#[derive(Default)]
pub struct EarlyRounds(BTreeMap<Party, (Round, Bytes)>);

impl EarlyRounds {
    /// Keeps an opening; nobody can be further before this node has begun.
    pub fn keep(&mut self, round: Round, values: Bytes) {
        if round.round == 0 {
            self.0.entry(round.author).or_insert((round, values));
        }
    }

    /// All that were kept.
    pub(super) fn into_rounds(self) -> impl Iterator<Item = (Round, Bytes)> {
        self.0.into_values()
    }
}
