//! The state of each peer in a swarm's task: its connections, and who waits for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use libp2p::PeerId;
use libp2p::swarm::ConnectionId;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::network::ask::ServedTurns;
use crate::network::dial_fault::DialFault;

/// Usable connections of one peer. It needs one; two that dial each other at once have two for a
/// moment, and what is left of connections that broke unnoticed goes with the next pings.
const USABLE_PER_PEER: usize = 4;

/// The facts about one connection.
pub(super) struct Connection {
    pub(super) dialled: bool,
    /// The relay that it goes over.
    pub(super) relayed: Option<PeerId>,
    /// Somebody who holds the peer's key is at the other end.
    pub(super) proved: bool,
    /// The host that it comes from.
    pub(super) host: Option<String>,
    pub(super) born: Instant,
    /// One count for each lane on it, and ours.
    pub(super) users: Arc<()>,
    /// Streams whose hellos are being checked.
    pub(super) examined: usize,
}

impl Connection {
    /// On the public graph anybody can connect in the peer's name. Such a connection is listened
    /// to, no more, until a hello proves it; one that we dialled leads to the listed address.
    pub(super) fn is_usable(&self) -> bool {
        self.proved || self.dialled
    }

    /// Whether streams of edges or questions are on it.
    pub(super) fn is_used(&self) -> bool {
        Arc::strong_count(&self.users) > 1
    }
}

/// The state of one peer in the swarm's task.
#[derive(Default)]
pub(super) struct Port {
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) dialling: bool,
    /// Where an edge came up last.
    pub(super) settled: Option<ConnectionId>,
    /// The channels to the code that waits for the dial.
    pub(super) reaching: Vec<oneshot::Sender<Result<ConnectionId, DialFault>>>,
    /// Streams for its questions.
    pub(super) served: usize,
    pub(super) turns: ServedTurns,
}

impl Port {
    pub(super) fn reached(&mut self, result: &Result<ConnectionId, DialFault>) {
        self.dialling = false;
        for answer in self.reaching.drain(..) {
            let _ = answer.send(result.clone());
        }
    }

    /// Connections on which streams may be opened, the oldest first.
    pub(super) fn usable(&self) -> impl Iterator<Item = (&ConnectionId, &Connection)> {
        self.connections
            .iter()
            .filter(|(_, connection)| connection.is_usable())
    }

    /// The connection to open streams on: a direct one before one over a relay; of several the one
    /// that edges use, so that all end up on one, else the newest, proved ones first: whoever dials
    /// again has lost the others.
    pub(super) fn best(&self) -> Option<ConnectionId> {
        let settled = |id: &ConnectionId, connection: &Connection| {
            self.settled.as_ref() == Some(id) && connection.is_used()
        };
        self.usable()
            .max_by_key(|(id, connection)| {
                let direct = connection.relayed.is_none();
                (direct, settled(id, connection), connection.proved, **id)
            })
            .map(|(id, _)| *id)
    }

    /// The connection to close where there are too many: the oldest that nobody uses, so that a
    /// peer that dials again and again gains nothing, and breaks nothing.
    pub(super) fn surplus(&self, newest: ConnectionId) -> Option<ConnectionId> {
        let mut unused = self
            .usable()
            .filter(|(id, connection)| !connection.is_used() && **id != newest);
        (self.usable().count() > USABLE_PER_PEER).then(|| unused.next().map_or(newest, |(id, _)| *id))
    }

    /// The unproved connection to close first: the oldest of those from the host that most come
    /// from.
    pub(super) fn most_crowded(&self) -> Option<(usize, ConnectionId)> {
        let mut hosts: BTreeMap<_, (usize, Option<ConnectionId>)> = BTreeMap::new();
        for (id, connection) in self
            .connections
            .iter()
            .filter(|(_, connection)| !connection.is_usable())
        {
            let (number, oldest) = hosts.entry(&connection.host).or_default();
            *number += 1;
            oldest.get_or_insert(*id);
        }
        hosts
            .into_values()
            .max_by_key(|(number, _)| *number)
            .and_then(|(number, oldest)| Some((number, oldest?)))
    }

    pub(super) fn unproved(&self) -> usize {
        self.connections
            .values()
            .filter(|connection| !connection.is_usable())
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port with these connections, numbered in order: host, dialled, proved.
    fn port(connections: &[(&str, bool, bool)]) -> Port {
        let mut port = Port::default();
        for (number, (host, dialled, proved)) in connections.iter().enumerate() {
            let connection = Connection {
                dialled: *dialled,
                relayed: None,
                proved: *proved,
                host: Some((*host).to_owned()),
                born: Instant::now(),
                users: Arc::default(),
                examined: 0,
            };
            port.connections
                .insert(ConnectionId::new_unchecked(number), connection);
        }
        port
    }

    #[test]
    fn the_oldest_unproved_connection_of_the_busiest_host_is_the_first_to_close() {
        let crowded = port(&[
            ("b", false, false),
            ("a", false, true),
            ("a", true, false),
            ("a", false, false),
            ("c", false, true),
            ("c", false, true),
            ("c", false, true),
            ("a", false, false),
        ]);
        assert_eq!(crowded.unproved(), 3, "dialled and proved ones are not counted");
        assert_eq!(crowded.most_crowded(), Some((2, ConnectionId::new_unchecked(3))));
        let usable = port(&[("a", true, false), ("a", false, true)]);
        assert_eq!((usable.unproved(), usable.most_crowded()), (0, None));
    }

    #[test]
    fn streams_are_opened_where_edges_are_and_else_on_the_newest_proved_connection() {
        let id = ConnectionId::new_unchecked;
        let mut several = port(&[
            ("a", false, true),
            ("a", true, true),
            ("a", true, false),
            ("a", false, false),
        ]);
        assert_eq!(several.best(), Some(id(1)));
        several.settled = Some(id(0));
        assert_eq!(several.best(), Some(id(1)), "its edges are gone");
        let _edge = several.connections[&id(0)].users.clone();
        assert_eq!(several.best(), Some(id(0)));
        let relay = PeerId::random();
        several.connections.get_mut(&id(0)).expect("there").relayed = Some(relay);
        assert_eq!(
            several.best(),
            Some(id(1)),
            "a direct one before one over a relay"
        );
        assert_eq!(port(&[("a", false, false)]).best(), None);
    }

    #[test]
    fn a_fifth_connection_costs_the_oldest_that_nobody_uses() {
        let id = ConnectionId::new_unchecked;
        let five = port(&[("a", false, true); 5]);
        assert_eq!(port(&[("a", false, true); 4]).surplus(id(3)), None);
        assert_eq!(five.surplus(id(4)), Some(id(0)));
        let mut users: Vec<_> = (0..4)
            .map(|number| five.connections[&id(number)].users.clone())
            .collect();
        assert_eq!(five.surplus(id(4)), Some(id(4)), "whoever comes breaks nothing");
        users.remove(2);
        assert_eq!(five.surplus(id(4)), Some(id(2)));
    }

    #[test]
    fn everybody_who_waits_for_a_dial_is_answered_once() {
        let mut port = Port::default();
        let (senders, waiting): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel()).unzip();
        (port.dialling, port.reaching) = (true, senders);
        port.reached(&Err(DialFault::Refused));
        assert!(!port.dialling && port.reaching.is_empty());
        for mut answer in waiting {
            assert_eq!(answer.try_recv().unwrap(), Err(DialFault::Refused));
        }
    }
}
