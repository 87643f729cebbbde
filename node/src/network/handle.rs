//! How the driver of a run sends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libp2p::PeerId;
use tokio::sync::watch;
use undertone_protocol::messages::notice::Network;

use crate::network::line::Line;
use crate::network::queue::{Frame, SendError};

/// Sends frames; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(super) lines: Arc<BTreeMap<(Network, PeerId), Arc<Line>>>,
    pub(super) private_sent: Arc<AtomicU64>,
    pub(super) public_sent: Arc<AtomicU64>,
    pub(super) begun: Arc<watch::Sender<bool>>,
}

impl Handle {
    /// Queues a frame and returns at once. It leaves when the edge is up; frames that have not left
    /// stay queued while the edge is down, until the peer is found gone. Frames of one edge leave
    /// in the order of the calls.
    pub fn send(&self, graph: Network, peer: PeerId, frame: Frame) -> Result<(), SendError> {
        let line = self
            .lines
            .get(&(graph, peer))
            .ok_or(SendError::NoSuchPeer { graph, peer })?;
        if frame.bytes.len() > line.max_frame {
            return Err(SendError::TooLong {
                length: frame.bytes.len(),
                limit: line.max_frame,
            });
        }
        line.queue.push(frame)
    }

    /// Everybody is known to be up, whether or not its edge is: from now on a peer whose address
    /// refuses connections is `NetworkEvent::Gone` even if it was never connected with us.
    pub fn everybody_is_up(&self) {
        self.begun.send_replace(true);
    }

    /// Bytes sent on the private graph: frames, their lengths and hellos. Received bytes are not
    /// counted, so that the sum over all nodes has each byte once. Noise, Yamux and TCP add about
    /// 0.3 % to long frames.
    pub fn private_bytes(&self) -> u64 {
        self.private_sent.load(Ordering::Relaxed)
    }

    /// Bytes sent on the public graph, counted as [`Handle::private_bytes`] counts.
    pub fn public_bytes(&self) -> u64 {
        self.public_sent.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
impl Handle {
    /// A handle without peers.
    pub(crate) fn to_nobody() -> Self {
        Handle {
            lines: Arc::default(),
            private_sent: Arc::default(),
            public_sent: Arc::default(),
            begun: Arc::new(watch::channel(false).0),
        }
    }
}
