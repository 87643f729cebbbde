//! An edge that is down: attempts, with pauses between them, until there is a stream each way.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::AsyncReadExt;
use libp2p::swarm::ConnectionId;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use crate::network::command::SwarmCommand;
use crate::network::dial_fault::DialFault;
use crate::network::edge::state::Edge;
use crate::network::hello::{self, HelloError};
use crate::network::lane::{Lane, NotOpened};
use crate::network::peer_table::{Arrival, Link};

/// First pause between attempts while peers come up.
const PAUSE_AT_START: Duration = Duration::from_millis(50);
/// First pause after a loss: a dying process closes its sockets one by one, its listener within a
/// moment.
const PAUSE_AFTER_LOSS: Duration = Duration::from_millis(5);
/// Longest pause between attempts.
const PAUSE_LIMIT: Duration = Duration::from_secs(1);
/// Once pauses are this long, a peer that does not come is asked whether it refuses connections.
const PROBED: Duration = Duration::from_millis(200);
/// The higher peer id dials once the edge has been down for this long: the lower one may be where
/// nobody can dial from, or have started anew without this run and have no reason to dial.
const OUR_TURN: Duration = Duration::from_secs(1);
/// A peer without an address that can dial us is looked for at relays once the edge has been down
/// for this long: over a relay it costs somebody else's bandwidth, for as long as the run lasts.
/// Our guess: with all machines up it dials within a second.
const DIRECT_FIRST: Duration = Duration::from_secs(3);
/// A peer that dialled us, and whose address refused connections while it was there, is gone if it
/// does not dial again for this long. Our guess: it dials within a second of its loss.
const RETURN: Duration = Duration::from_secs(5);

/// Nothing answers for a peer after so many dials in a row that came to nothing. Our choice: one
/// may meet a machine that is busy for as long as a dial may take.
const IN_VAIN: u32 = 2;

/// How an attempt to get further ended while the edge is down.
enum Attempt {
    /// A stream is open, and this came of the hello on it.
    Opened(Box<Lane>, Result<(), HelloError>),
    /// There is a connection, and no stream on it.
    NotOpened(NotOpened),
    /// On this connection nobody opened the stream in time.
    Unanswered(ConnectionId),
    /// The peer's address refuses connections.
    Refused,
    /// The swarm dials, and says how it went by changing the link.
    Dialled,
    /// It is the peer that dials.
    Nowhere,
    /// Its names stand for no address now, or no relay can be asked for it.
    Unknown(DialFault),
    /// All relays that answer say that it is not there.
    Absent,
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

/// An edge that is down, with what it has so far.
pub(super) struct Establishing<'a> {
    edge: &'a mut Edge,
    /// A stream that we have opened.
    outward: Option<Lane>,
    /// A stream that the peer has opened.
    inward: Option<Lane>,
    /// At most one at a time.
    attempt: JoinSet<Attempt>,
    /// The connection on which the attempt opens a stream.
    opening_on: Option<ConnectionId>,
    pause: Pause,
    /// When to make the next attempt.
    next: Instant,
    /// When the edge went down.
    since: Instant,
    /// Until when the peer must have opened its stream once ours is open.
    halfway: Instant,
    link: Link,
    /// How often the link had changed when the attempt was made.
    attempted: u64,
    /// How often an edge of the peer had come up when the attempt was made.
    comings: u64,
    begun: watch::Receiver<bool>,
    /// The news that everybody is up is still to come.
    begins: bool,
    /// Since when everybody has been known to be up and this peer has not been here.
    missed: Option<Instant>,
}

impl<'a> Establishing<'a> {
    /// Begins with the stream that the peer has opened already, if there is one.
    pub(super) fn new(edge: &'a mut Edge, inward: Option<Lane>) -> Establishing<'a> {
        let now = Instant::now();
        let link = edge.ways.link();
        let mut begun = edge.begun.clone();
        let begins = !*begun.borrow_and_update();
        Establishing {
            outward: None,
            inward: inward.filter(|lane| link.live.contains(&lane.stay.connection)),
            since: now,
            attempt: JoinSet::new(),
            opening_on: None,
            pause: first_pause(edge),
            next: now,
            halfway: now,
            attempted: link.changes,
            comings: edge.presence.comings.load(Ordering::Relaxed),
            link,
            begun,
            begins,
            missed: (!begins).then_some(now),
            edge,
        }
    }

    /// Gets a stream each way on one connection, ours first, or `None` at shutdown.
    pub(super) async fn run(mut self) -> Option<(Lane, Lane)> {
        loop {
            let plain_until = self.edge.ways.plain_until();
            self.agree();
            if self.outward.is_some() && self.inward.is_some() {
                return self.outward.zip(self.inward);
            }
            tokio::select! {
                () = self.edge.reports.shutdown() => return None,
                _ = self.begun.changed(), if self.begins => self.on_begun(),
                changed = self.edge.ways.changed() => {
                    if !changed {
                        return None;
                    }
                    self.on_link();
                    self.tell_in_vain().await;
                }
                () = until(plain_until) => {
                    // No plain connection has come: the encrypted one will do.
                    self.attempt.abort_all();
                    self.opening_on = None;
                    self.on_link();
                    self.try_at_once();
                }
                Some(arrival) = self.edge.arrivals.recv() => self.on_arrival(arrival).await,
                Some(done) = self.attempt.join_next() => self.on_attempt(done).await,
                () = sleep_until(self.next), if self.attempt.is_empty() && self.outward.is_none() => {
                    self.begin_attempt();
                }
                () = ended(&mut self.outward) => {
                    self.outward = None;
                    self.try_later();
                }
                () = sleep_until(self.halfway), if self.outward.is_some() => {
                    if let Some(lane) = self.outward.take() {
                        self.edge.broken(lane.stay.connection).await;
                    }
                    self.try_later();
                }
            }
        }
    }

    /// Where the two ends have opened streams on different connections, the lower peer id's stays,
    /// and the higher opens another one there.
    fn agree(&mut self) {
        let Some(theirs) = self.inward.as_ref().map(|lane| lane.stay.connection) else {
            return;
        };
        let other = |ours: ConnectionId| ours != theirs;
        let apart = self
            .outward
            .as_ref()
            .is_some_and(|lane| other(lane.stay.connection));
        if self.edge.leads() {
            if apart {
                self.inward = None;
            }
        } else if apart || self.opening_on.is_some_and(other) {
            self.outward = None;
            self.attempt.abort_all();
            self.opening_on = None;
            self.try_at_once();
        }
    }

    /// After the next pause, which is longer than the one before, or when our turn to dial comes.
    fn try_later(&mut self) {
        self.next = self.pause.next();
        let turn = self.since + OUR_TURN;
        if !self.edge.leads() && Instant::now() < turn {
            self.next = self.next.min(turn);
        }
    }

    /// Something is new, so that earlier failures count no more.
    fn try_at_once(&mut self) {
        self.pause = first_pause(self.edge);
        self.next = Instant::now();
    }

    /// From now on a refused connection means something else: whoever dials looks again.
    fn on_begun(&mut self) {
        self.begins = false;
        self.missed = Some(Instant::now());
        if self.link.best.is_none() {
            self.attempt.abort_all();
        }
        self.try_at_once();
    }

    /// Connections came or went, or a dial came to nothing.
    fn on_link(&mut self) {
        let link = self.edge.ways.link();
        let before = std::mem::replace(&mut self.link, link);
        let live = &self.link.live;
        let is_live = |lane: &Lane| live.contains(&lane.stay.connection);
        self.outward = self.outward.take().filter(is_live);
        self.inward = self.inward.take().filter(is_live);
        if self
            .opening_on
            .is_some_and(|connection| !live.contains(&connection))
        {
            self.attempt.abort_all();
        }
        if self.link.best.is_some() && self.opening_on.is_none() {
            // There is a connection: whatever is asked of the address, nobody waits for it.
            self.attempt.abort_all();
        }
        if self.link.best.is_none() {
            self.try_later();
        } else if self.link.best != before.best {
            self.try_at_once();
        }
    }

    /// Reports a peer that so many dials have not reached.
    async fn tell_in_vain(&mut self) {
        if let (true, Some(fault)) = (self.link.in_vain >= IN_VAIN, self.link.fault.clone()) {
            self.in_vain(fault).await;
        }
    }

    /// While all come up at once, the first attempts meet others that are not ready yet.
    async fn in_vain(&mut self, fault: DialFault) {
        if self.since.elapsed() >= self.edge.dial_patience {
            self.edge.dialled_in_vain(fault).await;
        }
    }

    async fn on_arrival(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Stream(lane) => {
                // Now the peer has this run, if it had not before.
                if self.inward.replace(lane).is_none() {
                    self.try_at_once();
                }
            }
            Arrival::Offence(offence) => self.edge.report(offence).await,
        }
    }

    fn begin_attempt(&mut self) {
        // Whatever changed is seen here, and by nobody after.
        self.link = self.edge.ways.link();
        let live = &self.link.live;
        self.inward = self
            .inward
            .take()
            .filter(|lane| live.contains(&lane.stay.connection));
        self.attempted = self.link.changes;
        self.comings = self.edge.presence.comings.load(Ordering::Relaxed);
        let theirs = self.inward.as_ref().map(|lane| lane.stay.connection);
        self.opening_on = theirs.or(self.link.best);
        match self.opening_on {
            Some(connection) => self.attempt.spawn(opening(self.edge, connection)),
            None => {
                let our_turn = self.edge.leads() || self.since.elapsed() >= OUR_TURN;
                let probes = self.edge.is_missed() || self.pause.0 >= PROBED;
                self.attempt
                    .spawn(reaching(self.edge, probes, our_turn, self.since))
            }
        };
    }

    async fn on_attempt(&mut self, done: Result<Attempt, JoinError>) {
        self.opening_on = None;
        // Aborted when the connection that it was made for is gone.
        let Ok(attempt) = done else { return };
        let (graph, peer) = (self.edge.line.graph, self.edge.line.peer);
        match attempt {
            Attempt::Opened(lane, result) => {
                let lane = self.edge.opened(*lane, result).await;
                self.outward = lane.filter(|lane| self.link.live.contains(&lane.stay.connection));
                if self.outward.is_some() {
                    self.halfway = Instant::now() + 4 * self.edge.credentials.patience;
                } else {
                    self.try_later();
                }
            }
            Attempt::NotOpened(error) => {
                debug!(%graph, %peer, %error, "stream not opened");
                self.try_later();
            }
            Attempt::Unanswered(connection) => {
                debug!(%graph, %peer, "no stream in time");
                self.edge.unanswered(connection).await;
                self.try_later();
            }
            // Its other edge has come up meanwhile: it refused before it was there.
            Attempt::Refused if self.comings != self.edge.presence.comings.load(Ordering::Relaxed) => {
                self.after_reaching(false);
            }
            Attempt::Refused => {
                if self.edge.is_missed() {
                    let leads_there = self.edge.presence.reached.load(Ordering::Relaxed);
                    if leads_there || self.is_away_for_long() {
                        self.edge.mourn().await;
                    }
                } else {
                    self.edge.refused().await;
                }
                self.after_reaching(false);
            }
            Attempt::Absent if self.edge.is_missed() => {
                if self.edge.lost || self.is_away_for_long() {
                    self.edge.mourn().await;
                }
                self.after_reaching(false);
            }
            Attempt::Dialled => {
                self.mourn_if_away().await;
                self.after_reaching(true);
            }
            Attempt::Nowhere | Attempt::Absent => {
                self.mourn_if_away().await;
                self.after_reaching(false);
            }
            Attempt::Unknown(fault) => {
                self.mourn_if_away().await;
                self.in_vain(fault).await;
                self.after_reaching(false);
            }
        }
    }

    /// One that we cannot ask whether it is there is gone if it has been away for long.
    async fn mourn_if_away(&mut self) {
        let leads_there = self.edge.presence.reached.load(Ordering::Relaxed);
        let away = self.link.best.is_none() && self.is_away_for_long();
        if self.edge.is_missed() && !leads_there && away {
            self.edge.mourn().await;
        }
    }

    /// Whether the peer has had time to dial us, since this edge was lost or all were known to have
    /// been up. All may have been up before this edge was: others carry what says so. One that
    /// nobody can dial is not gone because it has not dialled yet.
    fn is_away_for_long(&self) -> bool {
        let since = self.missed.map_or(self.since, |missed| missed.max(self.since));
        since.elapsed() >= RETURN
    }

    /// When to go on after an attempt to get a connection.
    fn after_reaching(&mut self, dialled: bool) {
        if self.link.best.is_some() {
            self.next = Instant::now();
        } else if !dialled {
            self.try_later();
        } else if self.link.changes == self.attempted {
            // The swarm says how the dial went; this is only in case it does not.
            self.next = Instant::now() + self.edge.dial_patience + PAUSE_LIMIT;
        }
        // Else it has said so already, and the next attempt is due when the pause after that ends.
    }
}

fn first_pause(edge: &Edge) -> Pause {
    Pause(if edge.is_missed() {
        PAUSE_AFTER_LOSS
    } else {
        PAUSE_AT_START
    })
}

impl Edge {
    /// The fate of a stream of ours. `None`: nothing.
    async fn opened(&mut self, lane: Lane, result: Result<(), HelloError>) -> Option<Lane> {
        let connection = lane.stay.connection;
        let proved = result.as_ref().map_or_else(HelloError::proves, |()| true);
        if proved {
            let peer = self.line.peer;
            let command = || SwarmCommand::Proved { peer, connection };
            self.ways.command(connection, command).await;
        }
        let error = match result {
            Ok(()) => return Some(lane),
            Err(error) => error,
        };
        drop(lane);
        match error {
            // It may be taking its leave on one graph before the other.
            HelloError::Absent | HelloError::Declined if self.presence.up.load(Ordering::Relaxed) > 0 => {}
            HelloError::Absent | HelloError::Declined if self.is_missed() => self.mourn().await,
            HelloError::Absent => self.absent().await,
            HelloError::Declined => self.declined().await,
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
}

/// Opens a stream on this connection, and says hello on it.
fn opening(edge: &Edge, connection: ConnectionId) -> impl Future<Output = Attempt> + use<> {
    let way = edge.ways.of(connection);
    let way = way.map(|way| (way.carrier.clone(), way.protocol.clone()));
    let (credentials, digest) = (edge.credentials.clone(), edge.digest);
    async move {
        let Some((carrier, protocol)) = way else {
            return Attempt::NotOpened(NotOpened::Lost);
        };
        let (answer, opened) = oneshot::channel();
        let command = SwarmCommand::Open {
            peer: credentials.peer,
            connection,
            protocol,
            answer,
        };
        carrier.command(command).await;
        match timeout(credentials.patience, opened).await {
            Ok(Ok(Ok(mut lane))) => {
                let result = hello::open(&mut lane.stream, &credentials, digest).await;
                Attempt::Opened(Box::new(lane), result)
            }
            Ok(Ok(Err(error))) => Attempt::NotOpened(error),
            Ok(Err(_)) => Attempt::NotOpened(NotOpened::Lost),
            Err(_) => Attempt::Unanswered(connection),
        }
    }
}

/// Looks whether a peer that was lost, or that does not come, refuses connections, and dials it if
/// that is our part: where it has addresses, of two that can dial each other the lower peer id
/// first, so that both seldom dial at the same time while they come up; then over relays. One that
/// was there over a relay is looked for at relays first.
fn reaching(
    edge: &Edge,
    probes: bool,
    our_turn: bool,
    lost: Instant,
) -> impl Future<Output = Attempt> + use<> {
    let direct_first = !edge.over_relay && lost.elapsed() < DIRECT_FIRST;
    let (probed, (direct, relayed)) = (edge.ways.probed(), edge.ways.to_dial(our_turn, direct_first));
    let (encrypted, peer, patience) = (edge.ways.encrypted().clone(), edge.line.peer, edge.dial_patience);
    let relays_first = relayed && edge.over_relay;
    // Of one that has addresses, and was not last here over a relay, relays know nothing.
    let relays_know = edge.over_relay || !encrypted.lists_address(&peer);
    async move {
        let over_relays = async || encrypted.reach_over_relays(peer, lost).await;
        let early = match relays_first {
            true => Some(over_relays().await),
            false => None,
        };
        if let Some(Ok(_)) = early {
            return Attempt::Dialled;
        }
        // While all come up at once, the first attempts meet listeners that are not there yet.
        let refuses = probes && probed.refuse(patience).await;
        if refuses && !relayed {
            return Attempt::Refused;
        }
        let mut found = None;
        for carrier in direct.iter().filter(|_| !refuses) {
            match carrier.dial(peer).await {
                Ok(_) => return Attempt::Dialled,
                Err(fault) => found = Some(fault),
            }
        }
        if relayed {
            let late = match early {
                Some(early) => early,
                None => over_relays().await,
            };
            match late {
                Ok(_) => return Attempt::Dialled,
                Err(_) if refuses => return Attempt::Refused,
                Err(none) if none.absent && relays_know => return Attempt::Absent,
                Err(none) => found = Some(none.fault),
            }
        }
        match found {
            // The swarm has said how its dial went.
            Some(fault @ (DialFault::Unknown | DialFault::NoRelay)) => Attempt::Unknown(fault),
            Some(_) => Attempt::Dialled,
            None => Attempt::Nowhere,
        }
    }
}

async fn until(time: Option<Instant>) {
    match time.filter(|time| Instant::now() < *time) {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Resolves once the peer has closed a stream that we opened, on which it never writes.
async fn ended(outward: &mut Option<Lane>) {
    match outward {
        Some(lane) => drop(lane.stream.read(&mut [0]).await),
        None => std::future::pending().await,
    }
}
