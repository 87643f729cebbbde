//! What each node should hold: its injections so far, from the noise that it really drew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use crate::exchange::Exchange;
use crate::invariants::{Violation, mass, weight};
use crate::lattice::{LatticeVector, LatticeWeight, PackedVector};
use crate::log::ShareId;
use crate::mixing::{Mechanism, NoiseSource, Party, Portion};
use crate::payload::{Payload, Ratio};

/// The noise that a node drew, by its number.
#[derive(Clone, Default)]
pub(crate) struct Draws(Arc<Mutex<BTreeMap<usize, PackedVector>>>);

/// A noise source that keeps a copy of what it gives out.
pub(crate) struct Recording<N> {
    noise: N,
    draws: Draws,
}

impl<N> Recording<N> {
    pub(crate) fn new(noise: N, draws: Draws) -> Self {
        Recording { noise, draws }
    }
}

impl<N: NoiseSource<LatticeVector>> NoiseSource<LatticeVector> for Recording<N> {
    fn draw(&mut self, k: usize, round: u32) -> PackedVector {
        let drawn = self.noise.draw(k, round);
        let mut draws = self.draws.0.lock().expect("one thread");
        assert!(draws.insert(k, drawn.clone()).is_none(), "noise {k} is drawn once and used once");
        drawn
    }
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
        Ledger { mechanism, value: value.pack(), weight: LatticeWeight(weight), draws }
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

    /// Everything that the node has injected: Σ_{s < rows} (c_s x̃ + Z_s η) with INCA. With PPSC x̃: a γ that it keeps it deducts from a share.
    pub(crate) fn injected(&self, exchange: &Exchange) -> Holding {
        let Mechanism::Injection(injection) = &self.mechanism else {
            return Portion { value: self.value.unpack(), weight: self.weight };
        };
        let rows = exchange.injections();
        let mut sum = Portion { value: LatticeVector::zero_like(&self.value), weight: LatticeWeight(0) };
        let draws = self.draws.0.lock().expect("one thread");
        for t in 0..rows {
            sum.value.add_multiples(&[(injection.c()[t], &self.value)]);
            sum.weight.add_multiples(&[(injection.c()[t], &self.weight)]);
            for (k, &factor) in injection.z(t).iter().enumerate() {
                if let Some(eta) = draws.get(&k) {
                    sum.value.add_multiples(&[(factor, eta)]);
                }
            }
        }
        sum
    }

    /// The node's state, and those of its shares that are out and that nobody has accepted.
    pub(crate) fn held(exchange: &Exchange, accepted: &BTreeSet<ShareId>) -> Vec<Holding> {
        let out = exchange.out().filter(|(id, _)| !accepted.contains(id)).map(|(_, portion)| portion);
        out.chain([exchange.state()]).collect()
    }
}

/// The shares that anybody has accepted.
pub(crate) fn accepted<'a>(exchanges: impl Iterator<Item = (Party, &'a Exchange)>) -> BTreeSet<ShareId> {
    let of =
        |(to, exchange): (Party, &'a Exchange)| exchange.accepted_from().map(move |(round, from)| ShareId { round, from, to });
    exchanges.flat_map(of).collect()
}

/// Checks mass and weight over nodes in their mixing phases, the crashed ones included.
pub(crate) fn check<'a>(nodes: &[(Party, &'a Exchange, &'a Ledger)]) -> Vec<Violation> {
    let accepted = accepted(nodes.iter().map(|(party, exchange, _)| (*party, *exchange)));
    let held: Vec<Holding> = nodes.iter().flat_map(|(_, exchange, _)| Ledger::held(exchange, &accepted)).collect();
    let injected: Vec<Holding> = nodes.iter().map(|(_, exchange, ledger)| ledger.injected(exchange)).collect();
    let values = mass::check(held.iter().map(|portion| &portion.value), injected.iter().map(|portion| &portion.value));
    let weights = weight::check(held.iter().map(|portion| portion.weight), injected.iter().map(|portion| portion.weight));
    [values, weights].into_iter().filter_map(Result::err).collect()
}
