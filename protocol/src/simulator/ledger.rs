//! The expected holdings of each node: its injections so far, from the noise that it really drew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::lattice::grid::LatticeWeight;
use crate::lattice::packed::PackedVector;
use crate::lattice::payload::{Coefficient, Payload, Ratio};
use crate::lattice::vector::LatticeVector;
use crate::messages::log::ShareId;
use crate::mixing::exchange::ShareExchange;
use crate::mixing::portion::{NoiseSource, Portion, Resting};
use crate::plan::checked::Plan;
use crate::plan::exchange::injector::Mechanism;
use crate::simulator::invariants::violation::Violation;
use crate::simulator::invariants::{mass, weight};
use crate::topology::party::Party;

/// The noise that a node drew, by its number.
#[derive(Clone, Default)]
pub(crate) struct Draws(Arc<Mutex<BTreeMap<usize, PackedVector>>>);

/// A noise source that keeps a copy of what it gives out.
pub(crate) struct Recording<N> {
    noise: N,
    draws: Draws,
    /// The number of mixings that may still begin.
    mixings: u32,
}

impl<N> Recording<N> {
    /// A source that at most this many mixings draw from, one after the other.
    pub(crate) fn new(noise: N, draws: Draws, mixings: u32) -> Self {
        Recording {
            noise,
            draws,
            mixings,
        }
    }
}

impl<N: NoiseSource<LatticeVector>> NoiseSource<LatticeVector> for Recording<N> {
    fn draw(&mut self, k: usize, round: u32) -> PackedVector {
        let drawn = self.noise.draw(k, round);
        let mut draws = self.draws.0.lock().expect("one thread");
        if k == 0 && self.mixings > 0 {
            self.mixings -= 1;
            let before = std::mem::take(&mut *draws);
            assert!(
                before.get(&0) != Some(&drawn),
                "another mixing has noise of its own"
            );
        }
        assert!(
            draws.insert(k, drawn.clone()).is_none(),
            "noise {k} is drawn once and used once"
        );
        drawn
    }
}

/// The value that a party mixes, or nothing where noise is precomputed.
pub(crate) fn mixed_of(plan: &Plan, value: &LatticeVector) -> LatticeVector {
    if plan.precomputes_noise() {
        plan.lattice().zeros(plan.mixed_coordinates())
    } else {
        value.clone()
    }
}

/// Returns the number of mixings that may begin.
pub(crate) fn mixings_of(plan: &Plan) -> u32 {
    let outer = plan.draft().computation.recursion();
    outer.map_or(plan.most_mixings().max(1), |outer| outer.iterations as u32)
}

pub(crate) struct Ledger {
    mechanism: Mechanism<Ratio>,
    value: PackedVector,
    weight: LatticeWeight,
    draws: Draws,
}

type Holding = Portion<LatticeVector, LatticeWeight>;

impl Ledger {
    pub(crate) fn new(mechanism: Mechanism<Ratio>, value: LatticeVector, weight: i128, draws: Draws) -> Self {
        Ledger {
            mechanism,
            value: value.pack(),
            weight: LatticeWeight(weight),
            draws,
        }
    }

    /// x̃.
    #[cfg(test)]
    pub(crate) fn own_value(&self) -> LatticeVector {
        self.value.unpack()
    }

    /// The party's own weight.
    pub(crate) fn own_weight(&self) -> LatticeWeight {
        self.weight
    }

    /// Returns everything that the node has injected so far.
    pub(crate) fn injected(&self, exchange: &ShareExchange) -> Holding {
        let draws = self.draws.0.lock().expect("one thread");
        let own = Portion {
            value: self.value.clone(),
            weight: self.weight,
        };
        self.mechanism
            .injected(exchange.injections(), &own, &|k| draws.get(&k))
    }

    /// The node's state, and those of its shares that are out and that nobody has accepted.
    pub(crate) fn held(exchange: &ShareExchange, accepted: &BTreeSet<ShareId>) -> Vec<Holding> {
        let out = exchange
            .out()
            .filter(|(id, _)| !accepted.contains(id))
            .map(|(_, portion)| portion);
        out.chain([exchange.state().portion().clone()]).collect()
    }
}

/// Mass and weight over nodes in their mixing phases, the crashed ones included. After an event
/// only those nodes are added up again that it may have changed: the sums of 200 nodes are too long
/// to make at each of a million events.
#[derive(Default)]
pub(crate) struct Balance {
    nodes: BTreeMap<Party, Entry>,
    /// The shares that anybody has accepted.
    accepted: BTreeSet<ShareId>,
    sums: Option<LedgerSums>,
}

/// A node's part of the sums.
struct Entry {
    seen: Seen,
    held: Resting<LatticeVector, LatticeWeight>,
    injected: Resting<LatticeVector, LatticeWeight>,
}

/// The counts of an exchange that change with its state, or with the shares that it has out.
#[derive(PartialEq)]
struct Seen {
    injections: usize,
    accepted: usize,
    out: Vec<ShareId>,
}

impl Seen {
    fn of(exchange: &ShareExchange) -> Self {
        let (injections, accepted) = (exchange.injections(), exchange.accepted_from().count());
        Seen {
            injections,
            accepted,
            out: exchange.out_ids().collect(),
        }
    }
}

struct LedgerSums {
    held: Holding,
    injected: Holding,
}

impl Balance {
    /// Whether a party's state is in the sums.
    pub(crate) fn holds(&self, party: Party) -> bool {
        self.nodes.contains_key(&party)
    }

    /// An event has reached a node, and `node` says what a node holds, if it is mixing. With
    /// `thorough` it is added up again in any case, else if it looks changed. What is wrong then.
    pub(crate) fn event<'a>(
        &mut self,
        party: Party,
        thorough: bool,
        node: impl Fn(Party) -> Option<(&'a ShareExchange, &'a Ledger)>,
    ) -> Vec<Violation> {
        let now = node(party);
        let unchanged = match (&now, self.nodes.get(&party)) {
            (None, None) => true,
            (Some((exchange, _)), Some(entry)) => !thorough && entry.seen == Seen::of(exchange),
            _ => false,
        };
        if unchanged {
            return Vec::new();
        }
        // Who sent what was just accepted no longer holds it.
        let mut changed = BTreeSet::from([party]);
        for (round, from) in now.iter().flat_map(|(exchange, _)| exchange.accepted_from()) {
            if self.accepted.insert(ShareId {
                round,
                from,
                to: party,
            }) {
                changed.insert(from);
            }
        }
        changed
            .into_iter()
            .for_each(|party| self.enter(party, node(party)));
        self.check()
    }

    fn enter(&mut self, party: Party, node: Option<(&ShareExchange, &Ledger)>) {
        let entry = node.map(|(exchange, ledger)| {
            let held = total(Ledger::held(exchange, &self.accepted)).expect("a state at least");
            Entry {
                seen: Seen::of(exchange),
                held: packed(held),
                injected: packed(ledger.injected(exchange)),
            }
        });
        let (one, minus) = (Ratio::one(), Ratio::one().negated());
        let before = self.nodes.remove(&party);
        for (sign, entry) in before
            .iter()
            .map(|entry| (minus, entry))
            .chain(entry.iter().map(|entry| (one, entry)))
        {
            let zero = || Portion {
                value: LatticeVector::zero_like(&entry.held.value),
                weight: LatticeWeight(0),
            };
            let sums = self.sums.get_or_insert_with(|| LedgerSums {
                held: zero(),
                injected: zero(),
            });
            for (sum, part) in [
                (&mut sums.held, &entry.held),
                (&mut sums.injected, &entry.injected),
            ] {
                sum.value.add_multiples(&[(sign, &part.value)]);
                sum.weight.add_multiples(&[(sign, &part.weight)]);
            }
        }
        self.nodes.extend(entry.map(|entry| (party, entry)));
    }

    fn check(&self) -> Vec<Violation> {
        let Some(LedgerSums { held, injected }) = &self.sums else {
            return Vec::new();
        };
        let values = mass::check([&held.value], [&injected.value]);
        let weights = weight::check([held.weight], [injected.weight]);
        [values, weights].into_iter().filter_map(Result::err).collect()
    }
}

fn total(portions: Vec<Holding>) -> Option<Holding> {
    portions.into_iter().reduce(|mut sum, portion| {
        sum.value.add(&portion.value);
        sum.weight.add(&portion.weight);
        sum
    })
}

fn packed(portion: Holding) -> Resting<LatticeVector, LatticeWeight> {
    Portion {
        value: portion.value.pack(),
        weight: portion.weight,
    }
}

/// All sums over all nodes anew, each with its party: what [`Balance`] must come to.
#[cfg(test)]
pub(crate) fn check<'a>(nodes: &[(Party, &'a ShareExchange, &'a Ledger)]) -> Vec<Violation> {
    let of = |(to, exchange, _): &(Party, &'a ShareExchange, &'a Ledger)| {
        let to = *to;
        exchange
            .accepted_from()
            .map(move |(round, from)| ShareId { round, from, to })
            .collect::<Vec<_>>()
    };
    let accepted: BTreeSet<ShareId> = nodes.iter().flat_map(of).collect();
    let held: Vec<Holding> = nodes
        .iter()
        .flat_map(|(_, exchange, _)| Ledger::held(exchange, &accepted))
        .collect();
    let injected: Vec<Holding> = nodes
        .iter()
        .map(|(_, exchange, ledger)| ledger.injected(exchange))
        .collect();
    let values = mass::check(
        held.iter().map(|portion| &portion.value),
        injected.iter().map(|portion| &portion.value),
    );
    let weights = weight::check(
        held.iter().map(|portion| portion.weight),
        injected.iter().map(|portion| portion.weight),
    );
    [values, weights].into_iter().filter_map(Result::err).collect()
}
