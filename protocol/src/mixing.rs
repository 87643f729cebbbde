//! One party's arithmetic through the mixing phase (INCA, Algorithm 2): split, hand out, take in, inject, cancel; and roll-back.
//!
//! The machine is generic over its payload and its noise source. The node runs it on lattice vectors; the accountant runs it on
//! unit impulses, and then every state that it holds or hands out is a row of the adversary's matrices (B, A).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
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

/// Multiples of vectors at rest, to be added.
type Terms<P> = Vec<(<P as Payload>::Coefficient, <P as Payload>::Packed)>;

/// What was deducted for one neighbour minus what was added from it.
struct Account<P: Payload, W> {
    weight: W,
    /// Shares with their signs. They are there anyway while they are new, so that keeping them costs no work.
    kept: Terms<P>,
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
    /// The state, but for what is due: a long vector is gone through once a round, when it is split.
    state: Portion<P, W>,
    /// Multiples of values that belong to the state (their weights are in it already).
    due: Terms<P>,
    /// The row of (c, Z) that the next injection uses.
    next: usize,
    /// Noise that is still out or will be needed again: what was injected of it, and its values.
    noise: BTreeMap<usize, (P::Coefficient, P::Packed)>,
    /// What the rows from `next` on inject, where it was prepared.
    prepared: VecDeque<P::Packed>,
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
            due: Vec::new(),
            next: 0,
            noise: BTreeMap::new(),
            prepared: VecDeque::new(),
            record: record.then(BTreeMap::new),
        };
        mixing.inject(noise, 0);
        mixing.add_due(1);
        mixing
    }

    /// Divides the state into one equal part for each of `to` and one that stays, and returns the part that each of them gets: the
    /// same as what stays, with its values as `pack` puts them.
    pub fn split(&mut self, to: &[Party], pack: impl FnOnce(&Portion<P, W>) -> P::Packed) -> Share<P, W> {
        let ways = to.len() as u32 + 1;
        self.add_due(ways);
        self.state.weight.add_and_divide(&[], ways);
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
        self.due.push((P::Coefficient::one(), share.value.clone()));
        self.state.weight.add(&share.weight);
        self.enter(neighbour, P::Coefficient::one().negated(), share);
    }

    fn enter(&mut self, neighbour: Party, sign: P::Coefficient, share: &Share<P, W>) {
        if let Some(record) = &mut self.record {
            record.entry(neighbour).or_insert_with(|| Account::new(&share.weight)).enter(sign, share);
        }
    }

    /// Adds up all that later rounds inject, for a party that is online in every round: one vector a round is then left to add while
    /// others wait for it, and no noise to draw. Costs a vector at rest for each round.
    pub fn prepare(&mut self, source: &mut impl NoiseSource<P>) {
        let next = self.next;
        while self.next <= self.injection.rounds() {
            let mut piece = Vec::new();
            if self.next < self.injection.rounds() {
                self.draw_piece(source, self.next as u32, &mut piece);
            } else {
                self.draw_last_piece(&mut piece);
            }
            let mut sum = P::zero_like(&self.own.value);
            sum.add_multiples(&terms(&piece));
            self.prepared.push_back(sum.pack());
        }
        self.next = next;
    }

    /// The injection at the end of an online round before the last.
    pub fn inject(&mut self, source: &mut impl NoiseSource<P>, round: u32) {
        self.inject_weight();
        let mut due = std::mem::take(&mut self.due);
        if !self.take_prepared(&mut due) {
            self.draw_piece(source, round, &mut due);
        }
        self.due = due;
    }

    /// The injection of an online round T: c_{t′}·x̃ minus all correlated noise that is still out.
    pub fn cancel(&mut self) {
        self.inject_weight();
        let mut due = std::mem::take(&mut self.due);
        if !self.take_prepared(&mut due) {
            self.draw_last_piece(&mut due);
        }
        self.due = due;
    }

    fn inject_weight(&mut self) {
        let c = self.injection.c()[self.next];
        self.state.weight.add_multiples(&[(c, &self.own.weight)]);
    }

    fn take_prepared(&mut self, terms: &mut Terms<P>) -> bool {
        let piece = self.prepared.pop_front();
        self.next += usize::from(piece.is_some());
        piece.map(|piece| terms.push((P::Coefficient::one(), piece))).is_some()
    }

    fn draw_piece(&mut self, source: &mut impl NoiseSource<P>, round: u32, terms: &mut Terms<P>) {
        let (injection, row) = (self.injection.clone(), self.next);
        self.value_piece(terms);
        for (k, &factor) in injection.z(row).iter().enumerate().filter(|(_, factor)| !factor.is_zero()) {
            let (injected, eta) = self.noise.entry(k).or_insert_with(|| (P::Coefficient::zero(), source.draw(k, round)));
            terms.push((factor, eta.clone()));
            *injected = injected.plus(factor);
            // All of it is back and no later row has it: a long vector's memory is free again once it is added.
            let spent = injected.is_zero() && (row + 1..=injection.rounds()).all(|t| injection.z(t)[k].is_zero());
            if spent {
                self.noise.remove(&k);
            }
        }
    }

    fn draw_last_piece(&mut self, terms: &mut Terms<P>) {
        self.value_piece(terms);
        let noise = std::mem::take(&mut self.noise).into_values();
        terms.extend(noise.map(|(injected, eta)| (injected.negated(), eta)));
    }

    fn value_piece(&mut self, terms: &mut Terms<P>) {
        let c = self.injection.c()[self.next];
        self.next += 1;
        if !c.is_zero() {
            terms.push((c, self.own.value.clone()));
        }
    }

    /// The present state and its weight.
    pub fn state(&self) -> Portion<P, W> {
        let mut state = self.state.clone();
        state.value.add_multiples(&terms(&self.due));
        state
    }

    /// The final state: what was deducted for departed parties is added again, what was added from them is subtracted
    /// (DESIGN: roll-back). It needs only this party's own record. Without a record (`record = false`) it is the state itself.
    pub fn finish(mut self, departed: &BTreeSet<Party>) -> Portion<P, W> {
        let record = self.record.take().into_iter().flatten();
        for (_, account) in record.filter(|(neighbour, _)| departed.contains(neighbour)) {
            self.state.weight.add(&account.weight);
            self.due.extend(account.kept);
            if let Some(sum) = account.sum {
                self.state.value.add(&sum);
            }
        }
        self.add_due(1);
        self.state
    }

    fn add_due(&mut self, ways: u32) {
        self.state.value.add_and_divide(&terms(&self.due), ways);
        self.due.clear();
    }
}

#[cfg(test)]
mod tests;
