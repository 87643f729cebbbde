//! One edge of one run: keeps two streams to one peer on one graph, one each way, and says when
//! they come and go.
//!
//! ```text
//! establish: dial (lower peer id) or wait → open a stream, get one → both hellos done
//! converse:  frames both ways until either stream ends → establish
//! ```
//!
//! Edges of several runs share connections. A connection is closed when nobody answers on it, or
//! when an edge on it broke and no other uses it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::AsyncReadExt;
use libp2p::Multiaddr;
use libp2p::swarm::ConnectionId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use crate::network::address::{self, Place};
use crate::network::command::SwarmCommand;
use crate::network::event::NetworkEvent;
use crate::network::hello::{self, Credentials, HelloError};
use crate::network::lane::Lane;
use crate::network::line::Line;
use crate::network::offence::Offence;
use crate::network::reports::Reports;
use crate::network::roster::{Arrival, Link};
use crate::network::session::{self, End, STREAM};

/// First pause between attempts while peers come up.
const PAUSE_AT_START: Duration = Duration::from_millis(50);
/// First pause after a loss: a dying process closes its sockets one by one, its listener within a
/// moment.
const PAUSE_AFTER_LOSS: Duration = Duration::from_millis(5);
/// Longest pause between attempts.
const PAUSE_LIMIT: Duration = Duration::from_secs(1);
/// A lost peer that still listens, and would have to dial us, is dialled once pauses are this long
/// (a third of a second after the loss): it may have started anew without this run, and then has no
/// reason to dial.
const OUR_TURN: Duration = Duration::from_millis(200);
/// After our half of a connection broke, the other half may still hold frames that arrived before.
const DRAIN: Duration = Duration::from_secs(1);

/// What the edges of one peer know together.
#[derive(Default)]
pub(super) struct Presence {
    /// It was reported gone, and has not been connected since.
    gone: AtomicBool,
    /// Edges that are up.
    up: AtomicUsize,
}

/// One edge's task.
pub(super) struct Edge {
    pub(super) line: Arc<Line>,
    pub(super) credentials: Credentials,
    /// The run.
    pub(super) digest: [u8; 32],
    /// Where the peer listens on this graph.
    pub(super) place: Place,
    /// Where it must refuse connections to count as gone: its private address, if we know it.
    pub(super) probe: Place,
    /// Shared with the peer's edge on the other graph.
    pub(super) presence: Arc<Presence>,
    pub(super) dial_patience: Duration,
    pub(super) commands: mpsc::Sender<SwarmCommand>,
    pub(super) link: watch::Receiver<Link>,
    pub(super) arrivals: mpsc::Receiver<Arrival>,
    pub(super) reports: Reports,
    /// It was connected, and we have not found it gone since.
    pub(super) lost: bool,
    /// Everybody is known to have been up: one that refuses connections now is gone, even if this
    /// edge has never been.
    pub(super) begun: watch::Receiver<bool>,
    /// What was reported last: the same offence is reported once, however often the peer tries
    /// again.
    pub(super) reported: Option<Offence>,
    /// It was reported that the peer has no such run.
    pub(super) absent: bool,
}

/// One attempt to get further while the edge is down.
enum Attempt {
    Opened(Lane, Result<(), HelloError>),
    NotOpened(String),
    Unanswered(ConnectionId),
    Refused,
    Dialled,
    Nowhere,
}

/// How a conversation ended.
enum Ending {
    /// The peer has closed a stream.
    Closed,
    /// Something is wrong.
    Broken,
    /// The peer has opened another stream.
    StartedOver(Lane),
}

/// Doubling pauses.
struct Pause(Duration);

impl Pause {
    fn next(&mut self) -> Instant {
        let now = self.0;
        self.0 = (self.0 * 2).min(PAUSE_LIMIT);
        Instant::now() + now
    }
}

impl Edge {
    /// Runs until the network shuts down.
    pub(super) async fn run(mut self) {
        let mut inward = None;
        while !self.reports.shutting_down() {
            let Some((outward, accepted)) = self.establish(inward.take()).await else {
                return;
            };
            inward = self.converse(outward, accepted).await;
        }
    }

    fn first_pause(&self) -> Pause {
        Pause(if self.is_missed() {
            PAUSE_AFTER_LOSS
        } else {
            PAUSE_AT_START
        })
    }

    /// Whether a refused connection means that the peer is gone, not that it has not started yet.
    fn is_missed(&self) -> bool {
        self.lost || *self.begun.borrow()
    }

    /// Gets a stream each way, or `None` at shutdown. `inward`: a stream that the peer has opened
    /// already.
    async fn establish(&mut self, mut inward: Option<Lane>) -> Option<(Lane, Lane)> {
        let mut outward = None;
        let mut attempt = JoinSet::new();
        let mut opening_on = None;
        let mut pause = self.first_pause();
        let mut next = Instant::now();
        let mut halfway = next;
        let mut link = self.link.borrow_and_update().clone();
        let mut attempted = link.changes;
        let mut begun = self.begun.clone();
        let mut begins = !*begun.borrow_and_update();
        loop {
            if let (Some(_), Some(_)) = (&outward, &inward) {
                return outward.zip(inward);
            }
            tokio::select! {
                () = self.reports.shutdown() => return None,
                _ = begun.changed(), if begins => {
                    begins = false;
                    pause = self.first_pause();
                    if link.best.is_none() {
                        attempt.abort_all();
                    }
                    next = Instant::now();
                }
                changed = self.link.changed() => {
                    changed.ok()?;
                    let before = std::mem::replace(&mut link, self.link.borrow_and_update().clone());
                    let is_live = |lane: &Lane| link.live.contains(&lane.stay.connection);
                    outward = outward.filter(is_live);
                    inward = inward.filter(is_live);
                    if opening_on.is_some_and(|connection| !link.live.contains(&connection)) {
                        attempt.abort_all();
                    }
                    if link.best.is_none() {
                        next = pause.next();
                    } else if link.best != before.best {
                        pause = self.first_pause();
                        next = Instant::now();
                    }
                }
                Some(arrival) = self.arrivals.recv() => match arrival {
                    Arrival::Stream(lane) => {
                        // Now the peer has this run, if it had not before.
                        if inward.replace(lane).is_none() {
                            pause = self.first_pause();
                            next = Instant::now();
                        }
                    }
                    Arrival::Offence(offence) => self.report(offence).await,
                },
                Some(done) = attempt.join_next() => match done {
                    Ok(Attempt::Opened(lane, result)) => {
                        opening_on = None;
                        match self.opened(lane, result).await {
                            Some(lane) if link.live.contains(&lane.stay.connection) => {
                                halfway = Instant::now() + 4 * self.credentials.patience;
                                outward = Some(lane);
                            }
                            _ => next = pause.next(),
                        }
                    }
                    Ok(Attempt::NotOpened(error)) => {
                        opening_on = None;
                        debug!(graph = %self.line.graph, peer = %self.line.peer, error, "stream not opened");
                        next = pause.next();
                    }
                    Ok(Attempt::Unanswered(connection)) => {
                        opening_on = None;
                        debug!(graph = %self.line.graph, peer = %self.line.peer, "no stream in time");
                        self.unanswered(connection).await;
                        next = pause.next();
                    }
                    Ok(other) => {
                        if matches!(other, Attempt::Refused) {
                            self.mourn().await;
                        }
                        next = match other {
                            _ if link.best.is_some() => Instant::now(),
                            // The swarm says how the dial went, perhaps it has already; this is
                            // only in case it does not.
                            Attempt::Dialled if link.changes == attempted => Instant::now() + self.dial_patience + PAUSE_LIMIT,
                            Attempt::Dialled => next,
                            _ => pause.next(),
                        };
                    }
                    // Aborted because the connection it was made for is gone.
                    Err(_) => opening_on = None,
                },
                () = sleep_until(next), if attempt.is_empty() && outward.is_none() => {
                    attempted = link.changes;
                    opening_on = link.best;
                    match link.best {
                        Some(connection) => attempt.spawn(self.opening(connection)),
                        None => attempt.spawn(self.reaching(pause.0 >= OUR_TURN)),
                    };
                }
                () = ended(&mut outward) => {
                    outward = None;
                    next = pause.next();
                }
                () = sleep_until(halfway), if outward.is_some() => {
                    if let Some(lane) = outward.take() {
                        self.broken(lane.stay.connection).await;
                    }
                    next = pause.next();
                }
            }
        }
    }

    /// What became of a stream of ours. `None`: nothing.
    async fn opened(&mut self, lane: Lane, result: Result<(), HelloError>) -> Option<Lane> {
        let connection = lane.stay.connection;
        let proved = result.as_ref().map_or_else(HelloError::proves, |()| true);
        if proved {
            let _ = self
                .commands
                .send(SwarmCommand::Proved {
                    peer: self.line.peer,
                    connection,
                })
                .await;
        }
        let error = match result {
            Ok(()) => return Some(lane),
            Err(error) => error,
        };
        drop(lane);
        match error {
            // It may be taking its leave on one graph before the other.
            HelloError::Absent if self.presence.up.load(Ordering::Relaxed) > 0 => {}
            HelloError::Absent if self.is_missed() => self.mourn().await,
            HelloError::Absent => self.absent().await,
            HelloError::Offence(offence) => {
                self.report(offence).await;
                if !proved {
                    // Somebody else is where the peer should be.
                    self.unanswered(connection).await;
                }
            }
            HelloError::Io(error) => {
                debug!(graph = %self.line.graph, peer = %self.line.peer, %error, "no hello");
                // A stream that the peer closed is no silence: it may be starting over on this very
                // connection.
                if error.kind() == ErrorKind::TimedOut {
                    self.unanswered(connection).await;
                }
            }
        }
        None
    }

    /// Carries frames until the edge breaks; returns the stream of a peer that has started over
    /// meanwhile.
    async fn converse(&mut self, outward: Lane, inward: Lane) -> Option<Lane> {
        let (graph, peer) = (self.line.graph, self.line.peer);
        self.line.count_sent(hello::OPENER_BYTES + hello::ACCEPTOR_BYTES);
        self.line.queue.set_edge_is_up(true);
        self.presence.gone.store(false, Ordering::Relaxed);
        self.presence.up.fetch_add(1, Ordering::Relaxed);
        self.lost = true;
        self.reported = None;
        self.absent = false;
        self.reports.tell(NetworkEvent::Connected { graph, peer }).await;

        let stays = [outward.stay, inward.stay];
        let mut tasks = JoinSet::new();
        let (line, reports) = (self.line.clone(), self.reports.clone());
        tasks.spawn(async move { (true, session::write_frames(outward.stream, &line, &reports).await) });
        let (line, reports) = (self.line.clone(), self.reports.clone());
        tasks.spawn(async move { (false, session::read_frames(inward.stream, &line, &reports).await) });

        let ending = self.attend(&mut tasks).await;
        tasks.shutdown().await;
        self.presence.up.fetch_sub(1, Ordering::Relaxed);
        self.line.queue.set_edge_is_up(false);
        self.reports
            .tell(NetworkEvent::Disconnected { graph, peer })
            .await;
        let connections = stays.map(|stay| stay.connection);
        match ending {
            Ending::Closed => None,
            Ending::Broken => {
                self.broken(connections[0]).await;
                self.broken(connections[1]).await;
                None
            }
            Ending::StartedOver(lane) => Some(lane),
        }
    }

    /// Waits until one of the two tasks says that the edge is broken, or a new stream proves that
    /// the peer started over.
    async fn attend(&mut self, tasks: &mut JoinSet<(bool, End)>) -> Ending {
        loop {
            tokio::select! {
                Some(done) = tasks.join_next() => {
                    let (writer, end) = done.unwrap_or_else(|error| (true, End::Broken(std::io::Error::other(error))));
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
                    return ending;
                }
                () = self.line.queue.overflowed() => {
                    let offence = self.line.queue.clear();
                    self.report(offence).await;
                    return Ending::Broken;
                }
                Some(arrival) = self.arrivals.recv() => match arrival {
                    Arrival::Stream(lane) => return Ending::StartedOver(lane),
                    Arrival::Offence(offence) => self.report(offence).await,
                },
            }
        }
    }

    fn opening(&self, connection: ConnectionId) -> impl Future<Output = Attempt> + use<> {
        let (commands, credentials, digest) = (self.commands.clone(), self.credentials.clone(), self.digest);
        async move {
            let (answer, opened) = oneshot::channel();
            let _ = commands
                .send(SwarmCommand::Open {
                    peer: credentials.peer,
                    connection,
                    protocol: STREAM,
                    answer,
                })
                .await;
            match timeout(credentials.patience, opened).await {
                Ok(Ok(Ok(mut lane))) => {
                    let result = hello::open(&mut lane.stream, &credentials, digest).await;
                    Attempt::Opened(lane, result)
                }
                Ok(Ok(Err(error))) => Attempt::NotOpened(error),
                Ok(Err(_)) => Attempt::NotOpened("the connection is gone".to_owned()),
                Err(_) => Attempt::Unanswered(connection),
            }
        }
    }

    /// Looks whether a lost peer is gone, and dials it if that is our part: the lower peer id
    /// dials, so that two peers never dial each other at the same time while they come up.
    fn reaching(&self, our_turn: bool) -> impl Future<Output = Attempt> + use<> {
        let (place, probe, commands) = (self.place.clone(), self.probe.clone(), self.commands.clone());
        let (peer, missed, patience) = (self.line.peer, self.is_missed(), self.dial_patience);
        let ours = self.credentials.key.public().to_peer_id();
        async move {
            if missed && probe.refuses(patience).await {
                return Attempt::Refused;
            }
            if ours > peer && !(missed && our_turn) {
                return Attempt::Nowhere;
            }
            let addresses: Vec<Multiaddr> = match timeout(patience, place.resolve()).await {
                Ok(Ok(found)) => found.into_iter().map(address::to_multiaddr).collect(),
                _ => Vec::new(),
            };
            if addresses.is_empty() {
                debug!(%peer, %place, "address not found");
                return Attempt::Nowhere;
            }
            let _ = commands.send(SwarmCommand::Dial { peer, addresses }).await;
            Attempt::Dialled
        }
    }

    /// The peer's address refuses connections after a loss, or the peer says that the run is none
    /// of its own any more. What waits for it is dropped.
    async fn mourn(&mut self) {
        self.lost = false;
        self.line.queue.clear();
        if !self.presence.gone.swap(true, Ordering::Relaxed) {
            self.reports
                .tell(NetworkEvent::Gone { peer: self.line.peer })
                .await;
        }
    }

    async fn absent(&mut self) {
        if !std::mem::replace(&mut self.absent, true) {
            self.reports
                .tell(NetworkEvent::Absent {
                    graph: self.line.graph,
                    peer: self.line.peer,
                })
                .await;
        }
    }

    async fn report(&mut self, offence: Offence) {
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

    async fn unanswered(&self, connection: ConnectionId) {
        let _ = self
            .commands
            .send(SwarmCommand::Unanswered {
                peer: self.line.peer,
                connection,
            })
            .await;
    }

    async fn broken(&self, connection: ConnectionId) {
        let _ = self
            .commands
            .send(SwarmCommand::Broken {
                peer: self.line.peer,
                connection,
            })
            .await;
    }
}

/// Resolves once the peer has closed a stream that we opened, on which it never writes.
async fn ended(outward: &mut Option<Lane>) {
    match outward {
        Some(lane) => drop(lane.stream.read(&mut [0]).await),
        None => std::future::pending().await,
    }
}
