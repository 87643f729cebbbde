//! Nodes of a test: keys, addresses, and a network of one run that is waited for.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libp2p::core::Transport;
use libp2p::core::muxing::{StreamMuxer, StreamMuxerBox};
use libp2p::core::transport::Boxed;
use libp2p::identity::Keypair;
use libp2p::swarm::{self, Swarm};
use libp2p::{Multiaddr, PeerId};
use tokio::sync::mpsc;
use tokio::time::timeout;
use undertone_protocol::messages::notice::Network;

use crate::forking;
use crate::network::address;
use crate::network::config::{HubConfig, Listening, Patience, PeerAddress, RunConfig, RunGraph};
use crate::network::event::NetworkEvent;
use crate::network::handle::Handle;
use crate::network::held_port::HeldPort;
use crate::network::offence::Offence;
use crate::network::queue::Frame;
use crate::network::run_network::RunNetwork;

pub(super) const DEADLINE: Duration = Duration::from_secs(30);
pub(super) const DIGEST: [u8; 32] = [0xd1; 32];
pub(super) const MAX_FRAME: usize = 9 << 20;

pub(super) fn key(number: u8) -> Keypair {
    Keypair::ed25519_from_bytes([number; 32]).expect("32 bytes are a secret key")
}

pub(super) fn id(number: u8) -> PeerId {
    key(number).public().to_peer_id()
}

/// A peer of a test's own, which opens streams and waits for them.
pub(super) fn opening<M>(transport: Boxed<(PeerId, M)>, peer: PeerId) -> Swarm<libp2p_stream::Behaviour>
where
    M: StreamMuxer + Send + 'static,
    M::Substream: Send,
    M::Error: Send + Sync,
{
    let transport = transport.map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)));
    let config = swarm::Config::with_tokio_executor().with_idle_connection_timeout(2 * DEADLINE);
    Swarm::new(transport.boxed(), libp2p_stream::Behaviour::new(), peer, config)
}

/// Fails instead of hanging.
pub(super) async fn soon<T>(step: impl Future<Output = T>) -> T {
    timeout(DEADLINE, step).await.expect("an end in time")
}

/// A port that refuses connections until somebody listens there, and that nobody else is given
/// before this process ends. It lies below the range from which the system gives ports to outgoing
/// connections (on Linux from 32768), and outside of those where `undertone local` and the tests of
/// the whole program take theirs.
pub(in crate::network) fn free_port() -> u16 {
    static HELD: Mutex<Vec<HeldPort>> = Mutex::new(vec![]);
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut ports = (1_040..2_000).chain(32_000..32_768);
    let found = ports.find_map(|port| Some((port, HeldPort::take(port)?)));
    let (port, holding) = found.expect("a port that nobody has");
    held.push(holding);
    port
}

/// Two addresses for each number, on ports that nobody else takes.
pub(super) struct Addresses(pub(super) Vec<(u8, Multiaddr, Multiaddr)>);

impl Addresses {
    pub(super) fn new(numbers: &[u8]) -> Addresses {
        let address = || address::to_multiaddr((Ipv4Addr::LOCALHOST, free_port()).into());
        Addresses(
            numbers
                .iter()
                .map(|number| (*number, address(), address()))
                .collect(),
        )
    }

    pub(super) fn config(&self, number: u8) -> NodeConfig {
        let of = |graph| {
            let mut listen = None;
            let mut peers = Vec::new();
            for (other, private, public) in &self.0 {
                let address = if graph == Network::Private {
                    private
                } else {
                    public
                }
                .clone();
                if *other == number {
                    listen = Some(address);
                } else {
                    peers.push(PeerAddress {
                        peer_id: id(*other),
                        addresses: vec![address],
                    });
                }
            }
            let listening = Listening {
                listen: vec![listen.expect("one of the numbers")],
                announced: true,
                peers: vec![],
            };
            (listening, RunGraph::new(peers, MAX_FRAME))
        };
        let ((private, private_run), (public, public_run)) = (of(Network::Private), of(Network::Public));
        NodeConfig {
            hub: HubConfig {
                key: key(number),
                version: 1,
                private,
                public,
                relays: vec![],
                relays_others: false,
                patience: Patience::default(),
            },
            run: RunConfig {
                digest: DIGEST,
                private: private_run,
                public: public_run,
                links: vec![],
            },
        }
    }
}

/// The configuration of one node.
pub(super) struct NodeConfig {
    pub(super) hub: HubConfig,
    pub(super) run: RunConfig,
}

pub(super) struct Node {
    pub(super) network: RunNetwork,
    pub(super) handle: Handle,
    pub(super) events: mpsc::Receiver<NetworkEvent>,
}

impl Node {
    pub(super) async fn start(config: NodeConfig) -> Node {
        forking::until_over();
        let (network, events) = RunNetwork::start(config.hub, config.run).await.unwrap();
        Node {
            handle: network.handle(),
            network,
            events,
        }
    }

    pub(super) async fn next(&mut self) -> NetworkEvent {
        timeout(DEADLINE, self.events.recv())
            .await
            .expect("an event in time")
            .expect("a running network")
    }

    /// The first event that `wanted` takes; others are dropped.
    pub(super) async fn find<T>(&mut self, wanted: impl Fn(NetworkEvent) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(self.next().await) {
                return found;
            }
        }
    }

    pub(super) async fn connected(&mut self, edges: usize) {
        let mut up = BTreeSet::new();
        while up.len() < edges {
            up.insert(
                self.find(|event| match event {
                    NetworkEvent::Connected { graph, peer, .. } => Some((graph, peer)),
                    _ => None,
                })
                .await,
            );
        }
    }

    pub(super) async fn frame(&mut self) -> (Network, PeerId, Vec<u8>) {
        self.find(|event| match event {
            NetworkEvent::Frame { graph, peer, bytes } => Some((graph, peer, bytes.to_vec())),
            _ => None,
        })
        .await
    }

    pub(super) async fn offence(&mut self) -> (Option<PeerId>, Offence) {
        self.find(|event| match event {
            NetworkEvent::Offence { peer, offence, .. } => Some((peer, offence)),
            _ => None,
        })
        .await
    }

    pub(super) fn send(&self, graph: Network, to: u8, bytes: &[u8]) {
        self.handle.send(graph, id(to), Frame::new(bytes.into())).unwrap();
    }
}

/// Nodes 1 and 2, connected on both graphs.
pub(super) async fn pair() -> (Node, Node) {
    let addresses = Addresses::new(&[1, 2]);
    let mut one = Node::start(addresses.config(1)).await;
    let mut two = Node::start(addresses.config(2)).await;
    one.connected(2).await;
    two.connected(2).await;
    (one, two)
}
