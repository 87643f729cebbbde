//! The state that an edge shares with the handle that sends and with the tasks that carry its
//! frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libp2p::PeerId;
use undertone_protocol::messages::notice::Network;

use crate::network::queue::Queue;

/// The state that the edge shares with the handle and with its own tasks.
pub(super) struct Line {
    pub(super) graph: Network,
    pub(super) peer: PeerId,
    /// The digest of the run's plan.
    pub(super) digest: [u8; 32],
    pub(super) queue: Queue,
    pub(super) max_frame: usize,
    /// Bytes that were received and the driver still holds.
    pub(super) inbound_bytes: usize,
    pub(super) stall: Duration,
    /// Sent bytes of the whole graph.
    pub(super) sent: Arc<AtomicU64>,
}

impl Line {
    pub(super) fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
