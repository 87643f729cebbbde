//! The state of one edge, and its reports.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libp2p::swarm::ConnectionId;
use tokio::sync::{mpsc, watch};

use crate::network::command::SwarmCommand;
use crate::network::dial_fault::DialFault;
use crate::network::edge::ways::Ways;
use crate::network::event::NetworkEvent;
use crate::network::hello::Credentials;
use crate::network::line::Line;
use crate::network::offence::Offence;
use crate::network::peer_table::Arrival;
use crate::network::reports::Reports;

/// The state that the edges of one peer share.
#[derive(Default)]
pub(in crate::network) struct Presence {
    /// The queues towards it, of both graphs.
    lines: Mutex<Vec<Arc<Line>>>,
    /// It was reported gone, and has not been connected since.
    pub(super) unreachable: AtomicBool,
    /// It was reported to refuse connections, and has not been connected since.
    pub(super) refused: AtomicBool,
    /// It was reported to take no part, and has not been connected since.
    pub(super) declined: AtomicBool,
    /// It was reported that nothing answers for it, and it has not been connected since.
    pub(super) unanswered: AtomicBool,
    /// Edges that are up.
    pub(super) up: AtomicUsize,
    /// How often an edge came up.
    pub(super) comings: AtomicU64,
    /// It was found out, or is being found out, whether its address leads to it.
    pub(super) probed: AtomicBool,
    /// Its address leads to it: if that refuses connections, it is not there. One behind address
    /// translation may be there all the same.
    pub(super) reached: AtomicBool,
}

impl Presence {
    /// Adds the queue of another edge.
    pub(in crate::network) fn add(&self, line: Arc<Line>) {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    /// Drops what waits for the peer on edges that are down. All of them, before it is reported
    /// gone: its other edge may find that out only once the peer is back.
    fn drop_waiting(&self) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().for_each(|line| line.queue.clear_if_down());
    }
}

/// One edge's task.
pub(in crate::network) struct Edge {
    pub(in crate::network) line: Arc<Line>,
    pub(in crate::network) credentials: Credentials,
    /// The run.
    pub(in crate::network) digest: [u8; 32],
    /// Shared with the peer's edge on the other graph.
    pub(in crate::network) presence: Arc<Presence>,
    pub(in crate::network) dial_patience: Duration,
    /// The swarms that its streams may take.
    pub(in crate::network) ways: Ways,
    pub(in crate::network) arrivals: mpsc::Receiver<Arrival>,
    pub(in crate::network) reports: Reports,
    /// It was connected, and we have not found it gone since.
    pub(in crate::network) lost: bool,
    /// Everybody is known to have been up: one that refuses connections now is gone, even if this
    /// edge has never been.
    pub(in crate::network) begun: watch::Receiver<bool>,
    /// The last offence reported: each is reported once, however often the peer tries again.
    pub(in crate::network) reported: Option<Offence>,
    /// It was reported that the peer has no such run.
    pub(in crate::network) absent: bool,
    /// It was last connected over a relay: its addresses, if it has any, may lead nowhere.
    pub(in crate::network) over_relay: bool,
}

impl Edge {
    /// Whether a refused connection means that the peer is gone, not that it has not started yet.
    pub(super) fn is_missed(&self) -> bool {
        self.lost || *self.begun.borrow()
    }

    /// Whether our peer id is the lower one: it dials at once, and chooses the connection.
    pub(super) fn leads(&self) -> bool {
        self.credentials.key.public().to_peer_id() < self.line.peer
    }

    /// Finds out, while the peer is connected, whether its address leads to it.
    pub(super) fn probe_once(&self) {
        let presence = self.presence.clone();
        if self.ways.reached() {
            presence.reached.store(true, Ordering::Relaxed);
        }
        if presence.reached.load(Ordering::Relaxed) || presence.probed.swap(true, Ordering::Relaxed) {
            return;
        }
        let (probed, patience) = (self.ways.probed(), self.dial_patience);
        if probed.is_empty() {
            return;
        }
        tokio::spawn(async move {
            let reached = probed.take(patience).await;
            presence.reached.fetch_or(reached, Ordering::Relaxed);
        });
    }

    /// The peer's address refuses connections after a loss, or the peer says that the run is none
    /// of its own any more. What waits for it is dropped.
    pub(super) async fn mourn(&mut self) {
        self.lost = false;
        self.presence.drop_waiting();
        if !self.presence.unreachable.swap(true, Ordering::Relaxed) {
            self.reports
                .tell(NetworkEvent::Unreachable { peer: self.line.peer })
                .await;
        }
    }

    /// Reports once that the address of a peer that has not been here yet refuses connections.
    pub(super) async fn refused(&mut self) {
        if !self.presence.refused.swap(true, Ordering::Relaxed) {
            let (peer, place) = (self.line.peer, self.ways.probed().to_string());
            self.reports.tell(NetworkEvent::Refused { peer, place }).await;
        }
    }

    /// Reports once that the peer was dialled in vain, and is connected on neither graph.
    pub(super) async fn dialled_in_vain(&self, fault: DialFault) {
        if self.presence.up.load(Ordering::Relaxed) == 0
            && !self.presence.unanswered.swap(true, Ordering::Relaxed)
        {
            let (peer, place) = (self.line.peer, self.ways.dialled().to_string());
            let event = NetworkEvent::Unanswered { peer, place, fault };
            self.reports.tell(event).await;
        }
    }

    /// Reports once that the peer has no such run.
    pub(super) async fn absent(&mut self) {
        if !std::mem::replace(&mut self.absent, true) {
            self.reports
                .tell(NetworkEvent::Absent {
                    graph: self.line.graph,
                    peer: self.line.peer,
                })
                .await;
        }
    }

    /// Reports once that the peer takes no part in the run.
    pub(super) async fn declined(&mut self) {
        if !self.presence.declined.swap(true, Ordering::Relaxed) {
            let peer = self.line.peer;
            self.reports.tell(NetworkEvent::Declined { peer }).await;
        }
    }

    /// Reports the peer's offence, once.
    pub(super) async fn report(&mut self, offence: Offence) {
        if self.reported.as_ref() != Some(&offence) {
            self.reported = Some(offence.clone());
            let (graph, peer) = (self.line.graph, Some(self.line.peer));
            self.reports
                .tell(NetworkEvent::Offence {
                    graph,
                    peer,
                    address: None,
                    offence,
                })
                .await;
        }
    }

    /// Nobody answers on this connection, or somebody else does.
    pub(super) async fn unanswered(&self, connection: ConnectionId) {
        let peer = self.line.peer;
        let command = || SwarmCommand::Unanswered { peer, connection };
        self.ways.command(connection, command).await;
    }

    /// A stream on this connection broke.
    pub(super) async fn broken(&self, connection: ConnectionId) {
        let peer = self.line.peer;
        let command = || SwarmCommand::Broken { peer, connection };
        self.ways.command(connection, command).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use libp2p::PeerId;
    use undertone_protocol::messages::notice::Network;

    use super::*;
    use crate::network::queue::{Frame, Queue};

    #[test]
    fn what_waits_for_a_peer_that_is_gone_is_dropped_on_both_graphs() {
        let presence = Presence::default();
        let lines = [Network::Private, Network::Public].map(|graph| {
            Arc::new(Line {
                graph,
                peer: PeerId::random(),
                digest: [0; 32],
                queue: Queue::new(9, 100),
                max_frame: 100,
                inbound_bytes: 100,
                stall: Duration::MAX,
                sent: Arc::default(),
            })
        });
        for line in &lines {
            presence.add(line.clone());
            line.queue.push(Frame::new([7].into())).unwrap();
        }
        presence.drop_waiting();
        assert!(lines.iter().all(|line| line.queue.pop().is_none()));
    }
}
