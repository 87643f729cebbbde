//! Connections as ordered streams, and the queue of what happens when.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::messages::notice::Network;
use crate::time::Time;
use crate::topology::graph::Graph;
use crate::topology::party::Party;

/// Something that will happen; the earliest is on top, then the one that was queued first.
pub(super) struct Queued<T> {
    pub(super) at: Time,
    pub(super) order: u64,
    pub(super) what: T,
}

impl<T> PartialEq for Queued<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Queued<T> {}

impl<T> PartialOrd for Queued<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Queued<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

#[derive(Default)]
struct Link {
    up: bool,
    /// Counts connections: what was sent on an earlier one does not arrive.
    epoch: u64,
    /// When the latest message of each direction arrives.
    arrives: [Time; 2],
}

pub(super) struct Links {
    links: BTreeMap<(Network, Party, Party), Link>,
}

impl Links {
    pub(super) fn new(private: &Graph, public: &Graph) -> Self {
        let of = |network, graph: &Graph| {
            graph
                .edges()
                .iter()
                .map(move |&(a, b)| ((network, a, b), Link::default()))
                .collect::<Vec<_>>()
        };
        Links {
            links: of(Network::Private, private)
                .into_iter()
                .chain(of(Network::Public, public))
                .collect(),
        }
    }

    pub(super) fn edges(&self) -> Vec<(Network, (Party, Party))> {
        self.links
            .keys()
            .map(|&(network, a, b)| (network, (a, b)))
            .collect()
    }

    pub(super) fn edges_of(&self, party: Party) -> Vec<(Network, (Party, Party))> {
        self.edges()
            .into_iter()
            .filter(|(_, (a, b))| *a == party || *b == party)
            .collect()
    }

    fn link(&mut self, network: Network, a: Party, b: Party) -> Option<&mut Link> {
        self.links.get_mut(&(network, a.min(b), a.max(b)))
    }

    /// The connection's number; none while it is down.
    pub(super) fn epoch(&self, network: Network, from: Party, to: Party) -> Option<u64> {
        self.links
            .get(&(network, from.min(to), from.max(to)))
            .filter(|link| link.up)
            .map(|link| link.epoch)
    }

    /// False: it was up already.
    pub(super) fn connect(&mut self, network: Network, (a, b): (Party, Party)) -> bool {
        let Some(link) = self.link(network, a, b).filter(|link| !link.up) else {
            return false;
        };
        link.up = true;
        link.epoch += 1;
        link.arrives = [Time::ZERO; 2];
        true
    }

    /// False: it was down already.
    pub(super) fn disconnect(&mut self, network: Network, (a, b): (Party, Party)) -> bool {
        self.link(network, a, b)
            .is_some_and(|link| std::mem::replace(&mut link.up, false))
    }

    /// When a message that would arrive `at` arrives, after those before it.
    pub(super) fn in_order(&mut self, network: Network, from: Party, to: Party, at: Time) -> Time {
        let Some(link) = self.link(network, from, to) else {
            return at;
        };
        let arrives = &mut link.arrives[usize::from(from > to)];
        *arrives = at.max(*arrives);
        *arrives
    }
}
