//! Whether the peers of the peer list answer, and as who: each is asked to say hello on both
//! graphs, as `doctor` asks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use libp2p::PeerId;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::Question;
use undertone_protocol::plan::peers::entry::Address;

use crate::daemon::config::Config;
use crate::daemon::status::{PeerStatus, Reachability};
use crate::network::dial_fault::DialFault;
use crate::network::hub::Hub;
use crate::party::reaching::shown;

/// How long a peer may take to answer. Our guess: a handshake and a question are some round trips
/// around the world, and `status` does not keep anybody waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// For how long an answer is good: so that asking for the status often does not knock at the peers
/// as often.
const FRESH: Duration = Duration::from_secs(10);

/// The peers, as they were when somebody last looked.
pub(super) struct Peers {
    /// The names of all relays in the list.
    relays: Mutex<BTreeMap<PeerId, String>>,
    last: Mutex<(Option<Instant>, Vec<PeerStatus>)>,
    looking: tokio::sync::Mutex<()>,
}

impl Peers {
    /// Everybody but this node.
    pub(super) fn of(config: &Config) -> Self {
        let me = config.identity.peer_id();
        let at = |addresses: &[Address]| Reachability {
            address: shown(addresses),
            reachable: None,
            problem: None,
            relay: None,
        };
        let others = config.peers.as_slice().iter().filter(|peer| peer.id != me);
        let peers = others.map(|peer| PeerStatus {
            name: peer.name.clone(),
            id: peer.id.to_string(),
            private: at(&peer.contact.at),
            public: at(peer.contact.public.as_slice()),
        });
        let members = config.peers.as_slice().iter();
        let members = members.map(|peer| (peer.id, peer.name.clone()));
        let relays = config.peers.relays().iter();
        let relays = relays.map(|relay| (relay.id, relay.name.clone()));
        Peers {
            relays: Mutex::new(members.chain(relays).collect()),
            last: Mutex::new((None, peers.collect())),
            looking: tokio::sync::Mutex::new(()),
        }
    }

    /// Takes another list; nobody of it is looked at yet.
    pub(super) async fn relist(&self, config: &Config) {
        let _one = self.looking.lock().await;
        let fresh = Peers::of(config);
        let (_, peers) = fresh.last();
        let relays = fresh.relays.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.relays.lock().unwrap_or_else(PoisonError::into_inner) = relays;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (None, peers);
    }

    /// A relay's name in the list.
    fn name_of(&self, relay: &PeerId) -> String {
        let relays = self.relays.lock().unwrap_or_else(PoisonError::into_inner);
        let name = relays.get(relay).cloned();
        name.unwrap_or_else(|| relay.to_string())
    }

    fn last(&self) -> (Option<Instant>, Vec<PeerStatus>) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at all of them at once, unless that was done a moment ago.
    pub(super) async fn look(&self, hub: &Hub) -> Vec<PeerStatus> {
        let _one = self.looking.lock().await;
        let (looked, peers) = self.last();
        if looked.is_some_and(|looked| looked.elapsed() < FRESH) {
            return peers;
        }
        let looked = join_all(peers.into_iter().map(|mut peer| async {
            let Ok(id) = peer.id.parse() else { return peer };
            // Public messages of one without a plain address take the encrypted connection.
            let plain = async {
                match peer.public.address.is_empty() {
                    true => None,
                    false => Some(fault(hub, Network::Public, id).await),
                }
            };
            let (private, public) = tokio::join!(fault(hub, Network::Private, id), plain);
            let public = public.unwrap_or_else(|| private.clone());
            for (side, problem) in [(&mut peer.private, private), (&mut peer.public, public)] {
                (side.reachable, side.problem) = (Some(problem.is_none()), problem);
            }
            let relay = hub.relay_to(&id).map(|relay| self.name_of(&relay));
            if peer.public.address.is_empty() {
                peer.public.relay.clone_from(&relay);
            }
            peer.private.relay = relay;
            peer
        }))
        .await;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (Some(Instant::now()), looked.clone());
        looked
    }

    /// How many there are, and how many answered when somebody last looked: on the private graph,
    /// on the public one.
    pub(super) fn answering(&self) -> (u64, u64, u64) {
        let (_, peers) = self.last();
        let count = |side: fn(&PeerStatus) -> &Reachability| {
            peers
                .iter()
                .filter(|peer| side(peer).reachable == Some(true))
                .count() as u64
        };
        (
            peers.len() as u64,
            count(|peer| &peer.private),
            count(|peer| &peer.public),
        )
    }
}

/// Returns the reason why the listed identity does not answer on this graph. It is `None` if it
/// does, over a connection that there is or at its address.
async fn fault(hub: &Hub, graph: Network, peer: PeerId) -> Option<String> {
    match timeout(
        PATIENCE,
        hub.ask(graph, peer, &Question::Check { digest: None }, &[]),
    )
    .await
    {
        Ok(Ok(_)) => None,
        Ok(Err(fault)) => Some(fault.to_string()),
        Err(_) => Some(DialFault::Silent.to_string()),
    }
}
