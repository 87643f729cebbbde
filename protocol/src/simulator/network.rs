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
    /// The moment when the latest message of each direction arrives.
    arrives: [Time; 2],
    /// The moment until which what is sent in each direction vanishes.
    dark_until: [Time; 2],
    /// The probability that a segment of each direction is lost, and until when.
    loss: [(f64, Time); 2],
}

/// The place of a direction in a [`Link`].
fn direction(from: Party, to: Party) -> usize {
    usize::from(from > to)
}

/// The time that a sender waits before it sends a segment again, the first time; each time twice as
/// long as before. Linux's least.
const RETRANSMISSION_MS: u64 = 200;

/// The longest of these waits; Linux's.
const LONGEST_RETRANSMISSION_MS: u64 = 120_000;

/// The bytes of a frame that travel in one segment, about: an Ethernet frame less its headers.
pub(super) const SEGMENT_BYTES: usize = 1448;

/// Returns the moment when a segment that is sent first at `now` leaves and is not lost;
/// [`Time::FAR`]: never.
pub(super) fn leaves(now: Time, dark_until: Time, mut is_lost: impl FnMut() -> bool) -> Time {
    if dark_until == Time::FAR {
        return Time::FAR;
    }
    let (mut at, mut wait_ms) = (now, RETRANSMISSION_MS);
    while at < dark_until || is_lost() {
        at = at.plus_millis(wait_ms);
        wait_ms = (2 * wait_ms).min(LONGEST_RETRANSMISSION_MS);
    }
    at
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

    /// The connection's number; `None` while it is down.
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

    /// Returns the moment when a message that would arrive `at` arrives, after those before it.
    pub(super) fn in_order(&mut self, network: Network, from: Party, to: Party, at: Time) -> Time {
        let Some(link) = self.link(network, from, to) else {
            return at;
        };
        let arrives = &mut link.arrives[direction(from, to)];
        *arrives = at.max(*arrives);
        *arrives
    }

    /// Returns the moment when the latest message of a direction arrives.
    pub(super) fn last_arrival(&self, network: Network, from: Party, to: Party) -> Time {
        let link = self.links.get(&(network, from.min(to), from.max(to)));
        link.map_or(Time::ZERO, |link| link.arrives[direction(from, to)])
    }

    /// All that is sent in this direction vanishes until then.
    pub(super) fn darken(&mut self, network: Network, from: Party, to: Party, until: Time) {
        if let Some(link) = self.link(network, from, to) {
            let dark_until = &mut link.dark_until[direction(from, to)];
            *dark_until = until.max(*dark_until);
        }
    }

    /// Returns the moment until which what is sent in this direction vanishes; the past, if it does
    /// not.
    pub(super) fn dark_until(&self, network: Network, from: Party, to: Party) -> Time {
        let link = self.links.get(&(network, from.min(to), from.max(to)));
        link.map_or(Time::ZERO, |link| link.dark_until[direction(from, to)])
    }

    /// Segments of this direction are lost with this probability until then.
    pub(super) fn lose(&mut self, network: Network, (from, to): (Party, Party), share: f64, until: Time) {
        if let Some(link) = self.link(network, from, to) {
            link.loss[direction(from, to)] = (share, until);
        }
    }

    /// The probability that a segment of this direction is lost now.
    pub(super) fn loss(&self, network: Network, from: Party, to: Party, now: Time) -> f64 {
        let link = self.links.get(&(network, from.min(to), from.max(to)));
        let loss = link.map(|link| link.loss[direction(from, to)]);
        loss.filter(|(_, until)| now < *until)
            .map_or(0.0, |(share, _)| share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_segment_is_sent_again_after_twice_as_long_each_time() {
        let (now, never) = (Time::from_millis(10), || false);
        assert_eq!(leaves(now, Time::ZERO, never), now);
        assert_eq!(leaves(now, Time::from_millis(10), never), now);
        assert_eq!(leaves(now, Time::from_millis(11), never), Time::from_millis(210));
        assert_eq!(
            leaves(now, Time::from_millis(611), never),
            Time::from_millis(1410)
        );
        assert_eq!(leaves(now, Time::FAR, never), Time::FAR);
        let mut lost = [true, true, false].into_iter();
        let is_lost = || lost.next().expect("three tries");
        assert_eq!(leaves(now, Time::ZERO, is_lost), Time::from_millis(610));
    }
}
