//! The swarms that an edge's streams may take.
//!
//! An edge of the private graph takes the encrypted swarm, and no other. One of the public graph
//! takes the plain swarm where either end can be dialled there, and else, or while that does not
//! come up, the encrypted connection that the two have.

use std::time::Duration;

use futures::future::{FutureExt, select_all};
use libp2p::swarm::ConnectionId;
use libp2p::{PeerId, StreamProtocol};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::network::address::Whereabouts;
use crate::network::carrier::Carrier;
use crate::network::command::SwarmCommand;
use crate::network::event::LinkWay;
use crate::network::peer_table::Link;

/// For how long an encrypted connection waits for a plain one before public streams take it. Our
/// guess: they are dialled at the same time.
const PLAIN_FIRST: Duration = Duration::from_secs(1);

/// One swarm that an edge's streams may take.
pub(in crate::network) struct Way {
    pub(in crate::network) carrier: Carrier,
    pub(in crate::network) link: watch::Receiver<Link>,
    /// The protocol of the edge's streams there.
    pub(in crate::network) protocol: StreamProtocol,
}

/// All that an edge's streams may take: the plain one first, the encrypted one last.
pub(in crate::network) struct Ways {
    pub(in crate::network) peer: PeerId,
    pub(in crate::network) ways: Vec<Way>,
}

impl Ways {
    /// Resolves when connections came or went, or a dial came to nothing; false: the hub is gone.
    pub(super) async fn changed(&mut self) -> bool {
        let links = self.ways.iter_mut().map(|way| way.link.changed().boxed());
        select_all(links).await.0.is_ok()
    }

    /// All connections together, and the one to take now.
    pub(super) fn link(&mut self) -> Link {
        let waits = self.plain_until().is_some_and(|until| Instant::now() < until);
        let mut all = Link::default();
        for way in &mut self.ways {
            let link = way.link.borrow_and_update();
            all.live.extend(&link.live);
            all.reached |= link.reached;
            all.changes += link.changes;
            if all.best.is_none() && !(waits && way.carrier.peer_table.is_encrypted()) {
                all.best = link.best;
            }
            if link.fault.is_some() && (all.fault.is_none() || link.in_vain > all.in_vain) {
                (all.in_vain, all.fault) = (link.in_vain, link.fault.clone());
            }
        }
        // Whoever is connected has not been dialled in vain.
        if !all.live.is_empty() {
            (all.in_vain, all.fault) = (0, None);
        }
        all
    }

    /// Whether one of its addresses has led to the peer. Changes stay to be seen.
    pub(super) fn reached(&self) -> bool {
        self.ways.iter().any(|way| way.link.borrow().reached)
    }

    /// Until when a plain connection is waited for, though there is an encrypted one.
    pub(super) fn plain_until(&self) -> Option<Instant> {
        let [plain, encrypted] = &*self.ways else {
            return None;
        };
        let possible = plain.carrier.announced || plain.carrier.lists_address(&self.peer);
        let (plain, encrypted) = (plain.link.borrow(), encrypted.link.borrow());
        let since = encrypted.since.filter(|_| possible && plain.best.is_none())?;
        Some(since + PLAIN_FIRST)
    }

    /// The way that a connection is of.
    pub(super) fn of(&self, connection: ConnectionId) -> Option<&Way> {
        let has = |way: &&Way| way.link.borrow().live.contains(&connection);
        self.ways.iter().find(has)
    }

    /// The way of a connection, for people.
    pub(super) fn taken(&self, connection: ConnectionId) -> LinkWay {
        match self.of(connection) {
            Some(way) if !way.carrier.peer_table.is_encrypted() => LinkWay::Plain,
            Some(way) => match way.link.borrow().relays.get(&connection) {
                Some(relay) => LinkWay::Relayed(*relay),
                None => LinkWay::Encrypted,
            },
            None => LinkWay::Encrypted,
        }
    }

    /// The encrypted swarm.
    pub(super) fn encrypted(&self) -> &Carrier {
        &self
            .ways
            .last()
            .expect("every edge may take the encrypted swarm")
            .carrier
    }

    /// Where the peer must refuse connections to count as gone: its encrypted addresses, its plain
    /// one if it has none.
    pub(super) fn probed(&self) -> Whereabouts {
        let places = self.ways.iter().rev();
        let mut places = places.map(|way| way.carrier.peer_table.places(&self.peer));
        places.find(|places| !places.is_empty()).unwrap_or_default()
    }

    /// Where the peer is dialled first, for people.
    pub(super) fn dialled(&self) -> Whereabouts {
        let places = self.ways.iter();
        let mut places = places.map(|way| way.carrier.peer_table.places(&self.peer));
        places.find(|places| !places.is_empty()).unwrap_or_default()
    }

    /// Commands the swarm that a connection is of; of one that is gone, all of them.
    pub(super) async fn command(&self, connection: ConnectionId, command: impl Fn() -> SwarmCommand) {
        match self.of(connection) {
            Some(way) => way.carrier.command(command()).await,
            None => {
                for way in &self.ways {
                    way.carrier.command(command()).await;
                }
            }
        }
    }

    /// The swarms to dial on, in order: those on which the peer has an address, if this is our turn
    /// or nobody can dial us there; and whether to look for it at relays. `direct_first`: a peer
    /// that can dial us, and that we cannot, may still do so.
    pub(super) fn to_dial(&self, our_turn: bool, direct_first: bool) -> (Vec<Carrier>, bool) {
        let ours = |carrier: &Carrier| our_turn || !carrier.announced;
        let carriers = self.ways.iter().map(|way| &way.carrier);
        let direct = carriers.filter(|carrier| carrier.lists_address(&self.peer) && ours(carrier));
        let encrypted = self.encrypted();
        // Of two without addresses the lower id dials first, as of two with.
        let relayed = match encrypted.lists_address(&self.peer) {
            true => ours(encrypted),
            false => our_turn && !(encrypted.announced && direct_first),
        };
        (direct.cloned().collect(), relayed && !encrypted.relays.is_empty())
    }
}
