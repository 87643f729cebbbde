//! The peers that are listed on one graph, and the run that a listed peer's streams belong to.
//! Shared by the swarm's task, the hub and all that is attached to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libp2p::identity::PublicKey;
use libp2p::swarm::ConnectionId;
use libp2p::{Multiaddr, PeerId};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use undertone_protocol::messages::notice::Network;

use crate::network::address::Whereabouts;
use crate::network::dial_fault::DialFault;
use crate::network::event::NetworkEvent;
use crate::network::hello::Verdict;
use crate::network::lane::Lane;
use crate::network::links::LinkLog;
use crate::network::neighbours::Neighbours;
use crate::network::offence::Offence;
use crate::network::pending_connections::PendingConnections;
use crate::network::reports::Reports;

/// The time for which a peer stays listed after the last run with it. Neighbours that still ask
/// learn that the run is over, and are not turned away as strangers.
const RETAINED: Duration = Duration::from_secs(30);

/// The most declined runs that are remembered. A peer that asks for an earlier one hears "absent".
/// Our choice: more than an operator is offered in the time that any of them waits.
const DECLINED: usize = 256;

/// The usable connections of a peer, as the swarm's task knows them.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    /// All connections on which streams may be opened.
    pub(super) live: BTreeSet<ConnectionId>,
    /// The one to open streams on.
    pub(super) best: Option<ConnectionId>,
    /// The relays of those that go over one.
    pub(super) relays: BTreeMap<ConnectionId, PeerId>,
    /// Since when there has been one.
    pub(super) since: Option<Instant>,
    /// One of our own dials has come through to one of its addresses: they lead to it.
    pub(super) reached: bool,
    /// How often `live` changed or a dial came to nothing.
    pub(super) changes: u64,
    /// How many dials have come to nothing since the last connection, and why the last one did.
    pub(super) in_vain: u32,
    pub(super) fault: Option<DialFault>,
}

/// An arrival for one edge.
#[derive(Debug)]
pub(super) enum Arrival {
    /// The peer has said hello.
    Stream(Lane),
    /// The peer, or somebody in its name, has done wrong.
    Offence(Offence),
}

struct Listed {
    key: PublicKey,
    /// Where the operator has it.
    kept: Option<Whereabouts>,
    /// Where a run had it last.
    planned: Whereabouts,
    uses: usize,
    unused_since: Option<Instant>,
    link: watch::Sender<Link>,
    runs: BTreeMap<[u8; 32], mpsc::Sender<Arrival>>,
}

#[derive(Default)]
struct Lists {
    peers: BTreeMap<PeerId, Listed>,
    runs: BTreeMap<[u8; 32], Reports>,
    /// Runs in which this node takes no part, the latest at the end.
    declined: VecDeque<[u8; 32]>,
    /// Peers whose keys were revoked.
    barred: BTreeSet<PeerId>,
}

/// The peers that are listed on one graph, and the runs that are attached.
pub(super) struct PeerTable {
    /// Whose connections these are: the private graph's, which are encrypted, or the public one's.
    graph: Network,
    /// The hub serves this run only, and names it to whoever asks for another.
    only: Option<[u8; 32]>,
    /// The operator has a list of peers, so that a plan leads nobody inside of this machine's
    /// networks.
    has_list: bool,
    lists: Mutex<Lists>,
    /// A listed peer has come directly: others can dial us.
    reached: AtomicBool,
    /// Where those wait who have not said who they are.
    pending_connections: PendingConnections,
    /// Peers that got a connection and had none.
    pub(super) links: LinkLog,
}

impl Listed {
    /// Whether a run lists it, beside the operator.
    fn is_in_a_run(&self) -> bool {
        self.uses > usize::from(self.kept.is_some())
    }

    /// Where to dial it: a run does not move whom the operator has listed with an address.
    fn places(&self) -> &Whereabouts {
        let kept = self.kept.as_ref().filter(|places| !places.is_empty());
        kept.unwrap_or(&self.planned)
    }
}

impl PeerTable {
    pub(super) fn new(graph: Network, only: Option<[u8; 32]>, has_list: bool) -> PeerTable {
        PeerTable {
            graph,
            only,
            has_list,
            lists: Mutex::default(),
            reached: AtomicBool::new(false),
            pending_connections: PendingConnections::default(),
            links: LinkLog::default(),
        }
    }

    /// Turns these peers away from now on, whose keys were revoked, and nobody else. Runs that go
    /// on with one of them keep their edges, and lose them at their end.
    pub(super) fn bar(&self, peers: BTreeSet<PeerId>) {
        self.lock().barred = peers;
    }

    /// Whether a peer's key was revoked.
    pub(super) fn is_barred(&self, peer: &PeerId) -> bool {
        self.lock().barred.contains(peer)
    }

    /// Whether a peer may connect: one whose key was revoked may for a run alone.
    pub(super) fn admits(&self, peer: &PeerId) -> bool {
        let lists = self.lock();
        let listed = lists.peers.get(peer);
        listed.is_some_and(|listed| !lists.barred.contains(peer) || listed.is_in_a_run())
    }

    /// A listed peer has come directly.
    pub(super) fn note_reached(&self) {
        self.reached.store(true, Ordering::Relaxed);
    }

    /// Whether a listed peer has come directly.
    pub(super) fn is_reached(&self) -> bool {
        self.reached.load(Ordering::Relaxed)
    }

    /// Whether its connections are encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.graph == Network::Private
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a peer for good, at the places that the operator gave it.
    pub(super) fn keep(&self, peer: PeerId, key: &PublicKey, places: &Whereabouts) {
        self.list(peer, key, &Whereabouts::default());
        if let Some(listed) = self.lock().peers.get_mut(&peer) {
            listed.kept = Some(places.clone());
        }
        self.know(places);
    }

    /// Lists these peers for good, at the places that the operator gives them from now on, and
    /// nobody else: who was listed for good before and is not any more stays for as long as runs
    /// list it.
    pub(super) fn keep_only(&self, peers: &Neighbours) {
        let mut gone = vec![];
        for (peer, listed) in &mut self.lock().peers {
            if let Some(kept) = &mut listed.kept {
                match peers.0.get(peer) {
                    Some(known) => kept.clone_from(&known.places),
                    None => {
                        listed.kept = None;
                        gone.push(*peer);
                    }
                }
            }
        }
        gone.iter().for_each(|peer| self.unlist(peer));
        for (peer, known) in &peers.0 {
            if self.is_kept(peer) {
                self.know(&known.places);
            } else {
                self.keep(*peer, &known.key, &known.places);
            }
        }
    }

    fn is_kept(&self, peer: &PeerId) -> bool {
        let lists = self.lock();
        lists.peers.get(peer).is_some_and(|listed| listed.kept.is_some())
    }

    /// Hosts of listed peers keep their places while they have not said who they are.
    fn know(&self, places: &Whereabouts) {
        for host in places.ips() {
            self.pending_connections.know(&Multiaddr::from(host));
        }
    }

    /// Lists a peer once more, at the places of a run. Where the operator has a list, a run leads
    /// nobody inside of this machine's networks.
    pub(super) fn list(&self, peer: PeerId, key: &PublicKey, places: &Whereabouts) {
        let mut lists = self.lock();
        let listed = lists.peers.entry(peer).or_insert_with(|| Listed {
            key: key.clone(),
            kept: None,
            planned: Whereabouts::default(),
            uses: 0,
            unused_since: None,
            link: watch::channel(Link::default()).0,
            runs: BTreeMap::new(),
        });
        listed.uses += 1;
        listed.unused_since = None;
        if !places.is_empty() {
            listed.planned = match self.has_list {
                true => places.clone().outside_only(),
                false => places.clone(),
            };
            drop(lists);
            self.know(places);
        }
    }

    /// Takes one listing back.
    pub(super) fn unlist(&self, peer: &PeerId) {
        if let Some(listed) = self.lock().peers.get_mut(peer) {
            listed.uses -= 1;
            listed.unused_since = (listed.uses == 0).then(Instant::now);
        }
    }

    /// Forgets peers that nobody has listed for a while, and that are not in use; returns them.
    pub(super) fn expire(&self, now: Instant, in_use: &BTreeSet<PeerId>) -> Vec<PeerId> {
        let mut expired = Vec::new();
        let mut lists = self.lock();
        lists.peers.retain(|peer, listed| {
            let keep = listed
                .unused_since
                .is_none_or(|since| now.duration_since(since) < RETAINED || in_use.contains(peer));
            if !keep {
                expired.push(*peer);
            }
            keep
        });
        self.links.retain(|peer| lists.peers.contains_key(peer));
        expired
    }

    /// Where those wait who have not said who they are.
    pub(super) fn pending_connections(&self) -> &PendingConnections {
        &self.pending_connections
    }

    pub(super) fn len(&self) -> usize {
        self.lock().peers.len()
    }

    pub(super) fn lists(&self, peer: &PeerId) -> bool {
        self.lock().peers.contains_key(peer)
    }

    pub(super) fn key(&self, peer: &PeerId) -> Option<PublicKey> {
        self.lock().peers.get(peer).map(|listed| listed.key.clone())
    }

    /// Returns where a peer is to be dialled now. Nowhere if it is not listed, too.
    pub(super) fn places(&self, peer: &PeerId) -> Whereabouts {
        let lists = self.lock();
        let listed = lists.peers.get(peer);
        listed.map(|listed| listed.places().clone()).unwrap_or_default()
    }

    /// Follows a listed peer's connections.
    pub(super) fn link(&self, peer: &PeerId) -> Option<watch::Receiver<Link>> {
        Some(self.lock().peers.get(peer)?.link.subscribe())
    }

    /// The only run that the hub serves, if it serves only one.
    pub(super) fn only(&self) -> Option<[u8; 32]> {
        self.only
    }

    /// Whether this run is attached.
    pub(super) fn has(&self, digest: &[u8; 32]) -> bool {
        self.lock().runs.contains_key(digest)
    }

    /// A run wants to hear what concerns nobody in particular.
    pub(super) fn attach(&self, digest: [u8; 32], reports: Reports) {
        self.lock().runs.insert(digest, reports);
    }

    pub(super) fn detach(&self, digest: &[u8; 32]) {
        self.lock().runs.remove(digest);
    }

    /// Answers peers that ask for this run that this node takes no part, unless it is attached.
    pub(super) fn decline(&self, digest: [u8; 32]) {
        let declined = &mut self.lock().declined;
        if !declined.contains(&digest) {
            if declined.len() >= DECLINED {
                declined.pop_front();
            }
            declined.push_back(digest);
        }
    }

    /// Streams of a listed peer that name this run go there from now on.
    pub(super) fn enter(&self, peer: &PeerId, digest: [u8; 32], arrivals: mpsc::Sender<Arrival>) {
        let mut lists = self.lock();
        let listed = lists.peers.get_mut(peer).expect("only listed peers have edges");
        listed.runs.insert(digest, arrivals);
    }

    pub(super) fn leave(&self, peer: &PeerId, digest: &[u8; 32]) {
        if let Some(listed) = self.lock().peers.get_mut(peer) {
            listed.runs.remove(digest);
        }
    }

    /// Decides how to answer a peer that names this run.
    pub(super) fn verdict(&self, peer: &PeerId, digest: &[u8; 32]) -> Verdict<mpsc::Sender<Arrival>> {
        let lists = self.lock();
        let going = lists
            .runs
            .get(digest)
            .is_some_and(|reports| !reports.shutting_down());
        match (
            lists.peers.get(peer).and_then(|listed| listed.runs.get(digest)),
            self.only,
        ) {
            (Some(arrivals), _) if going => Verdict::Welcome(arrivals.clone()),
            (_, Some(only)) if only != *digest => Verdict::Other(only),
            _ if lists.declined.contains(digest) && !lists.runs.contains_key(digest) => Verdict::Declined,
            _ => Verdict::Absent,
        }
    }

    /// Reports a peer's offence to all runs with it. A run that is behind misses it.
    pub(super) fn blame(&self, peer: &PeerId, offence: &Offence) {
        if let Some(listed) = self.lock().peers.get(peer) {
            for arrivals in listed.runs.values() {
                let _ = arrivals.try_send(Arrival::Offence(offence.clone()));
            }
        }
    }

    /// Reports an event to all runs. A run that is behind misses it.
    pub(super) fn tell(&self, event: impl Fn() -> NetworkEvent) {
        for reports in self.lock().runs.values() {
            reports.try_tell(event());
        }
    }

    pub(super) fn update(&self, peer: &PeerId, change: impl FnOnce(&mut Link)) {
        if let Some(listed) = self.lock().peers.get(peer) {
            listed.link.send_modify(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use libp2p::identity::Keypair;

    use super::*;
    use crate::network::neighbours::Neighbour;

    fn place(port: u16) -> Whereabouts {
        Whereabouts::parse(&[format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap()]).unwrap()
    }

    fn keys<const N: usize>() -> [PublicKey; N] {
        [(); N].map(|()| Keypair::generate_ed25519().public())
    }

    #[test]
    fn a_peer_stays_listed_while_it_is_used_and_thirty_seconds_longer() {
        let peer_table = PeerTable::new(Network::Private, None, false);
        let [key] = keys();
        let peer = key.to_peer_id();
        let none = BTreeSet::new();
        let later = |share: u32| Instant::now() + RETAINED * share / 10;
        peer_table.list(peer, &key, &place(1));
        peer_table.list(peer, &key, &place(1));
        peer_table.unlist(&peer);
        assert!(
            peer_table.expire(later(20), &none).is_empty(),
            "a second run uses it"
        );
        peer_table.unlist(&peer);
        assert!(
            peer_table.expire(later(9), &none).is_empty(),
            "neighbours may still ask"
        );
        peer_table.list(peer, &key, &place(1));
        assert!(peer_table.expire(later(20), &none).is_empty(), "it is used again");
        peer_table.unlist(&peer);
        assert_eq!(peer_table.expire(later(11), &none), [peer]);
        assert!(!peer_table.lists(&peer) && peer_table.expire(later(20), &none).is_empty());
    }

    #[test]
    fn another_list_of_the_operators_lets_go_of_who_is_not_in_it_but_for_runs() {
        let neighbours = |of: &[(&PublicKey, u16)]| {
            let each = of.iter().map(|(key, port)| {
                let (key, places) = ((*key).clone(), place(*port));
                (key.to_peer_id(), Neighbour { places, key })
            });
            Neighbours(each.collect())
        };
        let peer_table = PeerTable::new(Network::Private, None, false);
        let [stays, used, leaves] = keys();
        peer_table.keep_only(&neighbours(&[(&stays, 1), (&used, 2), (&leaves, 3)]));
        peer_table.list(used.to_peer_id(), &used, &place(9));
        let none = BTreeSet::new();
        let long_after = Instant::now() + 2 * RETAINED;
        assert!(
            peer_table.expire(long_after, &none).is_empty(),
            "the operator's stay"
        );
        peer_table.keep_only(&neighbours(&[(&stays, 4)]));
        assert_eq!(
            peer_table.expire(Instant::now() + 2 * RETAINED, &none),
            [leaves.to_peer_id()]
        );
        assert_eq!(peer_table.places(&stays.to_peer_id()), place(4));
        // Whom only a run lists now is where the next run has it, and ends with it.
        peer_table.list(used.to_peer_id(), &used, &place(9));
        assert_eq!(peer_table.places(&used.to_peer_id()), place(9));
        peer_table.unlist(&used.to_peer_id());
        peer_table.unlist(&used.to_peer_id());
        assert_eq!(
            peer_table.expire(Instant::now() + 2 * RETAINED, &none),
            [used.to_peer_id()]
        );
    }

    #[test]
    fn a_peer_is_welcome_in_its_own_runs_while_these_go_on() {
        let (only, other) = ([1; 32], [2; 32]);
        let (events, _events) = mpsc::channel(1);
        let (sender, _arrivals) = mpsc::channel(1);
        for named in [None, Some(only)] {
            let peer_table = PeerTable::new(Network::Private, named, false);
            let [member, neighbour] = keys();
            let (stop, stopping) = watch::channel(false);
            let stop_of = stopping.clone();
            for key in [&member, &neighbour] {
                peer_table.list(key.to_peer_id(), key, &place(1));
            }
            let verdict = |key: &PublicKey, digest| match peer_table.verdict(&key.to_peer_id(), &digest) {
                Verdict::Welcome(_) => "welcome",
                Verdict::Other(digest) => {
                    assert_eq!(digest, only);
                    "other"
                }
                Verdict::Absent => "absent",
                Verdict::Declined => "declined",
            };
            let elsewhere = if named.is_some() { "other" } else { "absent" };
            assert_eq!(
                (verdict(&member, only), verdict(&member, other)),
                ("absent", elsewhere)
            );
            peer_table.attach(
                only,
                Reports {
                    events: events.clone(),
                    stop: stop_of,
                },
            );
            assert_eq!(verdict(&member, only), "absent", "it is not in the run yet");
            peer_table.enter(&member.to_peer_id(), only, sender.clone());
            assert_eq!(
                (verdict(&member, only), verdict(&member, other)),
                ("welcome", elsewhere)
            );
            assert_eq!(verdict(&neighbour, only), "absent", "the run is without it");
            stop.send(true).unwrap();
            assert_eq!(verdict(&member, only), "absent", "the run ends");
            peer_table.leave(&member.to_peer_id(), &only);
            peer_table.detach(&only);
            assert!(!peer_table.has(&only) && verdict(&member, only) == "absent");
            peer_table.decline(only);
            assert_eq!(verdict(&member, only), "declined");
            for number in 0..DECLINED as u16 {
                let [high, low] = number.to_be_bytes();
                peer_table.decline([[9, high, low, 0]; 8].concat().try_into().unwrap());
            }
            assert_eq!(peer_table.lock().declined.len(), DECLINED);
            assert_eq!(verdict(&member, only), "absent", "the earliest is forgotten");
        }
    }

    #[test]
    fn a_run_moves_nobody_whom_the_operator_has_listed() {
        let peer_table = PeerTable::new(Network::Private, None, false);
        let [kept, met] = keys();
        let port_of = |key: &PublicKey| peer_table.places(&key.to_peer_id());
        peer_table.list(met.to_peer_id(), &met, &place(1));
        peer_table.list(met.to_peer_id(), &met, &place(2));
        assert_eq!(
            port_of(&met),
            place(2),
            "whom only runs list is where the last one has it"
        );

        let listing = PeerTable::new(Network::Private, None, true);
        listing.list(met.to_peer_id(), &met, &place(1));
        assert_eq!(listing.places(&met.to_peer_id()), place(1).outside_only());

        // Whether the run or the operator was there first.
        peer_table.keep(kept.to_peer_id(), &kept, &place(3));
        peer_table.keep(met.to_peer_id(), &met, &place(4));
        for (key, operators) in [(&kept, place(3)), (&met, place(4))] {
            peer_table.list(key.to_peer_id(), key, &place(5));
            assert_eq!(port_of(key), operators);
            peer_table.unlist(&key.to_peer_id());
            assert_eq!(port_of(key), operators, "also after the run");
        }
        // The operator has moved it.
        peer_table.keep(kept.to_peer_id(), &kept, &place(6));
        assert_eq!(port_of(&kept), place(6));
    }
}
