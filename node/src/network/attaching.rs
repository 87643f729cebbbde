//! A run on a hub: its neighbours' listings, and a task for each of its edges.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};

use libp2p::{PeerId, StreamProtocol};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use undertone_protocol::messages::notice::Network;
use undertone_protocol::messages::wire::SHORT_ITEM_BYTES;

use crate::network::address::Whereabouts;
use crate::network::config::{NetworkError, RUNS, RunGraph};
use crate::network::edge::state::{Edge, Presence};
use crate::network::edge::ways::{Way, Ways};
use crate::network::hello::Credentials;
use crate::network::hub_state::{HubState, Side};
use crate::network::line::Line;
use crate::network::neighbours::Neighbours;
use crate::network::queue::Queue;
use crate::network::reports::Reports;
use crate::network::session::{self, PUBLIC_STREAM, STREAM};

/// Offences and streams of a peer that wait for its edge.
const ARRIVALS: usize = 8;

/// A run's place in the hub: its neighbours are listed for as long as this lives.
pub(super) struct Berth {
    state: Arc<HubState>,
    digest: [u8; 32],
    peers: Vec<(Network, PeerId)>,
}

impl Berth {
    pub(super) fn take(
        state: &Arc<HubState>,
        digest: [u8; 32],
        neighbours: [&Neighbours; 2],
        links: &Neighbours,
        reports: &Reports,
    ) -> Result<Berth, NetworkError> {
        let mut runs = state.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if runs.len() >= RUNS {
            return Err(NetworkError::TooManyRuns { limit: RUNS });
        }
        if !runs.insert(digest) {
            return Err(NetworkError::SameRun);
        }
        drop(runs);
        let mut peers = Vec::new();
        for (side, neighbours) in [&state.private, &state.public].into_iter().zip(neighbours) {
            side.carrier.peer_table.attach(digest, reports.clone());
            for (peer, known) in &neighbours.0 {
                side.carrier.peer_table.list(*peer, &known.key, &known.places);
                peers.push((side.graph, *peer));
            }
        }
        // Whom a public edge joins is listed on the encrypted swarm, too.
        let [_, public] = neighbours;
        for (peer, known) in &public.0 {
            let places = links.0.get(peer).map(|link| &link.places);
            let table = &state.private.carrier.peer_table;
            table.list(*peer, &known.key, places.unwrap_or(&Whereabouts::default()));
            peers.push((Network::Private, *peer));
        }
        Ok(Berth {
            state: state.clone(),
            digest,
            peers,
        })
    }
}

impl Drop for Berth {
    fn drop(&mut self) {
        for side in [&self.state.private, &self.state.public] {
            let table = &side.carrier.peer_table;
            table.detach(&self.digest);
            for (_, peer) in self.peers.iter().filter(|(graph, _)| *graph == side.graph) {
                table.leave(peer, &self.digest);
                table.unlist(peer);
            }
        }
        self.state
            .runs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.digest);
    }
}

/// The parts that are needed only while an attachment is put together.
pub(super) struct Builder<'a> {
    pub(super) state: &'a HubState,
    pub(super) digest: [u8; 32],
    pub(super) presences: BTreeMap<PeerId, Arc<Presence>>,
    pub(super) lines: BTreeMap<(Network, PeerId), Arc<Line>>,
    pub(super) reports: Reports,
    pub(super) edges: JoinSet<()>,
    pub(super) begun: Arc<watch::Sender<bool>>,
}

impl Builder<'_> {
    /// Starts a task for each edge; returns the counter of sent bytes.
    pub(super) fn join(
        &mut self,
        side: &Side,
        neighbours: Neighbours,
        settings: &RunGraph,
    ) -> Arc<AtomicU64> {
        let sent = Arc::new(AtomicU64::new(0));
        for (peer, neighbour) in neighbours.0 {
            let line = self.line(side.graph, peer, settings, &sent);
            self.lines.insert((side.graph, peer), line.clone());
            let presence = self.presences.entry(peer).or_default().clone();
            presence.add(line.clone());
            let (arrivals, receiver) = mpsc::channel(ARRIVALS);
            side.carrier.peer_table.enter(&peer, self.digest, arrivals);
            let edge = Edge {
                line,
                credentials: Credentials {
                    graph: side.graph,
                    asks: false,
                    version: self.state.version,
                    key: self.state.key.clone(),
                    peer,
                    peer_key: neighbour.key,
                    patience: self.state.patience.hello,
                },
                digest: self.digest,
                presence,
                dial_patience: self.state.patience.dial,
                ways: self.ways(side.graph, peer),
                arrivals: receiver,
                reports: self.reports.clone(),
                lost: false,
                begun: self.begun.subscribe(),
                reported: None,
                absent: false,
                over_relay: false,
            };
            self.edges.spawn(edge.run());
        }
        sent
    }

    /// The swarms that an edge's streams may take.
    fn ways(&self, graph: Network, peer: PeerId) -> Ways {
        let of = |side: &Side, protocol: StreamProtocol| Way {
            carrier: side.carrier.clone(),
            link: side.carrier.peer_table.link(&peer).expect("it is listed"),
            protocol,
        };
        let (private, public) = (&self.state.private, &self.state.public);
        let ways = match graph {
            Network::Private => vec![of(private, STREAM)],
            Network::Public => vec![of(public, STREAM), of(private, PUBLIC_STREAM)],
        };
        Ways { peer, ways }
    }

    fn line(&self, graph: Network, peer: PeerId, settings: &RunGraph, sent: &Arc<AtomicU64>) -> Arc<Line> {
        // Each frame costs its bytes and a 64th of the budget; the longest must fit.
        let least = settings.max_frame + settings.max_frame / 32 + session::FRAMES_IN_FLIGHT;
        Arc::new(Line {
            graph,
            peer,
            digest: self.digest,
            queue: Queue::new(settings.queue_frames, settings.queue_bytes).overtaking(match graph {
                // Notices and short items: agreeing must not wait for vectors.
                Network::Public => 2 * SHORT_ITEM_BYTES,
                // Shares and what answers them keep their order.
                Network::Private => 0,
            }),
            max_frame: settings.max_frame,
            inbound_bytes: settings.inbound_bytes.clamp(least, u32::MAX as usize),
            stall: self.state.patience.stall,
            sent: sent.clone(),
        })
    }
}
