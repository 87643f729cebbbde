//! Whether the peers of the peer list answer, and as who: each is asked to say hello on both
//! graphs, as `doctor` asks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use libp2p::PeerId;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::question::{Question, Reply};
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
    /// SHA-256 of the list.
    list: Mutex<[u8; 32]>,
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
            same_list: None,
        });
        let members = config.peers.as_slice().iter();
        let members = members.map(|peer| (peer.id, peer.name.clone()));
        let relays = config.peers.relays().iter();
        let relays = relays.map(|relay| (relay.id, relay.name.clone()));
        Peers {
            relays: Mutex::new(members.chain(relays).collect()),
            list: Mutex::new(config.list_digest),
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
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) = config.list_digest;
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
        let list = *self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let looked = join_all(peers.into_iter().map(|mut peer| async {
            let Ok(id) = peer.id.parse() else { return peer };
            // Public messages of one without a plain address take the encrypted connection.
            let plain = async {
                match peer.public.address.is_empty() {
                    true => None,
                    false => Some(ask(hub, Network::Public, id).await.err()),
                }
            };
            let (answer, public) = tokio::join!(ask(hub, Network::Private, id), plain);
            peer.same_list = answer
                .as_ref()
                .ok()
                .copied()
                .flatten()
                .map(|theirs| theirs == list);
            let private = answer.err();
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

/// Asks the listed identity on this graph, over a connection that there is or at its address: the
/// SHA-256 of its peer list if it gives that, or the reason why it does not answer.
async fn ask(hub: &Hub, graph: Network, peer: PeerId) -> Result<Option<[u8; 32]>, String> {
    let question = Question::Check { digest: None };
    match timeout(PATIENCE, hub.ask(graph, peer, &question, &[])).await {
        Ok(Ok((Reply::Checked { list, .. }, _))) => Ok(list),
        Ok(Ok(_)) => Ok(None),
        Ok(Err(fault)) => Err(fault.to_string()),
        Err(_) => Err(DialFault::Silent.to_string()),
    }
}
