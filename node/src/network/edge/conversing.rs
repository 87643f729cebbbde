//! An edge that is up: frames both ways until either stream ends.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::AsyncReadExt;
use libp2p::swarm::ConnectionId;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tracing::debug;

use crate::network::command::SwarmCommand;
use crate::network::edge::establishing::Establishing;
use crate::network::edge::state::Edge;
use crate::network::event::{LinkWay, NetworkEvent};
use crate::network::hello;
use crate::network::lane::Lane;
use crate::network::peer_table::Arrival;
use crate::network::session::{self, End};

/// After our half of a connection broke, the other half may still hold frames that arrived before.
const DRAIN: Duration = Duration::from_secs(1);

/// How long a stream on another connection is watched. Our guess: its end, if it comes, was sent
/// before this connection was chosen.
const LEFT_OVER: Duration = Duration::from_secs(1);

/// How a conversation ended.
enum Ending {
    /// The peer has closed a stream.
    Closed,
    /// Something is wrong.
    Broken,
    /// The peer has opened another stream.
    StartedOver(Lane),
}

impl Edge {
    /// Runs until the network shuts down.
    pub(in crate::network) async fn run(mut self) {
        let mut inward = None;
        while !self.reports.shutting_down() {
            let Some((outward, accepted)) = Establishing::new(&mut self, inward.take()).run().await else {
                return;
            };
            inward = self.converse(outward, accepted).await;
        }
    }

    /// Carries frames until the edge breaks; returns the stream of a peer that has started over
    /// meanwhile.
    async fn converse(&mut self, outward: Lane, inward: Lane) -> Option<Lane> {
        let (graph, peer) = (self.line.graph, self.line.peer);
        self.line.count_sent(hello::OPENER_BYTES + hello::ACCEPTOR_BYTES);
        self.line.queue.set_edge_is_up(true);
        self.presence.unreachable.store(false, Ordering::Relaxed);
        self.presence.refused.store(false, Ordering::Relaxed);
        self.presence.declined.store(false, Ordering::Relaxed);
        self.presence.unanswered.store(false, Ordering::Relaxed);
        self.presence.up.fetch_add(1, Ordering::Relaxed);
        self.presence.comings.fetch_add(1, Ordering::Relaxed);
        self.lost = true;
        self.reported = None;
        self.absent = false;
        let way = self.ways.taken(inward.stay.connection);
        self.over_relay = matches!(way, LinkWay::Relayed(_));
        self.reports
            .tell(NetworkEvent::Connected { graph, peer, way })
            .await;

        self.probe_once();
        let (outward_stay, inward_stay) = (outward.stay, inward.stay);
        let connection = inward_stay.connection;
        let command = || SwarmCommand::Settled { peer, connection };
        self.ways.command(connection, command).await;

        let mut tasks = JoinSet::new();
        let (line, reports) = (self.line.clone(), self.reports.clone());
        tasks.spawn(async move { (true, session::write_frames(outward.stream, &line, &reports).await) });
        let (line, reports) = (self.line.clone(), self.reports.clone());
        tasks.spawn(async move { (false, session::read_frames(inward.stream, &line, &reports).await) });

        let ending = self.attend(&mut tasks, connection).await;
        tasks.shutdown().await;
        self.presence.up.fetch_sub(1, Ordering::Relaxed);
        self.line.queue.set_edge_is_up(false);
        self.reports
            .tell(NetworkEvent::Disconnected { graph, peer })
            .await;
        drop((outward_stay, inward_stay));
        match ending {
            Ending::Closed => None,
            Ending::Broken => {
                self.broken(connection).await;
                None
            }
            Ending::StartedOver(lane) => Some(lane),
        }
    }

    /// Waits until one of the two tasks says that the edge is broken, the connection is given up,
    /// or a new stream proves that the peer started over.
    async fn attend(&mut self, tasks: &mut JoinSet<(bool, End)>, connection: ConnectionId) -> Ending {
        let mut other: Option<Lane> = None;
        loop {
            tokio::select! {
                Some(done) = tasks.join_next() => {
                    let (writer, end) = done.unwrap_or_else(panicked);
                    let ending = match end {
                        End::Closed => Ending::Closed,
                        End::Broken(error) => {
                            debug!(graph = %self.line.graph, peer = %self.line.peer, writer, %error, "stream broke");
                            Ending::Broken
                        }
                        End::Offence(offence) => {
                            self.report(offence).await;
                            return Ending::Broken;
                        }
                    };
                    if !writer && self.reports.shutting_down() {
                        continue; // our last frames are still on their way
                    }
                    if writer && !self.reports.shutting_down() {
                        let _ = timeout(DRAIN, tasks.join_next()).await;
                    }
                    return other.map_or(ending, Ending::StartedOver);
                }
                () = self.line.queue.overflowed() => {
                    let offence = self.line.queue.clear();
                    self.report(offence).await;
                    return Ending::Broken;
                }
                Some(arrival) = self.arrivals.recv() => match arrival {
                    Arrival::Stream(lane) if lane.stay.connection == connection => {
                        return Ending::StartedOver(lane);
                    }
                    Arrival::Stream(lane) => other = Some(lane),
                    Arrival::Offence(offence) => self.report(offence).await,
                },
                stays = is_left_over(&mut other) => match stays {
                    true => other = None,
                    false => return other.map_or(Ending::Closed, Ending::StartedOver),
                },
                // A connection that is given up may take long to close, if its other end is gone.
                true = self.ways.changed() => {
                    if !self.ways.link().live.contains(&connection) {
                        let _ = timeout(DRAIN, self.drain(tasks)).await;
                        return other.map_or(Ending::Closed, Ending::StartedOver);
                    }
                }
            }
        }
    }

    /// Waits for both tasks.
    async fn drain(&mut self, tasks: &mut JoinSet<(bool, End)>) {
        while let Some(done) = tasks.join_next().await {
            if let Ok((_, End::Offence(offence))) = done {
                self.report(offence).await;
            }
        }
    }
}

/// Whether a stream that the peer has opened on another connection while this one stands is left
/// over from a choice between two connections: then the peer resets it at once. Else it stays, and
/// the peer does not have this connection any more.
async fn is_left_over(other: &mut Option<Lane>) -> bool {
    match other {
        // The peer writes nothing on it before it has a stream of ours there.
        Some(lane) => timeout(LEFT_OVER, lane.stream.read(&mut [0])).await.is_ok(),
        None => std::future::pending().await,
    }
}

/// A task that panicked counts as a writer whose stream broke.
fn panicked(error: JoinError) -> (bool, End) {
    (true, End::Broken(io::Error::other(error)))
}
