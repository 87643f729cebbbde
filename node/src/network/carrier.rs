//! One swarm, as edges and the hub use it: how a peer is reached over it.

use std::sync::Arc;
use std::time::Duration;

use libp2p::multiaddr::Protocol;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::network::address;
use crate::network::command::SwarmCommand;
use crate::network::config::Patience;
use crate::network::dial_fault::DialFault;
use crate::network::peer_table::PeerTable;
use crate::network::relays::Relays;

/// For how long libp2p waits for a relay's answer, whoever has given up before (its
/// `STREAM_TIMEOUT`).
const GIVEN_UP: Duration = Duration::from_secs(60);

/// One swarm, from outside of its task; cheap to clone.
#[derive(Clone)]
pub(super) struct Carrier {
    pub(super) peer_table: Arc<PeerTable>,
    pub(super) commands: mpsc::Sender<SwarmCommand>,
    /// Whether others can dial us on it.
    pub(super) announced: bool,
    /// The relays of the encrypted swarm; the plain one has none, for on a plain hop anybody could
    /// reserve a place in another's name.
    pub(super) relays: Arc<Relays>,
    pub(super) patience: Patience,
}

/// How reaching a peer over relays ended in vain.
#[derive(Debug)]
pub(super) struct NoCircuit {
    pub(super) fault: DialFault,
    /// There are relays that answer, and all of these say that the peer is not there.
    pub(super) absent: bool,
}

impl Carrier {
    /// Commands the swarm; one that has shut down hears nothing.
    pub(super) async fn command(&self, command: SwarmCommand) {
        let _ = self.commands.send(command).await;
    }

    /// Whether a peer has an address on this swarm.
    pub(super) fn lists_address(&self, peer: &PeerId) -> bool {
        !self.peer_table.places(peer).is_empty()
    }

    /// Dials a peer where it is listed now, at all its addresses at once.
    pub(super) async fn dial(&self, peer: PeerId) -> Result<ConnectionId, DialFault> {
        let places = self.peer_table.places(&peer);
        self.dial_at(peer, places.resolve(self.patience.dial).await).await
    }

    /// Dials a peer at these addresses.
    pub(super) async fn dial_at(
        &self,
        peer: PeerId,
        addresses: Vec<std::net::SocketAddr>,
    ) -> Result<ConnectionId, DialFault> {
        match addresses.is_empty() {
            true => Err(DialFault::Unknown),
            false => {
                let addresses = addresses.into_iter().map(address::to_multiaddr).collect();
                self.reach(peer, addresses).await
            }
        }
    }

    async fn reach(&self, peer: PeerId, addresses: Vec<Multiaddr>) -> Result<ConnectionId, DialFault> {
        let (answer, reached) = oneshot::channel();
        self.command(SwarmCommand::Reach {
            peer,
            addresses,
            answer,
        })
        .await;
        reached.await.unwrap_or(Err(DialFault::Silent))
    }

    /// Reaches a peer over the relays at which it may keep a place, in its order of them. Of a
    /// relay counts as an answer what it says on a connection that has been up since `before`: one
    /// that has just started knows nobody yet.
    pub(super) async fn reach_over_relays(
        &self,
        peer: PeerId,
        before: Instant,
    ) -> Result<ConnectionId, NoCircuit> {
        let (mut fault, mut there, mut absent) = (DialFault::NoRelay, false, false);
        for relay in self.relays.of(&peer) {
            // Of circuits that are opened at once a relay drops what is more than ten.
            let Ok(turn) = relay.opening.clone().acquire_owned().await else {
                break;
            };
            let answers_since = match self.connect(relay.peer).await {
                Ok(since) => since,
                Err(found) => {
                    fault = found;
                    continue;
                }
            };
            let place = self
                .peer_table
                .places(&relay.peer)
                .resolve(self.patience.dial)
                .await;
            let Some(place) = place.first() else { continue };
            let circuit = address::to_multiaddr(*place)
                .with(Protocol::P2p(relay.peer))
                .with(Protocol::P2pCircuit)
                .with(Protocol::P2p(peer));
            match self.reach(peer, vec![circuit]).await {
                Ok(connection) => return Ok(connection),
                Err(found) => {
                    let knows_nobody = found == DialFault::NotAtRelay;
                    absent |= knows_nobody && answers_since < before;
                    there |= !knows_nobody;
                    if found == DialFault::Silent {
                        // libp2p goes on waiting, and has no more turns than we give.
                        tokio::spawn(async move {
                            sleep(GIVEN_UP).await;
                            drop(turn);
                        });
                    } else if !knows_nobody {
                        // Those that were dropped together must not come back together.
                        sleep(Duration::from_millis(rand::random_range(50..200))).await;
                    }
                    fault = found;
                }
            }
        }
        Err(NoCircuit {
            fault,
            absent: absent && !there,
        })
    }

    /// Connects to a relay unless that is done; returns since when it is. (Of circuits that are
    /// dialled over a relay that is not connected all but the first fail.)
    pub(super) async fn connect(&self, relay: PeerId) -> Result<Instant, DialFault> {
        let link = self.peer_table.link(&relay).ok_or(DialFault::NoRelay)?;
        if let Some(since) = link.borrow().since {
            return Ok(since);
        }
        self.dial(relay).await?;
        Ok(Instant::now())
    }
}
