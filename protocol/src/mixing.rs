//! One party's arithmetic through the mixing phase (INCA, Algorithm 2): split, hand out, take in, inject, cancel; and roll-back.
//!
//! The machine is generic over its payload and its noise source. The node runs it on lattice vectors; the accountant runs it on
//! unit impulses, and then every state that it holds or hands out is a row of the adversary's matrices (B, A).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::injection::Injection;
use crate::payload::{Coefficient, Payload};

/// A participant, by its place in the plan, from 0.
pub type Party = usize;

/// Where a party's correlated noise comes from.
pub trait NoiseSource<P> {
    /// Draws η_k (k from 0) for the first time; `round` is the round whose injection contains it first, 0 for the one before round 1.
    /// Each k is asked for at most once in a run.
    fn draw(&mut self, k: usize, round: u32) -> P;
}

impl<P, N: NoiseSource<P> + ?Sized> NoiseSource<P> for Box<N> {
    fn draw(&mut self, k: usize, round: u32) -> P {
        (**self).draw(k, round)
    }
}

/// A part of a state on its way between parties, with the weight that it carries.
#[derive(Clone)]
pub struct Portion<P, W> {
    /// The values.
    pub value: P,
    /// How much of the parties' values they carry; public.
    pub weight: W,
}

impl<P: Payload, W: Payload> Portion<P, W> {
    fn zero_like(&self) -> Self {
        Portion { value: self.value.zero_like(), weight: self.weight.zero_like() }
    }

    fn add(&mut self, other: &Self) {
        self.value.add(&other.value);
        self.weight.add(&other.weight);
    }

    fn subtract(&mut self, other: &Self) {
        self.value.subtract(&other.value);
        self.weight.subtract(&other.weight);
    }
}

/// The state of one party in the mixing phase. It knows no rounds that it was offline in: each call of [`Mixing::inject`] or
/// [`Mixing::cancel`] is one online round, and uses the next unused row of (c, Z) (the distribution D^O of INCA, section 3.2).
pub struct Mixing<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient>,
{
    injection: Arc<Injection<P::Coefficient>>,
    own: Portion<P, W>,
    state: Portion<P, W>,
    /// The row of (c, Z) that the next injection uses.
    next: usize,
    /// Noise that is still out or will be needed again: what was injected of it, and its values.
    noise: BTreeMap<usize, (P::Coefficient, P)>,
    /// Per neighbour, the sum of what was deducted for it minus what was added from it; none if roll-back is off.
    record: Option<BTreeMap<Party, Portion<P, W>>>,
}

impl<P, W> Mixing<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient>,
{
    /// Begins with the injection of before round 1. `value` is x̃ = x + η*, `weight` the party's own weight, `record` whether
    /// departed parties can be rolled back at the end (one vector a neighbour).
    pub fn new(
        injection: Arc<Injection<P::Coefficient>>,
        value: P,
        weight: W,
        record: bool,
        noise: &mut impl NoiseSource<P>,
    ) -> Self {
        let state = Portion { value: value.zero_like(), weight: weight.zero_like() };
        let mut mixing = Mixing {
            injection,
            own: Portion { value, weight },
            state,
            next: 0,
            noise: BTreeMap::new(),
            record: record.then(BTreeMap::new),
        };
        mixing.inject_at(noise, 0);
        mixing
    }

    /// Divides the state into one equal part for each of `to` and one that stays, and returns the part that each of them gets, which
    /// is also what stays: the state itself.
    pub fn split(&mut self, to: &[Party]) -> &Portion<P, W> {
        let ways = to.len() as u32 + 1;
        self.state.value.divide(ways);
        self.state.weight.divide(ways);
        if let Some(record) = &mut self.record {
            for &neighbour in to {
                record.entry(neighbour).or_insert_with(|| self.state.zero_like()).add(&self.state);
            }
        }
        &self.state
    }

    /// A share that this party had deducted for `to` comes back: its fate is `returned`.
    pub fn take_back(&mut self, to: Party, portion: &Portion<P, W>) {
        self.state.add(portion);
        self.recorded(to, portion, |record, portion| record.subtract(portion));
    }

    /// A share of `from` joins the state: its fate is `accepted`.
    pub fn accept(&mut self, from: Party, portion: &Portion<P, W>) {
        self.state.add(portion);
        self.recorded(from, portion, |record, portion| record.subtract(portion));
    }

    /// The injection at the end of an online round before the last.
    pub fn inject(&mut self, noise: &mut impl NoiseSource<P>, round: u32) {
        self.inject_at(noise, round);
    }

    /// The injection of an online round T: c_{t′}·x̃ minus all correlated noise that is still out.
    pub fn cancel(&mut self) {
        self.inject_value();
        for (_, (injected, eta)) in std::mem::take(&mut self.noise) {
            self.state.value.add_multiple(injected.negated(), &eta);
        }
    }

    /// The present state and its weight.
    pub fn state(&self) -> &Portion<P, W> {
        &self.state
    }

    /// The final state: what was deducted for departed parties is added again, what was added from them is subtracted
    /// (DESIGN: roll-back). It needs only this party's own record. Without a record (`record = false`) it is the state itself.
    pub fn finish(mut self, departed: &BTreeSet<Party>) -> Portion<P, W> {
        if let Some(record) = self.record.take() {
            for (_, portion) in record.into_iter().filter(|(neighbour, _)| departed.contains(neighbour)) {
                self.state.add(&portion);
            }
        }
        self.state
    }

    fn inject_value(&mut self) {
        let c = self.injection.c()[self.next];
        if !c.is_zero() {
            self.state.value.add_multiple(c, &self.own.value);
            self.state.weight.add_multiple(c, &self.own.weight);
        }
        self.next += 1;
    }

    fn inject_at(&mut self, noise: &mut impl NoiseSource<P>, round: u32) {
        let injection = self.injection.clone();
        let row = self.next;
        self.inject_value();
        for (k, &factor) in injection.z(row).iter().enumerate().filter(|(_, factor)| !factor.is_zero()) {
            let (injected, eta) = self.noise.entry(k).or_insert_with(|| (P::Coefficient::zero(), noise.draw(k, round)));
            self.state.value.add_multiple(factor, eta);
            *injected = injected.plus(factor);
            // All of it is back and no later row has it: a long vector's memory is free again.
            let spent = injected.is_zero() && (row + 1..=injection.rounds()).all(|t| injection.z(t)[k].is_zero());
            if spent {
                self.noise.remove(&k);
            }
        }
    }

    fn recorded(&mut self, neighbour: Party, portion: &Portion<P, W>, change: impl FnOnce(&mut Portion<P, W>, &Portion<P, W>)) {
        if let Some(record) = &mut self.record {
            change(record.entry(neighbour).or_insert_with(|| portion.zero_like()), portion);
        }
    }
}

#[cfg(test)]
mod tests;
