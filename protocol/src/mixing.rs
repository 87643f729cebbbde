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
pub trait NoiseSource<P: Payload> {
    /// Draws η_k (k from 0) for the first time; `round` is the round whose injection contains it first, 0 for the one before round 1.
    /// Each k is asked for at most once in a run.
    fn draw(&mut self, k: usize, round: u32) -> P::Packed;
}

impl<P: Payload, N: NoiseSource<P> + ?Sized> NoiseSource<P> for Box<N> {
    fn draw(&mut self, k: usize, round: u32) -> P::Packed {
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

/// A share as it travels: the values at rest.
pub type Share<P, W> = Portion<<P as Payload>::Packed, W>;

/// What was deducted for one neighbour minus what was added from it.
struct Account<P: Payload, W> {
    weight: W,
    /// Shares with their signs. They are there anyway while they are new, so that keeping them costs no work.
    kept: Vec<(P::Coefficient, P::Packed)>,
    /// The sum of all that is not kept.
    sum: Option<P>,
}

/// So many shares of one neighbour are kept before they are summed up: two of them take about as much memory as their sum.
const KEPT: usize = 2;

impl<P: Payload, W: Payload<Coefficient = P::Coefficient, Packed = W>> Account<P, W> {
    fn new(weight: &W) -> Self {
        Account { weight: W::zero_like(weight), kept: Vec::new(), sum: None }
    }

    fn enter(&mut self, sign: P::Coefficient, share: &Share<P, W>) {
        self.weight.add_multiples(&[(sign, &share.weight)]);
        match &mut self.sum {
            Some(sum) => sum.add_multiples(&[(sign, &share.value)]),
            None => self.kept.push((sign, share.value.clone())),
        }
        if self.kept.len() > KEPT {
            let mut sum = P::zero_like(&share.value);
            sum.add_multiples(&terms(&self.kept));
            (self.sum, self.kept) = (Some(sum), Vec::new());
        }
    }

    fn add_to(&self, state: &mut Portion<P, W>) {
        state.weight.add(&self.weight);
        state.value.add_multiples(&terms(&self.kept));
        if let Some(sum) = &self.sum {
            state.value.add(sum);
        }
    }
}

fn terms<C: Copy, V>(owned: &[(C, V)]) -> Vec<(C, &V)> {
    owned.iter().map(|(factor, vector)| (*factor, vector)).collect()
}

/// The state of one party in the mixing phase. It knows no rounds that it was offline in: each call of [`Mixing::inject`] or
/// [`Mixing::cancel`] is one online round, and uses the next unused row of (c, Z) (the distribution D^O of INCA, section 3.2).
pub struct Mixing<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    injection: Arc<Injection<P::Coefficient>>,
    own: Share<P, W>,
    state: Portion<P, W>,
    /// The row of (c, Z) that the next injection uses.
    next: usize,
    /// Noise that is still out or will be needed again: what was injected of it, and its values.
    noise: BTreeMap<usize, (P::Coefficient, P::Packed)>,
    /// By neighbour; none if roll-back is off.
    record: Option<BTreeMap<Party, Account<P, W>>>,
}

impl<P, W> Mixing<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// Begins with the injection of before round 1. `value` is x̃ = x + η*, `weight` the party's own weight, `record` whether
    /// departed parties can be rolled back at the end (for each neighbour one or two shares, or a vector).
    pub fn new(
        injection: Arc<Injection<P::Coefficient>>,
        value: P::Packed,
        weight: W,
        record: bool,
        noise: &mut impl NoiseSource<P>,
    ) -> Self {
        let state = Portion { value: P::zero_like(&value), weight: W::zero_like(&weight) };
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

    /// Divides the state into one equal part for each of `to` and one that stays, and returns the part that each of them gets: the
    /// same as what stays, with its values as `pack` puts them.
    pub fn split(&mut self, to: &[Party], pack: impl FnOnce(&Portion<P, W>) -> P::Packed) -> Share<P, W> {
        let ways = to.len() as u32 + 1;
        self.state.value.divide(ways);
        self.state.weight.divide(ways);
        let share = Portion { value: pack(&self.state), weight: self.state.weight.clone() };
        to.iter().for_each(|&neighbour| self.enter(neighbour, P::Coefficient::one(), &share));
        share
    }

    /// A share that this party had deducted for `to` comes back: its fate is `returned`.
    pub fn take_back(&mut self, to: Party, share: &Share<P, W>) {
        self.join(to, share);
    }

    /// A share of `from` joins the state: its fate is `accepted`.
    pub fn accept(&mut self, from: Party, share: &Share<P, W>) {
        self.join(from, share);
    }

    fn join(&mut self, neighbour: Party, share: &Share<P, W>) {
        self.state.value.add_multiples(&[(P::Coefficient::one(), &share.value)]);
        self.state.weight.add(&share.weight);
        self.enter(neighbour, P::Coefficient::one().negated(), share);
    }

    fn enter(&mut self, neighbour: Party, sign: P::Coefficient, share: &Share<P, W>) {
        if let Some(record) = &mut self.record {
            record.entry(neighbour).or_insert_with(|| Account::new(&share.weight)).enter(sign, share);
        }
    }

    /// The injection at the end of an online round before the last.
    pub fn inject(&mut self, noise: &mut impl NoiseSource<P>, round: u32) {
        self.inject_at(noise, round);
    }

    /// The injection of an online round T: c_{t′}·x̃ minus all correlated noise that is still out.
    pub fn cancel(&mut self) {
        let noise: Vec<_> = std::mem::take(&mut self.noise).into_values().collect();
        let out = noise.iter().map(|(injected, eta)| (injected.negated(), eta)).collect();
        self.add(out);
    }

    /// The present state and its weight.
    pub fn state(&self) -> &Portion<P, W> {
        &self.state
    }

    /// The final state: what was deducted for departed parties is added again, what was added from them is subtracted
    /// (DESIGN: roll-back). It needs only this party's own record. Without a record (`record = false`) it is the state itself.
    pub fn finish(mut self, departed: &BTreeSet<Party>) -> Portion<P, W> {
        for (_, account) in self.record.take().into_iter().flatten().filter(|(neighbour, _)| departed.contains(neighbour)) {
            account.add_to(&mut self.state);
        }
        self.state
    }

    fn inject_at(&mut self, source: &mut impl NoiseSource<P>, round: u32) {
        let (injection, row) = (self.injection.clone(), self.next);
        let mut noise = std::mem::take(&mut self.noise);
        for (k, &factor) in injection.z(row).iter().enumerate().filter(|(_, factor)| !factor.is_zero()) {
            let (injected, _) = noise.entry(k).or_insert_with(|| (P::Coefficient::zero(), source.draw(k, round)));
            *injected = injected.plus(factor);
        }
        let touched = noise.iter().map(|(&k, (_, eta))| (injection.z(row)[k], eta));
        self.add(touched.filter(|(factor, _)| !factor.is_zero()).collect());
        // Of what is all back and in no later row a long vector's memory is free again.
        let needed = |k: usize| (row + 1..=injection.rounds()).any(|t| !injection.z(t)[k].is_zero());
        noise.retain(|&k, (injected, _)| !injected.is_zero() || needed(k));
        self.noise = noise;
    }

    /// Adds c_t·x̃ of the next row and these multiples of noise, all in one go through the state.
    fn add(&mut self, noise: Vec<(P::Coefficient, &P::Packed)>) {
        let c = self.injection.c()[self.next];
        self.next += 1;
        let mut terms = noise;
        if !c.is_zero() {
            terms.push((c, &self.own.value));
            self.state.weight.add_multiples(&[(c, &self.own.weight)]);
        }
        self.state.value.add_multiples(&terms);
    }
}

#[cfg(test)]
mod tests;
