//! Streams that peers open: each says hello, and goes to its run or to the desk.

use tracing::debug;
use undertone_protocol::messages::notice::Network;

use crate::network::ask::{ASK, OPEN};
use crate::network::door::Opened;
use crate::network::hello::{self, Credentials, HelloError, Verdict};
use crate::network::lane::{Lane, Stay};
use crate::network::offence::Offence;
use crate::network::peer_table::Arrival;
use crate::network::session::PUBLIC_STREAM;
use crate::network::swarm::driver::{Introduction, SwarmDriver};
use crate::network::swarm::guest::{Examined, Guest};

/// Streams of one connection whose hellos are checked at the same time; more are dropped.
const EXAMINED: usize = 32;
/// Streams whose hellos are checked at the same time on a connection of which nobody has said hello
/// yet.
const EXAMINED_UNPROVED: usize = 4;

impl SwarmDriver {
    /// Somebody has opened a stream: let it say hello.
    pub(super) fn on_opened(&mut self, opened: Opened) {
        let Opened {
            peer,
            connection,
            protocol,
            mut stream,
        } = opened;
        // One whose key was revoked gets no hello, but for a run that goes on with it.
        let is_turned_away =
            !self.peer_table.admits(&peer) || (protocol == ASK && self.peer_table.is_barred(&peer));
        let Some(peer_key) = self.peer_table.key(&peer).filter(|_| !is_turned_away) else {
            return;
        };
        let port = self.ports.get_mut(&peer);
        let Some(known) = port.and_then(|port| port.connections.get_mut(&connection)) else {
            return;
        };
        // Whoever opens more streams than it can say hello on loses them.
        if known.examined >= if known.proved { EXAMINED } else { EXAMINED_UNPROVED } {
            return;
        }
        known.examined += 1;
        let stay = Stay {
            connection,
            _users: known.users.clone(),
        };
        let Introduction {
            graph,
            version,
            ref key,
            patience,
            ..
        } = self.introduction;
        // The hello takes round trips: a task of its own, so that nobody else waits for it.
        let asks = protocol == ASK;
        let (graph, peer_table) = match protocol == PUBLIC_STREAM {
            true => (Network::Public, self.introduction.public.clone()),
            false => (graph, self.peer_table.clone()),
        };
        let credentials = Credentials {
            graph,
            asks,
            version,
            key: key.clone(),
            peer,
            peer_key,
            patience,
        };
        self.examined.spawn(async move {
            let verdict = |digest: &[u8; 32]| {
                if asks {
                    Verdict::Welcome(Guest::Asker(Box::new(credentials.clone())))
                } else {
                    peer_table.verdict(&peer, digest).map(Guest::Edge)
                }
            };
            let result = hello::accept(&mut stream, &credentials, verdict).await;
            Examined {
                peer,
                connection,
                lane: Lane { stream, stay },
                result,
            }
        });
    }

    fn serve(&mut self, lane: Lane, credentials: Credentials) {
        let (peer, connection) = (credentials.peer, lane.stay.connection);
        let Some(port) = self.ports.get_mut(&peer).filter(|port| port.served < OPEN) else {
            return;
        };
        let Some(known) = port.connections.get(&connection) else {
            return;
        };
        let seen = known.host.clone().unwrap_or_default();
        port.served += 1;
        let (desk, turns) = (self.desk.clone(), port.turns.clone());
        self.serving.spawn(async move {
            let _turn = turns.next().await;
            desk.serve(lane, credentials, seen).await;
            peer
        });
    }

    pub(super) fn on_examined(&mut self, examined: Examined) {
        let Examined {
            peer,
            connection,
            lane,
            result,
        } = examined;
        let graph = self.introduction.graph;
        let port = self.ports.get_mut(&peer);
        let Some(known) = port.and_then(|port| port.connections.get_mut(&connection)) else {
            return;
        };
        known.examined -= 1;
        let proved = known.proved;
        match result {
            Ok(Guest::Asker(credentials)) => {
                self.prove(peer, connection);
                self.serve(lane, *credentials);
            }
            Ok(Guest::Edge(arrivals)) => {
                self.prove(peer, connection);
                // An edge that is behind loses the stream; the peer tries again.
                let _ = arrivals.try_send(Arrival::Stream(lane));
            }
            Err(error) => {
                drop(lane);
                debug!(%graph, %peer, %error, "no hello");
                if error.proves() {
                    self.prove(peer, connection);
                }
                if let HelloError::Offence(offence) = error {
                    self.peer_table.blame(&peer, &offence);
                    // Whoever cannot say hello on a connection of its own is not the peer.
                    if !proved && matches!(offence, Offence::NoHello { .. }) {
                        self.close(peer, connection);
                    }
                }
            }
        }
    }
}
