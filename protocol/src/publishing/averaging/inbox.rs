//! Messages of averaging that came in and were not used yet. Who may put one in, of which rounds
//! and how long, is for the [`machine`](crate::publishing::averaging::machine) to say; it lets in
//! those of two rounds a neighbour and form, so this is bounded by the graph.

use std::collections::BTreeMap;

use crate::messages::notice::{Form, Round};
use crate::messages::signature::Signature;
use crate::messages::wire::Bytes;
use crate::topology::party::Party;

/// A message.
pub(super) struct Arrival {
    /// What it says beside its vector.
    pub(super) view: u64,
    /// The same.
    pub(super) spread: f64,
    /// Its vector.
    pub(super) values: Bytes,
    signature: Signature,
}

/// All of a node's.
#[derive(Default)]
pub(super) struct Inbox {
    arrivals: BTreeMap<(Party, Form, u32), Arrival>,
    /// The newest that was used, by author and form.
    used: BTreeMap<(Party, Form), (u32, Signature)>,
}

impl Inbox {
    /// Whether its author has signed another message of that very round, as far as this is
    /// remembered: of rounds not used yet, and of the newest that was. An honest node signs one,
    /// and sends those bytes again.
    pub(super) fn is_second(&self, round: &Round) -> bool {
        let here = self
            .arrivals
            .get(&(round.author, round.form, round.round))
            .map(|arrival| arrival.signature);
        let used = self
            .used
            .get(&(round.author, round.form))
            .filter(|used| used.0 == round.round)
            .map(|used| used.1);
        [here, used]
            .into_iter()
            .flatten()
            .any(|signature| signature != round.signature)
    }

    /// Keeps the first message of its author, form and round.
    pub(super) fn put(&mut self, round: &Round, values: Bytes) {
        let Round {
            view,
            spread,
            signature,
            ..
        } = *round;
        let arrival = Arrival {
            view,
            spread,
            values,
            signature,
        };
        self.arrivals
            .entry((round.author, round.form, round.round))
            .or_insert(arrival);
    }

    /// Whether a message is here.
    pub(super) fn has(&self, author: Party, form: Form, round: u32) -> bool {
        self.arrivals.contains_key(&(author, form, round))
    }

    /// Takes a message out, to be used.
    pub(super) fn take(&mut self, author: Party, form: Form, round: u32) -> Option<Arrival> {
        let arrival = self.arrivals.remove(&(author, form, round))?;
        self.used.insert((author, form), (round, arrival.signature));
        Some(arrival)
    }

    /// Authors, forms, rounds and lengths of what is here.
    pub(super) fn lengths(&self) -> Vec<((Party, Form, u32), usize)> {
        self.arrivals
            .iter()
            .map(|(key, arrival)| (*key, arrival.values.len()))
            .collect()
    }

    /// Drops what is of no use.
    pub(super) fn retain(&mut self, keep: impl Fn(Party, Form, u32) -> bool) {
        self.arrivals
            .retain(|&(author, form, round), _| keep(author, form, round));
    }
}
