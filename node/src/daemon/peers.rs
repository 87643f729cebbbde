//! Whether the peers of the peer list answer on their addresses.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::config::Config;
use super::status::{PeerStatus, Reachability};

/// How long a peer may take to answer. Our guess: many round trips around the world, and `status` does not keep anybody waiting.
const PATIENCE: Duration = Duration::from_millis(1500);

/// For how long an answer is good: so that asking for the status often does not knock at the peers as often.
const FRESH: Duration = Duration::from_secs(10);

/// The peers, as they were when somebody last looked.
pub(super) struct Peers {
    last: Mutex<(Option<Instant>, Vec<PeerStatus>)>,
    looking: tokio::sync::Mutex<()>,
}

impl Peers {
    /// Everybody but this node.
    pub(super) fn of(config: &Config) -> Self {
        let me = config.identity.peer_id();
        let address = |address: &str| Reachability { address: address.into(), reachable: None };
        let others = config.peers.as_slice().iter().filter(|peer| peer.id != me);
        let peers = others.map(|peer| PeerStatus {
            name: peer.name.clone(),
            id: peer.id.to_string(),
            private: address(peer.private.as_str()),
            public: address(peer.public.as_str()),
        });
        Peers { last: Mutex::new((None, peers.collect())), looking: tokio::sync::Mutex::new(()) }
    }

    fn last(&self) -> (Option<Instant>, Vec<PeerStatus>) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at all of them at once, unless that was done a moment ago.
    pub(super) async fn look(&self) -> Vec<PeerStatus> {
        let _one = self.looking.lock().await;
        let (looked, peers) = self.last();
        if looked.is_some_and(|looked| looked.elapsed() < FRESH) {
            return peers;
        }
        let looked = join_all(peers.into_iter().map(|mut peer| async {
            let (private, public) = tokio::join!(answers(&peer.private.address), answers(&peer.public.address));
            (peer.private.reachable, peer.public.reachable) = (Some(private), Some(public));
            peer
        }))
        .await;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (Some(Instant::now()), looked.clone());
        looked
    }

    /// How many answered when somebody last looked: on the private graph, on the public one.
    pub(super) fn answering(&self) -> (u64, u64) {
        let (_, peers) = self.last();
        let count = |side: fn(&PeerStatus) -> &Reachability| {
            peers.iter().filter(|peer| side(peer).reachable == Some(true)).count() as u64
        };
        (count(|peer| &peer.private), count(|peer| &peer.public))
    }
}

/// Whether somebody accepts connections there.
async fn answers(address: &str) -> bool {
    let parts: Vec<&str> = address.split('/').collect();
    let (Some(host), Some(port)) = (parts.get(2), parts.get(4).and_then(|port| port.parse::<u16>().ok())) else { return false };
    matches!(timeout(PATIENCE, TcpStream::connect((*host, port))).await, Ok(Ok(_)))
}
