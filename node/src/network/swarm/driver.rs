//! The task that drives one swarm.

mod guests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use libp2p::core::ConnectedPoint;
use libp2p::core::transport::{ListenerId, TransportError};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, ListenError, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, ping};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::debug;
use undertone_protocol::messages::notice::Network;

use crate::network::ask::Desk;
use crate::network::command::SwarmCommand;
use crate::network::dial_fault::DialFault;
use crate::network::door::{NotListed, Opening};
use crate::network::event::NetworkEvent;
use crate::network::lane::Stay;
use crate::network::offence::Offence;
use crate::network::peer_table::PeerTable;
use crate::network::relays::Relays;
use crate::network::swarm::build::{Behaviour, BehaviourEvent};
use crate::network::swarm::faults::{fault, is_silence};
use crate::network::swarm::guest::Examined;
use crate::network::swarm::ports::{Connection, Port};

/// Connections of one peer id of which nobody has said hello; one more, and the oldest is closed.
/// The peer itself needs one, for the time of a hello; on the public graph the others are
/// anybody's.
const UNPROVED_PER_PEER: usize = 8;
/// Connections over all peers, beyond two for each of them, of which nobody has said hello yet; one
/// more, and the oldest of the peer with the most is closed.
const UNPROVED: usize = 32;
/// How often what has run out is looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Different strangers, and different addresses that sent rubbish, that are reported; later ones
/// are only logged.
const REPORTED: usize = 64;

/// The parts of a hub's hello that are alike at every stream, whatever its run.
pub(in crate::network) struct Introduction {
    pub(in crate::network) graph: Network,
    pub(in crate::network) version: u32,
    pub(in crate::network) key: Keypair,
    pub(in crate::network) patience: Duration,
    /// Whose streams take the public graph's protocol on an encrypted connection.
    pub(in crate::network) public: Arc<PeerTable>,
    pub(in crate::network) relays: Arc<Relays>,
    pub(in crate::network) relays_others: bool,
}

/// The task that drives one swarm. It never waits for an edge or for the driver.
pub(in crate::network) struct SwarmDriver {
    introduction: Introduction,
    swarm: Swarm<Behaviour>,
    commands: mpsc::Receiver<SwarmCommand>,
    peer_table: Arc<PeerTable>,
    ports: BTreeMap<PeerId, Port>,
    examined: JoinSet<Examined>,
    desk: Arc<Desk>,
    serving: JoinSet<PeerId>,
    /// Places at relays that were asked for, and who waits for each.
    places: HashMap<ListenerId, watch::Sender<bool>>,
    strangers: BTreeSet<PeerId>,
    rubbish: BTreeSet<String>,
}

/// The relay that a connection goes over.
fn relay_of(endpoint: &ConnectedPoint) -> Option<PeerId> {
    let address = match endpoint {
        ConnectedPoint::Dialer { address, .. } => address,
        ConnectedPoint::Listener { local_addr, .. } => local_addr,
    };
    let mut relay = None;
    for part in address {
        match part {
            Protocol::P2p(peer) => relay = Some(peer),
            Protocol::P2pCircuit => return relay,
            _ => {}
        }
    }
    None
}

impl SwarmDriver {
    /// Takes over a swarm that listens.
    pub(in crate::network) fn new(
        introduction: Introduction,
        swarm: Swarm<Behaviour>,
        commands: mpsc::Receiver<SwarmCommand>,
        peer_table: Arc<PeerTable>,
        desk: Desk,
    ) -> SwarmDriver {
        SwarmDriver {
            desk: Arc::new(desk),
            serving: JoinSet::new(),
            introduction,
            swarm,
            commands,
            peer_table,
            ports: BTreeMap::new(),
            examined: JoinSet::new(),
            places: HashMap::new(),
            strangers: BTreeSet::new(),
            rubbish: BTreeSet::new(),
        }
    }

    /// Runs until nobody can command it any more.
    pub(in crate::network) async fn run(mut self) {
        let mut sweep = interval(SWEEP);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_event(event),
                Some(Ok(examined)) = self.examined.join_next() => self.on_examined(examined),
                Some(Ok(peer)) = self.serving.join_next() => {
                    if let Some(port) = self.ports.get_mut(&peer) {
                        port.served = port.served.saturating_sub(1);
                    }
                }
                command = self.commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => return,
                },
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    fn on_command(&mut self, command: SwarmCommand) {
        match command {
            SwarmCommand::Reach {
                peer,
                addresses,
                answer,
            } => {
                self.ports.entry(peer).or_default().reaching.push(answer);
                self.dial(peer, addresses);
            }
            SwarmCommand::Open {
                peer,
                connection,
                protocol,
                answer,
            } => {
                let port = self.ports.get(&peer);
                if let Some(known) = port.and_then(|port| port.connections.get(&connection)) {
                    let stay = Stay {
                        connection,
                        _users: known.users.clone(),
                    };
                    self.swarm.behaviour_mut().door.open(
                        peer,
                        Opening {
                            protocol,
                            stay,
                            answer,
                        },
                    );
                }
            }
            SwarmCommand::Proved { peer, connection } => self.prove(peer, connection),
            SwarmCommand::Settled { peer, connection } => {
                if let Some(port) = self.ports.get_mut(&peer) {
                    port.settled = Some(connection);
                    self.relink(peer);
                }
            }
            // Whose connection others use is closed by pings alone.
            SwarmCommand::Unanswered { peer, .. } if self.carries_circuits(&peer) => {}
            SwarmCommand::Unanswered { peer, connection } => self.close(peer, connection),
            SwarmCommand::Reserve { relay, circuit, held } => match self.swarm.listen_on(circuit) {
                Ok(listener) => drop(self.places.insert(listener, held)),
                Err(error) => debug!(%relay, %error, "no place at the relay"),
            },
            SwarmCommand::Broken { peer, connection } => {
                if self.carries_circuits(&peer) {
                    return;
                }
                let port = self.ports.get(&peer);
                let known = port.and_then(|port| port.connections.get(&connection));
                if known.is_some_and(|known| !known.is_used()) {
                    self.close(peer, connection);
                }
            }
        }
    }

    /// Whether others than this peer's edges may use its connection.
    fn carries_circuits(&self, peer: &PeerId) -> bool {
        let Introduction {
            graph,
            ref relays,
            relays_others,
            ..
        } = self.introduction;
        graph == Network::Private && (relays_others || relays.has(peer))
    }

    fn dial(&mut self, peer: PeerId, addresses: Vec<Multiaddr>) {
        let port = self.ports.entry(peer).or_default();
        if port.dialling {
            return;
        }
        // A port of its own: libp2p would dial from the listening port, and a second dial within a
        // minute would meet the first one's remains (TIME_WAIT).
        let options = DialOpts::peer_id(peer)
            .condition(PeerCondition::Always)
            .addresses(addresses)
            .allocate_new_port()
            .build();
        match self.swarm.dial(options) {
            Ok(()) => port.dialling = true,
            Err(error) => {
                debug!(graph = %self.introduction.graph, %peer, %error, "dial refused");
                self.dialled_in_vain(peer, fault(&error));
            }
        }
    }

    /// Notifies the code that waits for the dial, and the edges.
    fn dialled_in_vain(&mut self, peer: PeerId, fault: DialFault) {
        self.ports.entry(peer).or_default().reached(&Err(fault.clone()));
        // One that refuses is asked apart, at the address that counts.
        let refuses = fault == DialFault::Refused;
        self.peer_table.update(&peer, |link| {
            link.in_vain = if refuses {
                0
            } else {
                link.in_vain.saturating_add(1)
            };
            link.fault = Some(fault);
        });
        self.relink(peer);
    }

    fn close(&mut self, peer: PeerId, connection: ConnectionId) {
        self.swarm.close_connection(connection);
        self.forget(peer, connection);
    }

    fn forget(&mut self, peer: PeerId, connection: ConnectionId) {
        let known = self
            .ports
            .get_mut(&peer)
            .and_then(|port| port.connections.remove(&connection));
        if known.is_some_and(|known| known.is_usable()) {
            self.relink(peer);
        }
    }

    fn prove(&mut self, peer: PeerId, connection: ConnectionId) {
        let port = self.ports.get_mut(&peer);
        if let Some(known) = port.and_then(|port| port.connections.get_mut(&connection))
            && !known.proved
        {
            known.proved = true;
            if let Some(host) = known.host.as_deref().and_then(|host| host.parse().ok()) {
                self.peer_table.pending_connections().know(&host);
            }
            self.thin_out(peer, connection);
            self.relink(peer);
        }
    }

    /// Makes room among the usable connections of a peer, after this one has become one.
    fn thin_out(&mut self, peer: PeerId, newest: ConnectionId) {
        if let Some(port) = self.ports.get(&peer)
            && let Some(surplus) = port.surplus(newest)
        {
            debug!(graph = %self.introduction.graph, %peer, "too many connections");
            self.close(peer, surplus);
        }
    }

    /// Notifies the edges of the changes.
    fn relink(&mut self, peer: PeerId) {
        let Some(port) = self.ports.get(&peer) else { return };
        let mut is_new = false;
        self.peer_table.update(&peer, |link| {
            let had_one = link.best.is_some();
            link.live = port.usable().map(|(id, _)| *id).collect();
            link.best = port.best();
            link.since = link.best.and(link.since.or(Some(Instant::now())));
            let relays = port.usable().map(|(id, known)| Some((*id, known.relayed?)));
            link.relays = relays.flatten().collect();
            link.reached |= port
                .usable()
                .any(|(_, connection)| connection.dialled && connection.relayed.is_none());
            link.changes += 1;
            is_new = !had_one && link.best.is_some();
        });
        if is_new {
            self.peer_table.links.note(peer);
        }
    }

    /// Closes connections on which nobody has said hello in time, and those of peers that are no
    /// longer listed.
    fn sweep(&mut self) {
        // A relay that is listed no more stays while there are circuits over it.
        let connections = self.ports.values().flat_map(|port| port.connections.values());
        let relays: BTreeSet<PeerId> = connections.filter_map(|connection| connection.relayed).collect();
        for peer in self.peer_table.expire(Instant::now(), &relays) {
            self.ports.remove(&peer);
            let _ = self.swarm.disconnect_peer_id(peer);
        }
        self.turn_away();
        let patience = self.introduction.patience;
        let late = self.ports.iter().flat_map(|(peer, port)| {
            let late =
                |connection: &Connection| !connection.is_usable() && connection.born.elapsed() > patience;
            port.connections
                .iter()
                .filter(move |(_, connection)| late(connection))
                .map(|(id, _)| (*peer, *id))
        });
        for (peer, connection) in late.collect::<Vec<_>>() {
            self.close(peer, connection);
        }
    }

    /// Closes the connections of peers whose keys were revoked. A relay does not: a run may go on
    /// over a circuit, and the peer gets no other circuit, and no place.
    fn turn_away(&mut self) {
        let ports = self.ports.keys().filter(|peer| self.peer_table.is_barred(peer));
        let away = ports.filter(|peer| !self.introduction.relays_others && !self.peer_table.admits(peer));
        for peer in away.copied().collect::<Vec<_>>() {
            self.ports.remove(&peer);
            let _ = self.swarm.disconnect_peer_id(peer);
        }
    }

    /// Closes the oldest connection of the most crowded host, where too many have no hello yet
    /// after one more has come from this peer.
    fn crowd(&mut self, peer: PeerId) {
        let Some(port) = self.ports.get(&peer) else { return };
        if port.unproved() > UNPROVED_PER_PEER
            && let Some((_, connection)) = port.most_crowded()
        {
            self.close(peer, connection);
        }
        let all: usize = self.ports.values().map(Port::unproved).sum();
        if all > UNPROVED + 2 * self.peer_table.len() {
            let crowded = self
                .ports
                .iter()
                .filter_map(|(peer, port)| Some((port.most_crowded()?, *peer)));
            if let Some(((_, connection), peer)) = crowded.max_by_key(|((number, _), _)| *number) {
                self.close(peer, connection);
            }
        }
    }

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        let graph = self.introduction.graph;
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Door(opened)) => self.on_opened(opened),
            SwarmEvent::Behaviour(BehaviourEvent::Ping(pinged)) => self.on_pinged(pinged),
            SwarmEvent::Behaviour(BehaviourEvent::Relay(relayed)) => debug!("relay: {relayed:?}"),
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                ..
            } => {
                self.on_connection(peer_id, connection_id, &endpoint);
            }
            SwarmEvent::ConnectionClosed {
                peer_id,
                connection_id,
                cause,
                ..
            } => {
                debug!(%graph, peer = %peer_id, ?cause, "connection closed");
                self.forget(peer_id, connection_id);
            }
            SwarmEvent::OutgoingConnectionError {
                peer_id: Some(peer),
                error,
                ..
            } => {
                debug!(%graph, %peer, %error, "dial failed");
                self.dialled_in_vain(peer, fault(&error));
            }
            SwarmEvent::IncomingConnectionError {
                send_back_addr,
                error,
                peer_id,
                ..
            } => {
                self.on_refused(send_back_addr, error, peer_id);
            }
            SwarmEvent::NewListenAddr { listener_id, .. } => {
                if let Some(held) = self.places.get(&listener_id) {
                    held.send_replace(true);
                }
            }
            SwarmEvent::ListenerClosed { listener_id, .. } if self.places.contains_key(&listener_id) => {
                self.places.remove(&listener_id);
            }
            SwarmEvent::ListenerError { listener_id, error } if !self.places.contains_key(&listener_id) => {
                self.on_listener(error.to_string());
            }
            SwarmEvent::ListenerClosed { reason, .. } => {
                self.on_listener(
                    reason
                        .err()
                        .map_or("closed".to_owned(), |error| error.to_string()),
                );
            }
            _ => {}
        }
    }

    fn on_connection(&mut self, peer: PeerId, id: ConnectionId, endpoint: &ConnectedPoint) {
        let port = self.ports.entry(peer).or_default();
        let dialled = endpoint.is_dialer();
        if dialled {
            port.reached(&Ok(id));
        }
        self.peer_table.update(&peer, |link| {
            (link.in_vain, link.fault) = (0, None);
        });
        let port = self.ports.entry(peer).or_default();
        let relayed = relay_of(endpoint);
        if !dialled && relayed.is_none() {
            self.peer_table.note_reached();
        }
        let connection = Connection {
            dialled,
            relayed,
            proved: self.introduction.graph == Network::Private,
            host: endpoint
                .get_remote_address()
                .iter()
                .next()
                .map(|host| host.to_string()),
            born: Instant::now(),
            users: Arc::new(()),
            examined: 0,
        };
        if connection.proved {
            self.peer_table
                .pending_connections()
                .know(endpoint.get_remote_address());
        }
        let usable = connection.is_usable();
        port.connections.insert(id, connection);
        if usable {
            self.thin_out(peer, id);
            self.relink(peer);
        } else {
            self.crowd(peer);
        }
    }

    /// A ping was answered or not. libp2p keeps the first of several failures to itself, so this is
    /// the second. Whoever does not know pings hears no more of them.
    fn on_pinged(&mut self, pinged: ping::Event) {
        let ping::Event {
            peer,
            connection,
            result,
        } = pinged;
        match result {
            Ok(_) | Err(ping::Failure::Unsupported) => {}
            Err(failure) => {
                debug!(graph = %self.introduction.graph, %peer, %failure, "no sign of life");
                self.close(peer, connection);
            }
        }
    }

    fn on_listener(&mut self, reason: String) {
        let graph = self.introduction.graph;
        self.peer_table.tell(|| NetworkEvent::ListenFailed {
            graph,
            reason: reason.clone(),
        });
    }

    /// A connection that came to nothing. One that was closed before it said anything is no
    /// offence: that is how peers find out whether we still listen.
    fn on_refused(&mut self, address: Multiaddr, error: ListenError, peer: Option<PeerId>) {
        let graph = self.introduction.graph;
        debug!(%graph, %address, ?peer, %error, "connection refused");
        match (error, peer) {
            (ListenError::Denied { cause }, Some(peer)) if cause.downcast_ref::<NotListed>().is_some() => {
                let new = self.strangers.len() < REPORTED && self.strangers.insert(peer);
                if new {
                    self.peer_table.tell(|| NetworkEvent::Stranger {
                        graph,
                        peer,
                        address: address.clone(),
                    });
                }
            }
            (ListenError::Transport(TransportError::Other(error)), _) if !is_silence(&error) => {
                let host: Multiaddr = address.iter().take(1).collect();
                if self.rubbish.len() < REPORTED && self.rubbish.insert(host.to_string()) {
                    let offence = Offence::NoProtocol {
                        reason: error.to_string(),
                    };
                    let address = Some(address);
                    self.peer_table.tell(|| NetworkEvent::Offence {
                        graph,
                        peer: None,
                        address: address.clone(),
                        offence: offence.clone(),
                    });
                }
            }
            _ => {}
        }
    }
}
