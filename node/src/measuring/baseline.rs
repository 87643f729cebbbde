//! How long given bytes take over the very same Noise and plaintext streams between processes: the
//! floor against which the time of a run is measured.
//!
//! One process calls [`BaselineServer::start`] and [`BaselineServer::run`]; it passes the two
//! addresses to another one, which calls [`BaselineClient::connect`], then
//! [`BaselineClient::transfer`]. Both graphs carry their bytes at the same time, all in one
//! direction, in frames of a given length, until the server has said, on both graphs, that it holds
//! the last byte. Connecting is not part of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use libp2p::identity::Keypair;
use libp2p::{Multiaddr, PeerId};
use thiserror::Error;
use tokio::sync::mpsc;
use undertone_protocol::messages::notice::Network;

use crate::network::config::{
    HubConfig, Listening, NetworkError, Patience, PeerAddress, RunConfig, RunGraph,
};
use crate::network::event::NetworkEvent;
use crate::network::handle::Handle;
use crate::network::queue::Frame;
use crate::network::run_network::RunNetwork;

const LOCAL: &str = "/ip4/127.0.0.1/tcp/0";
const SHUTDOWN: Duration = Duration::from_secs(5);

/// The reason why no time was measured.
#[derive(Debug, Error)]
pub enum BenchError {
    /// This process got no network.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The other process of the pair went away, or is not ours.
    #[error("the benchmark's other process failed: {event}")]
    Other {
        /// The event that should not have happened.
        event: String,
    },
}

/// The benchmark's process that receives.
pub struct BaselineServer {
    network: RunNetwork,
    events: mpsc::Receiver<NetworkEvent>,
    client: PeerId,
}

impl BaselineServer {
    /// Listens on loopback. `seed` is any secret that both processes share for this benchmark;
    /// their keys follow from it.
    pub async fn start(seed: [u8; 31], max_frame: usize) -> Result<BaselineServer, NetworkError> {
        let (client, server) = keys(seed);
        // Never dialled: the client's is the lower peer id.
        let nowhere: Multiaddr = "/ip4/127.0.0.1/tcp/9".parse().expect("a multiaddress");
        let client = client.public().to_peer_id();
        let (hub, run) = config(server, client, [nowhere.clone(), nowhere], max_frame);
        let (network, events) = RunNetwork::start(hub, run).await?;
        Ok(BaselineServer {
            network,
            events,
            client,
        })
    }

    /// Where the client finds us: private, public.
    pub fn addresses(&self) -> [Multiaddr; 2] {
        [
            self.network.private_address().clone(),
            self.network.public_address().clone(),
        ]
    }

    /// Serves one transfer, until the client is gone.
    pub async fn run(mut self) {
        let handle = self.network.handle();
        let mut tallies: BTreeMap<Network, Tally> = BTreeMap::new();
        while let Some(event) = self.events.recv().await {
            match event {
                NetworkEvent::Disconnected { .. } | NetworkEvent::Unreachable { .. } => break,
                NetworkEvent::Frame { graph, bytes, .. } => {
                    if let Some(received) = tallies.entry(graph).or_default().count(&bytes) {
                        let answer = received.to_be_bytes()[..].into();
                        let _ = handle.send(graph, self.client, Frame::new(answer));
                    }
                }
                _ => {}
            }
        }
        self.network.shutdown(SHUTDOWN).await;
    }
}

/// A count of the bytes that came in on one graph: the first frame announces how many follow.
#[derive(Default)]
struct Tally {
    announced: Option<u64>,
    received: u64,
}

impl Tally {
    /// Counts a frame; returns the number of received bytes with the frame that completes them, and
    /// only then.
    fn count(&mut self, bytes: &[u8]) -> Option<u64> {
        match self.announced {
            None => self.announced = Some(bytes.try_into().map_or(0, u64::from_be_bytes)),
            Some(_) => self.received += bytes.len() as u64,
        }
        // No frame is empty, and none follows the last byte.
        (Some(self.received) == self.announced).then_some(self.received)
    }
}

/// The sending process, connected on both graphs.
pub struct BaselineClient {
    network: RunNetwork,
    events: mpsc::Receiver<NetworkEvent>,
    server: PeerId,
    frame: usize,
}

impl BaselineClient {
    /// Connects to the server at `addresses` (private, public), to send frames of `frame` bytes (at
    /// least 1, and no more than the server's limit).
    pub async fn connect(
        seed: [u8; 31],
        addresses: [Multiaddr; 2],
        frame: usize,
    ) -> Result<BaselineClient, BenchError> {
        let (client, server) = keys(seed);
        let server = server.public().to_peer_id();
        let (hub, run) = config(client, server, addresses, frame.max(8));
        let (network, mut events) = RunNetwork::start(hub, run).await?;
        let connected = on_both(&mut events, |event| match event {
            NetworkEvent::Connected { graph, .. } => Some((*graph, 0)),
            _ => None,
        });
        connected.await?;
        Ok(BaselineClient {
            network,
            events,
            server,
            frame,
        })
    }

    /// Sends so many bytes on each graph and waits until the server holds them all.
    pub async fn transfer(mut self, private_bytes: u64, public_bytes: u64) -> Result<(), BenchError> {
        let piece: Arc<[u8]> = vec![0x5a; self.frame].into();
        queue(
            &self.network.handle(),
            Network::Private,
            self.server,
            private_bytes,
            &piece,
        );
        queue(
            &self.network.handle(),
            Network::Public,
            self.server,
            public_bytes,
            &piece,
        );
        let answers = on_both(&mut self.events, |event| match event {
            NetworkEvent::Frame { graph, bytes, .. } => {
                Some((*graph, bytes[..].try_into().map_or(0, u64::from_be_bytes)))
            }
            _ => None,
        });
        let received = answers.await?;
        // A time for other bytes than were asked for would be worse than none.
        if received != BTreeMap::from([(Network::Private, private_bytes), (Network::Public, public_bytes)]) {
            return Err(BenchError::Other {
                event: format!("received {received:?}"),
            });
        }
        Ok(())
    }
}

/// Waits for one matching event on each graph; a second one on the same graph is an error.
async fn on_both(
    events: &mut mpsc::Receiver<NetworkEvent>,
    wanted: impl Fn(&NetworkEvent) -> Option<(Network, u64)>,
) -> Result<BTreeMap<Network, u64>, BenchError> {
    let mut found = BTreeMap::new();
    while found.len() < 2 {
        let event = events.recv().await;
        match event.as_ref().and_then(&wanted) {
            Some((graph, value)) if !found.contains_key(&graph) => drop(found.insert(graph, value)),
            _ => {
                return Err(BenchError::Other {
                    event: format!("{event:?}"),
                });
            }
        }
    }
    Ok(found)
}

/// The number of bytes, then the bytes. All frames share one piece of memory.
fn queue(handle: &Handle, graph: Network, server: PeerId, bytes: u64, piece: &Arc<[u8]>) {
    let length = piece.len().max(1) as u64;
    let whole = std::iter::repeat_n(piece.clone(), (bytes / length) as usize);
    let rest: Arc<[u8]> = piece[..(bytes % length) as usize].into();
    let rest = Some(rest).filter(|rest| !rest.is_empty());
    for bytes in std::iter::once(bytes.to_be_bytes()[..].into())
        .chain(whole)
        .chain(rest)
    {
        handle
            .send(graph, server, Frame::new(bytes))
            .expect("no longer than the limit, and the queue has none");
    }
}

/// The client's key has the lower peer id, so that the client dials.
fn keys(seed: [u8; 31]) -> (Keypair, Keypair) {
    let key = |last: u8| {
        let mut secret = [last; 32];
        secret[..31].copy_from_slice(&seed);
        Keypair::ed25519_from_bytes(secret).expect("32 bytes are a secret key")
    };
    let (one, two) = (key(1), key(2));
    if one.public().to_peer_id() < two.public().to_peer_id() {
        (one, two)
    } else {
        (two, one)
    }
}

fn config(
    key: Keypair,
    peer_id: PeerId,
    addresses: [Multiaddr; 2],
    max_frame: usize,
) -> (HubConfig, RunConfig) {
    let [private, public] = addresses.map(|address| {
        let mut graph = RunGraph::new(
            vec![PeerAddress {
                peer_id,
                addresses: vec![address],
            }],
            max_frame,
        );
        (graph.queue_frames, graph.queue_bytes) = (usize::MAX, usize::MAX);
        graph
    });
    let listening = Listening {
        listen: vec![LOCAL.parse().expect("a multiaddress")],
        announced: true,
        peers: vec![],
    };
    let patience = Patience::default();
    (
        HubConfig {
            key,
            version: 0,
            private: listening.clone(),
            public: listening,
            relays: vec![],
            relays_others: false,
            patience,
        },
        RunConfig {
            digest: [1; 32],
            private,
            public,
            links: vec![],
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_bytes_are_there_when_the_clock_stops() {
        // Multiples of a frame, remainders, nothing, and frames as long as the announcement.
        for (private, public, frame) in [
            (3 << 20, 1_000_001, 1 << 20),
            (4 << 20, 0, 1 << 20),
            (0, 4 << 20, 1 << 20),
            (0, 0, 8),
            (80, 1, 8),
        ] {
            let server = BaselineServer::start([7; 31], 1 << 20).await.unwrap();
            let addresses = server.addresses();
            let serving = tokio::spawn(server.run());
            let transfer = async {
                BaselineClient::connect([7; 31], addresses, frame)
                    .await?
                    .transfer(private, public)
                    .await
            };
            tokio::time::timeout(Duration::from_secs(30), transfer)
                .await
                .expect("an end in time")
                .unwrap();
            serving.await.unwrap();
        }
    }

    #[test]
    fn a_tally_answers_once_and_not_early() {
        for bytes in [0, 16, 17] {
            let mut tally = Tally::default();
            let mut answers = vec![tally.count(&u64::to_be_bytes(bytes))];
            answers.extend(vec![9; bytes as usize].chunks(8).map(|piece| tally.count(piece)));
            let last = answers.pop().unwrap();
            assert_eq!(last, Some(bytes));
            assert!(answers.iter().all(Option::is_none), "{answers:?}");
        }
    }
}
