//! What a swarm's task knows of each peer: its connections, and who waits for one.

use std::collections::BTreeMap;
use std::sync::Arc;

use libp2p::swarm::ConnectionId;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::network::ask::DialFault;

/// What is known of one connection.
pub(super) struct Connection {
    pub(super) dialled: bool,
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
}

/// What the swarm's task knows of one peer.
#[derive(Default)]
pub(super) struct Port {
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) dialling: bool,
    /// Who waits for the dial.
    pub(super) reaching: Vec<oneshot::Sender<Result<ConnectionId, DialFault>>>,
    /// Streams on which its questions are answered.
    pub(super) served: usize,
}

impl Port {
    pub(super) fn reached(&mut self, result: &Result<ConnectionId, DialFault>) {
        self.dialling = false;
        for answer in self.reaching.drain(..) {
            let _ = answer.send(result.clone());
        }
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
