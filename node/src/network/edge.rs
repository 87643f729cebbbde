//! One edge: keeps two streams to one peer on one graph, one each way, and says when they come and go.
//!
//! ```text
//! establish: dial (lower peer id) or wait → open a stream, accept one → both hellos done
//! converse:  frames both ways until either stream ends → close the connection → establish
//! ```

use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use libp2p::{Multiaddr, PeerId, Stream, swarm::ConnectionId};
use libp2p_stream::Control;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tracing::debug;

use super::{
    Graph, NetworkEvent, Offence, Reports,
    address::{self, Place},
    hello::{self, Credentials, HelloError},
    queue::Queue,
    session::{self, End},
    swarm::{Command, Link, STREAM},
};

/// First pause between attempts while peers come up.
const PAUSE_AT_START: Duration = Duration::from_millis(50);
/// First pause after a loss: a dying process closes its sockets one by one, its listener within a moment.
const PAUSE_AFTER_LOSS: Duration = Duration::from_millis(5);
/// Longest pause between attempts.
const PAUSE_LIMIT: Duration = Duration::from_secs(1);
/// Streams of one peer whose hellos are checked at the same time; more are dropped.
const EXAMINED_AT_ONCE: usize = 4;
/// After our half of a connection broke, the other half may still hold frames that arrived before.
const DRAIN: Duration = Duration::from_secs(1);

/// What the edge shares with the handle and with its own tasks.
pub(super) struct Line {
    pub(super) graph: Graph,
    pub(super) peer: PeerId,
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

/// One edge's task.
pub(super) struct Edge {
    pub(super) line: Arc<Line>,
    pub(super) credentials: Credentials,
    /// Where the peer listens on this graph.
    pub(super) place: Place,
    /// Where it must refuse connections to count as gone: its private address, if we know it.
    pub(super) probe: Place,
    /// The peer was reported gone, and has not been connected since. Shared by its edges on both graphs.
    pub(super) gone: Arc<AtomicBool>,
    pub(super) dial_patience: Duration,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) control: Control,
    pub(super) link: watch::Receiver<Link>,
    pub(super) inbound: mpsc::Receiver<Stream>,
    pub(super) reports: Reports,
    pub(super) examined: JoinSet<(Stream, Result<(), HelloError>)>,
    /// It was connected, and we have not found it gone since.
    pub(super) lost: bool,
    /// Everybody is known to have been up: one that refuses connections now is gone, even if this edge has never been.
    pub(super) begun: watch::Receiver<bool>,
    /// What was reported last: the same offence is reported once, however often the peer tries again.
    pub(super) reported: Option<Offence>,
}

/// One attempt to get further while the edge is down.
enum Attempt {
    Opened(Stream, Result<(), HelloError>),
    NotOpened(String),
    Unanswered,
    Refused,
    Dialled,
    Nowhere,
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
            let Some((outward, accepted)) = self.establish(inward.take()).await else { return };
            inward = self.converse(outward, accepted).await;
        }
    }

    fn first_pause(&self) -> Pause {
        Pause(if self.is_missed() { PAUSE_AFTER_LOSS } else { PAUSE_AT_START })
    }

    /// Whether a refused connection means that the peer is gone, not that it has not started yet.
    fn is_missed(&self) -> bool {
        self.lost || *self.begun.borrow()
    }

    /// Gets a stream each way, or `None` at shutdown. `inward`: a stream that the peer has opened already. A connection on which nobody
    /// answers is closed: on the public graph anybody can make one in the peer's name and would keep the peer itself out.
    async fn establish(&mut self, mut inward: Option<Stream>) -> Option<(Stream, Stream)> {
        let mut outward = None;
        let mut attempt = JoinSet::new();
        let mut pause = self.first_pause();
        let mut next = Instant::now();
        let mut halfway = next;
        let mut link = *self.link.borrow_and_update();
        let mut attempted = link;
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
                    if link.live == 0 {
                        attempt.abort_all();
                        next = Instant::now();
                    }
                }
                changed = self.link.changed() => {
                    changed.ok()?;
                    let before = std::mem::replace(&mut link, *self.link.borrow_and_update());
                    if link.live == 0 {
                        (outward, inward) = (None, None);
                    }
                    if link.live == 0 && before.live > 0 {
                        attempt.abort_all();
                        next = pause.next();
                    } else if link.newest != before.newest {
                        pause = self.first_pause();
                        next = Instant::now();
                    } else if link.failed_dials != before.failed_dials {
                        next = pause.next();
                    }
                }
                Some(stream) = self.inbound.recv() => self.examine(stream),
                Some(Ok((stream, result))) = self.examined.join_next() => match result {
                    Ok(()) => inward = Some(stream),
                    Err(error) => {
                        drop(stream);
                        self.blame(error).await;
                    }
                },
                Some(done) = attempt.join_next() => match done {
                    Ok(Attempt::Opened(stream, Ok(()))) => {
                        halfway = Instant::now() + 4 * self.credentials.patience;
                        outward = Some(stream);
                    }
                    Ok(Attempt::Opened(_, Err(error))) => {
                        // A stream that the peer closed is no silence: it may be starting over on this very connection.
                        let silent = matches!(&error, HelloError::Io(error) if error.kind() == ErrorKind::TimedOut);
                        self.blame(error).await;
                        if silent {
                            self.close_connections(link.newest).await;
                        }
                        next = pause.next();
                    }
                    Ok(Attempt::NotOpened(error)) => {
                        debug!(graph = %self.line.graph, peer = %self.line.peer, error, "stream not opened");
                        next = pause.next();
                    }
                    Ok(Attempt::Unanswered) => {
                        debug!(graph = %self.line.graph, peer = %self.line.peer, "no stream in time");
                        self.close_connections(link.newest).await;
                        next = pause.next();
                    }
                    Ok(other) => {
                        if matches!(other, Attempt::Refused) {
                            self.mourn().await;
                        }
                        next = match other {
                            _ if link.live > 0 => Instant::now(),
                            // The swarm says how the dial went, perhaps it has already; this is only in case it does not.
                            Attempt::Dialled if link == attempted => Instant::now() + self.dial_patience + PAUSE_LIMIT,
                            Attempt::Dialled => next,
                            _ => pause.next(),
                        };
                    }
                    // Aborted because the connection it was made for is gone.
                    Err(_) => {}
                },
                () = sleep_until(next), if attempt.is_empty() && outward.is_none() => {
                    attempted = link;
                    if link.live > 0 {
                        attempt.spawn(self.opening());
                    } else {
                        attempt.spawn(self.reaching());
                    }
                }
                () = sleep_until(halfway), if outward.is_some() => {
                    outward = None;
                    self.close_connections(link.newest).await;
                }
            }
        }
    }

    /// Carries frames until the edge breaks; returns the stream of a peer that has started over meanwhile.
    async fn converse(&mut self, outward: Stream, inward: Stream) -> Option<Stream> {
        let newest = self.link.borrow().newest;
        let (graph, peer) = (self.line.graph, self.line.peer);
        self.line.count_sent(hello::OPENER_BYTES + hello::ACCEPTOR_BYTES);
        self.line.queue.set_edge_is_up(true);
        self.gone.store(false, Ordering::Relaxed);
        self.lost = true;
        self.reported = None;
        self.reports.tell(NetworkEvent::Connected { graph, peer }).await;

        let mut tasks = JoinSet::new();
        let (line, reports) = (self.line.clone(), self.reports.clone());
        tasks.spawn(async move { (true, session::write_frames(outward, &line, &reports).await) });
        let (line, reports) = (self.line.clone(), self.reports.clone());
        tasks.spawn(async move { (false, session::read_frames(inward, &line, &reports).await) });

        let fresh = self.attend(&mut tasks, newest).await;
        tasks.shutdown().await;
        self.line.queue.set_edge_is_up(false);
        self.reports.tell(NetworkEvent::Disconnected { graph, peer }).await;
        self.close_connections(newest).await;
        fresh
    }

    /// Waits until one of the two tasks says that the edge is broken, or a new stream proves that the peer started over.
    async fn attend(&mut self, tasks: &mut JoinSet<(bool, End)>, newest: Option<ConnectionId>) -> Option<Stream> {
        loop {
            tokio::select! {
                Some(done) = tasks.join_next() => {
                    let (writer, end) = done.unwrap_or_else(|error| (true, End::Broken(std::io::Error::other(error))));
                    match end {
                        End::Closed => {}
                        End::Broken(error) => {
                            debug!(graph = %self.line.graph, peer = %self.line.peer, writer, %error, "stream broke");
                        }
                        End::Offence(offence) => {
                            self.report(offence).await;
                            return None;
                        }
                    }
                    if !writer && self.reports.shutting_down() {
                        continue; // our last frames are still on their way
                    }
                    if writer && !self.reports.shutting_down() {
                        let _ = timeout(DRAIN, tasks.join_next()).await;
                    }
                    return None;
                }
                () = self.line.queue.overflowed() => {
                    let offence = self.line.queue.clear();
                    self.report(offence).await;
                    return None;
                }
                Some(stream) = self.inbound.recv() => self.examine(stream),
                Some(Ok((stream, result))) = self.examined.join_next() => match result {
                    Ok(()) => return Some(stream),
                    Err(error) => {
                        drop(stream);
                        self.blame(error).await;
                        // The edge is up, so whoever came later and cannot say hello is not the peer.
                        let _ = self.commands.send(Command::CloseAfter { peer: self.line.peer, last: newest }).await;
                    }
                },
            }
        }
    }

    fn examine(&mut self, mut stream: Stream) {
        if self.examined.len() < EXAMINED_AT_ONCE {
            let credentials = self.credentials.clone();
            self.examined.spawn(async move {
                let result = hello::accept(&mut stream, &credentials).await;
                (stream, result)
            });
        }
    }

    fn opening(&self) -> impl Future<Output = Attempt> + use<> {
        let (mut control, credentials) = (self.control.clone(), self.credentials.clone());
        async move {
            match timeout(credentials.patience, control.open_stream(credentials.peer, STREAM)).await {
                Ok(Ok(mut stream)) => {
                    let result = hello::open(&mut stream, &credentials).await;
                    Attempt::Opened(stream, result)
                }
                Ok(Err(error)) => Attempt::NotOpened(error.to_string()),
                Err(_) => Attempt::Unanswered,
            }
        }
    }

    /// Looks whether a lost peer is gone, and dials it if that is our part: the lower peer id dials, so that two peers
    /// never dial each other at the same time.
    fn reaching(&self) -> impl Future<Output = Attempt> + use<> {
        let (place, probe, commands) = (self.place.clone(), self.probe.clone(), self.commands.clone());
        let (peer, missed, patience) = (self.line.peer, self.is_missed(), self.dial_patience);
        let ours = self.credentials.key.public().to_peer_id();
        async move {
            if missed && probe.refuses(patience).await {
                return Attempt::Refused;
            }
            if ours > peer {
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
            let _ = commands.send(Command::Dial { peer, addresses }).await;
            Attempt::Dialled
        }
    }

    /// The peer's address refuses connections after a loss. What waits for it is dropped.
    async fn mourn(&mut self) {
        self.lost = false;
        self.line.queue.clear();
        if !self.gone.swap(true, Ordering::Relaxed) {
            self.reports.tell(NetworkEvent::Gone { peer: self.line.peer }).await;
        }
    }

    async fn blame(&mut self, error: HelloError) {
        match error {
            HelloError::Offence(offence) => self.report(offence).await,
            HelloError::Io(error) => {
                debug!(graph = %self.line.graph, peer = %self.line.peer, %error, "no hello");
            }
        }
    }

    async fn report(&mut self, offence: Offence) {
        if self.reported.as_ref() != Some(&offence) {
            self.reported = Some(offence.clone());
            let (graph, peer) = (self.line.graph, Some(self.line.peer));
            self.reports.tell(NetworkEvent::Offence { graph, peer, address: None, offence }).await;
        }
    }

    async fn close_connections(&self, last: Option<ConnectionId>) {
        let _ = self.commands.send(Command::CloseThrough { peer: self.line.peer, last }).await;
    }
}
