//! Precomputed noise: of all releases of a training at once, before any value is touched.
//!
//! It is one mixing of zeros, over as many coordinates as all releases have together; block k of
//! every state, and of what was exchanged with each neighbour, belongs to release k. Shares carry
//! no value, so that until a value comes in nothing can be lost by them. A block is used once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::lattice::packed::PackedVector;
use crate::messages::log::AgreedLogs;
use crate::topology::party::Party;

/// A party's mixed noise of one release. It is wiped when it is dropped.
pub struct NoiseBlock {
    /// The state, in which the noise of all who are left cancels.
    pub(super) state: PackedVector,
    /// For each neighbour what was deducted for it minus what was added from it.
    pub(super) record: BTreeMap<Party, PackedVector>,
}

/// The noise of one release, with the agreed logs of its mixing: they are what is judged where
/// fewer are left.
pub struct ReleaseNoise {
    pub(crate) block: NoiseBlock,
    pub(crate) logs: Arc<AgreedLogs>,
}

/// A party's mixed noise of all releases to come.
pub struct PrecomputedNoise {
    logs: Arc<AgreedLogs>,
    blocks: VecDeque<NoiseBlock>,
}

impl PrecomputedNoise {
    /// Cuts the mixed vector into blocks of `dimension` coordinates; `logs` are those that were
    /// agreed on.
    pub(super) fn cut(
        state: &PackedVector,
        record: &BTreeMap<Party, PackedVector>,
        dimension: usize,
        logs: Arc<AgreedLogs>,
    ) -> Self {
        let block = |first: usize| NoiseBlock {
            state: state.block(first, dimension),
            record: record
                .iter()
                .map(|(&party, kept)| (party, kept.block(first, dimension)))
                .collect(),
        };
        PrecomputedNoise {
            logs,
            blocks: (0..state.len()).step_by(dimension.max(1)).map(block).collect(),
        }
    }

    /// The noise of the next release, once; `None` after the last.
    pub(crate) fn take_next(&mut self) -> Option<ReleaseNoise> {
        let logs = self.logs.clone();
        let block = self.blocks.pop_front()?;
        Some(ReleaseNoise { block, logs })
    }
}
