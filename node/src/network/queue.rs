//! The bounded queue of frames towards one peer on one graph.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::Notify;
use undertone_protocol::messages::notice::Network;

use crate::network::offence::Offence;

/// The last word on whether a frame leaves. Asked once, right before the frame's first byte is
/// handed to the transport.
pub trait TakeTicket: Send + Sync {
    /// `true`: the frame leaves, and can no longer be recalled. `false`: it was recalled, and is
    /// dropped.
    fn take(&self) -> bool;
}

impl TakeTicket for undertone_protocol::mixing::ticket::Ticket {
    fn take(&self) -> bool {
        undertone_protocol::mixing::ticket::Ticket::take(self)
    }
}

/// Bytes for one peer.
#[derive(Clone)]
pub struct Frame {
    /// The bytes that the peer receives.
    pub bytes: Arc<[u8]>,
    /// If there is one, it is taken before the first byte leaves, and `NetworkEvent::Left` follows.
    pub ticket: Option<Arc<dyn TakeTicket>>,
    /// The caller's name for the frame, returned in `NetworkEvent::Left`.
    pub token: u64,
}

impl Frame {
    /// A frame that cannot be recalled.
    pub fn new(bytes: Arc<[u8]>) -> Frame {
        Frame {
            bytes,
            ticket: None,
            token: 0,
        }
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({} bytes, token {})", self.bytes.len(), self.token)
    }
}

/// The reasons why a frame was not queued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The caller's mistake: there is no such edge.
    #[error("{peer} is not a {graph} neighbour")]
    NoSuchPeer {
        /// The graph that was asked for.
        graph: Network,
        /// The peer that was asked for.
        peer: libp2p::PeerId,
    },
    /// The caller's mistake: the peer would refuse the frame.
    #[error("a frame of {length} bytes is above the limit of {limit}")]
    TooLong {
        /// Bytes of the frame.
        length: usize,
        /// Bytes that a frame may have.
        limit: usize,
    },
    /// The peer takes frames more slowly than they are made. An edge that is up is reset.
    #[error("{frames} frames with {bytes} bytes are waiting already")]
    QueueFull {
        /// Frames in the queue.
        frames: usize,
        /// Bytes in the queue.
        bytes: usize,
    },
}

/// First in, first out, but that short frames overtake long ones where that is allowed; any number
/// of writers that never wait, one reader.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Frames of fewer bytes overtake the others; 0: none does.
    overtaking: usize,
    max_frames: usize,
    max_bytes: usize,
    /// A frame came in.
    arrived: Notify,
    /// The queue was full while the edge was up.
    overflowed: Notify,
}

#[derive(Default)]
struct Waiting {
    /// Frames that overtake the others, in order.
    first: VecDeque<Frame>,
    frames: VecDeque<Frame>,
    bytes: usize,
    edge_is_up: bool,
}

impl Waiting {
    fn frames(&self) -> usize {
        self.first.len() + self.frames.len()
    }

    fn clear(&mut self) -> Offence {
        let offence = Offence::QueueFull {
            frames: self.frames(),
            bytes: self.bytes,
        };
        self.first.clear();
        self.frames.clear();
        self.bytes = 0;
        offence
    }
}

impl Queue {
    pub(super) fn new(max_frames: usize, max_bytes: usize) -> Queue {
        let waiting = Mutex::default();
        Queue {
            waiting,
            overtaking: 0,
            max_frames,
            max_bytes,
            arrived: Notify::new(),
            overflowed: Notify::new(),
        }
    }

    /// Lets frames of fewer bytes overtake the others: notices must not wait for vectors.
    pub(super) fn overtaking(mut self, bytes: usize) -> Queue {
        self.overtaking = bytes;
        self
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a frame. One frame is always taken by an empty queue.
    pub(super) fn push(&self, frame: Frame) -> Result<(), SendError> {
        let mut waiting = self.lock();
        let bytes = waiting.bytes + frame.bytes.len();
        let frames = waiting.frames();
        let full = frames >= self.max_frames || bytes > self.max_bytes;
        if full && frames > 0 {
            if waiting.edge_is_up {
                self.overflowed.notify_one();
            }
            return Err(SendError::QueueFull {
                frames,
                bytes: waiting.bytes,
            });
        }
        waiting.bytes = bytes;
        match frame.bytes.len() < self.overtaking {
            true => waiting.first.push_back(frame),
            false => waiting.frames.push_back(frame),
        }
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// The oldest frame of those that overtake others, else of these, if there is any.
    pub(super) fn pop(&self) -> Option<Frame> {
        let mut waiting = self.lock();
        let first = waiting.first.pop_front();
        let frame = first.or_else(|| waiting.frames.pop_front())?;
        waiting.bytes -= frame.bytes.len();
        Some(frame)
    }

    /// Resolves after a push (also one before the call, if no other call saw it).
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Resolves when a frame found the queue full while the edge was up.
    pub(super) async fn overflowed(&self) {
        self.overflowed.notified().await;
    }

    /// From now on a full queue is the peer's fault, or no longer is.
    pub(super) fn set_edge_is_up(&self, up: bool) {
        self.lock().edge_is_up = up;
    }

    /// Drops all frames; returns what the peer is to be blamed for.
    pub(super) fn clear(&self) -> Offence {
        self.lock().clear()
    }

    /// Drops all frames unless the edge is up.
    pub(super) fn clear_if_down(&self) {
        let mut waiting = self.lock();
        if !waiting.edge_is_up {
            waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> Frame {
        Frame::new(vec![7; bytes].into())
    }

    #[test]
    fn is_bounded_in_frames_and_in_bytes() {
        let queue = Queue::new(3, 100);
        for _ in 0..3 {
            queue.push(frame(10)).unwrap();
        }
        assert_eq!(
            queue.push(frame(1)),
            Err(SendError::QueueFull { frames: 3, bytes: 30 })
        );
        queue.pop().unwrap();
        assert_eq!(
            queue.push(frame(81)),
            Err(SendError::QueueFull { frames: 2, bytes: 20 })
        );
        queue.push(frame(80)).unwrap();
        assert_eq!(
            queue.clear(),
            Offence::QueueFull {
                frames: 3,
                bytes: 100
            }
        );
        assert!(queue.pop().is_none());
        queue.push(frame(1000)).unwrap();
    }

    #[test]
    fn what_is_short_overtakes_what_is_long_in_order() {
        let queue = Queue::new(9, 1000).overtaking(11);
        [30, 5, 20, 10, 11, 1]
            .into_iter()
            .for_each(|bytes| queue.push(frame(bytes)).unwrap());
        let lengths = std::iter::from_fn(|| queue.pop()).map(|frame| frame.bytes.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [5, 10, 1, 30, 20, 11]);
        queue.push(frame(5)).unwrap();
        queue.push(frame(50)).unwrap();
        let offence = Offence::QueueFull { frames: 2, bytes: 55 };
        assert_eq!(queue.clear(), offence);
        assert!(queue.pop().is_none());
    }

    #[test]
    fn none_overtakes_where_order_counts() {
        let queue = Queue::new(9, 1000);
        [2, 0, 1]
            .into_iter()
            .for_each(|bytes| queue.push(frame(bytes)).unwrap());
        let lengths = std::iter::from_fn(|| queue.pop()).map(|frame| frame.bytes.len());
        assert_eq!(lengths.collect::<Vec<_>>(), [2, 0, 1]);
    }

    #[test]
    fn frames_of_an_edge_that_is_up_are_kept_when_those_of_the_others_are_dropped() {
        let queue = Queue::new(9, 100);
        queue.push(frame(5)).unwrap();
        queue.set_edge_is_up(true);
        queue.clear_if_down();
        assert_eq!(queue.pop().unwrap().bytes.len(), 5);
        queue.push(frame(6)).unwrap();
        queue.set_edge_is_up(false);
        queue.clear_if_down();
        assert!(queue.pop().is_none());
    }

    #[tokio::test]
    async fn only_an_edge_that_is_up_overflows() {
        let queue = Queue::new(1, 100);
        queue.push(frame(1)).unwrap();
        queue.push(frame(1)).unwrap_err();
        assert!(futures::FutureExt::now_or_never(queue.overflowed()).is_none());
        queue.set_edge_is_up(true);
        queue.push(frame(1)).unwrap_err();
        // Remembered until somebody looks.
        assert!(futures::FutureExt::now_or_never(queue.overflowed()).is_some());
        queue.set_edge_is_up(false);
        queue.push(frame(1)).unwrap_err();
        assert!(futures::FutureExt::now_or_never(queue.overflowed()).is_none());
    }
}
