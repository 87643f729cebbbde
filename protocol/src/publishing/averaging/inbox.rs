//! Messages of averaging that came in and were not used yet. Who may put one in, of which rounds
//! and how long, is for the [`machine`](crate::publishing::averaging::machine) to say; it lets in
//! those of two rounds a neighbour, so this is bounded by the graph.

use std::collections::BTreeMap;

use crate::messages::notice::Round;
use crate::messages::signature::Signature;
use crate::messages::wire::Bytes;
use crate::topology::party::Party;

/// A message's vector, and the signature by which another one of its round is distinguished from
/// it.
struct Arrival {
    values: Bytes,
    signature: Signature,
}

/// All of a node's.
#[derive(Default)]
pub(super) struct Inbox {
    arrivals: BTreeMap<(Party, u32), Arrival>,
    /// The newest that was used, by author.
    used: BTreeMap<Party, (u32, Signature)>,
}

impl Inbox {
    /// Whether its author has signed another message of that very round, as far as this is
    /// remembered: of rounds not used yet, and of the newest that was. An honest node signs one,
    /// and sends those bytes again.
    pub(super) fn is_second(&self, round: &Round) -> bool {
        let here = self
            .arrivals
            .get(&(round.author, round.round))
            .map(|arrival| arrival.signature);
        let used = self
            .used
            .get(&round.author)
            .filter(|used| used.0 == round.round)
            .map(|used| used.1);
        [here, used]
            .into_iter()
            .flatten()
            .any(|signature| signature != round.signature)
    }

    /// Keeps the first message of its author and round.
    pub(super) fn put(&mut self, round: &Round, values: Bytes) {
        let arrival = Arrival {
            values,
            signature: round.signature,
        };
        self.arrivals
            .entry((round.author, round.round))
            .or_insert(arrival);
    }

    /// Whether a message is here.
    pub(super) fn has(&self, author: Party, round: u32) -> bool {
        self.arrivals.contains_key(&(author, round))
    }

    /// Takes a message out, to be used.
    pub(super) fn take(&mut self, author: Party, round: u32) -> Option<Bytes> {
        let arrival = self.arrivals.remove(&(author, round))?;
        self.used.insert(author, (round, arrival.signature));
        Some(arrival.values)
    }

    /// Authors, rounds and lengths of what is here.
    pub(super) fn lengths(&self) -> Vec<((Party, u32), usize)> {
        self.arrivals
            .iter()
            .map(|(key, arrival)| (*key, arrival.values.len()))
            .collect()
    }

    /// Drops what is of no use.
    pub(super) fn drop_of(&mut self, author: Party, round: u32) {
        self.arrivals.remove(&(author, round));
    }
}
