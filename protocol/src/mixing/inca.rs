//! INCA's way into a state (section 3.1, D^O of section 3.2): a row of (c, Z) in every online
//! round.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::lattice::injection::Injection;
use crate::lattice::payload::{Coefficient, Payload};
use crate::mixing::injector::{DrawnNoise, Injector, InjectorRule, Pack};
use crate::mixing::portion::{NoiseSource, Portion, Resting, Share};
use crate::mixing::state::{Multiples, State, borrowed};

/// A party of INCA with this (c, Z).
pub(super) struct InjectionRule<C>(pub(super) Arc<Injection<C>>);

impl<P, W> InjectorRule<P, W> for InjectionRule<P::Coefficient>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// Nothing is in the state before the first row.
    fn begin(&self, own: Resting<P, W>) -> (Box<dyn Injector<P, W>>, State<P, W>) {
        let state = State::zero_like(&own);
        (Box::new(Injecting::new(self.0.clone(), own)), state)
    }

    /// The first rows of (c, Z) with the noise η that was drawn so far, a row for each end of a
    /// round: Σ_{s < ends} (c_s x̃ + Z_s η).
    fn injected(&self, ends: usize, own: &Resting<P, W>, drawn: DrawnNoise<'_, P>) -> Portion<P, W> {
        let mut sum = Portion {
            value: P::zero_like(&own.value),
            weight: W::zero_like(&own.weight),
        };
        for row in 0..ends {
            let c = self.0.c()[row];
            sum.value.add_multiples(&[(c, &own.value)]);
            sum.weight.add_multiples(&[(c, &own.weight)]);
            for (k, &factor) in self.0.z(row).iter().enumerate() {
                if let Some(eta) = drawn(k) {
                    sum.value.add_multiples(&[(factor, eta)]);
                }
            }
        }
        sum
    }
}

struct Injecting<P: Payload, W> {
    injection: Arc<Injection<P::Coefficient>>,
    own: Resting<P, W>,
    /// The row of (c, Z) that the next injection uses.
    next: usize,
    /// Noise that is still out or will be needed again: what was injected of it, and its values.
    noise: BTreeMap<usize, (P::Coefficient, P::Packed)>,
    /// The prepared injections of the rows from `next` on.
    prepared: VecDeque<P::Packed>,
}

impl<P, W> Injecting<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    fn new(injection: Arc<Injection<P::Coefficient>>, own: Resting<P, W>) -> Self {
        Injecting {
            injection,
            own,
            next: 0,
            noise: BTreeMap::new(),
            prepared: VecDeque::new(),
        }
    }

    fn inject_weight(&self, weight: &mut W) {
        let c = self.injection.c()[self.next];
        weight.add_multiples(&[(c, &self.own.weight)]);
    }

    fn take_prepared(&mut self, terms: &mut Multiples<P>) -> bool {
        let piece = self.prepared.pop_front();
        self.next += usize::from(piece.is_some());
        piece
            .map(|piece| terms.push((P::Coefficient::one(), piece)))
            .is_some()
    }

    fn draw_piece(&mut self, source: &mut dyn NoiseSource<P>, round: u32, terms: &mut Multiples<P>) {
        let (injection, row) = (self.injection.clone(), self.next);
        self.value_piece(terms);
        for (k, &factor) in injection
            .z(row)
            .iter()
            .enumerate()
            .filter(|(_, factor)| !factor.is_zero())
        {
            let (injected, eta) = self
                .noise
                .entry(k)
                .or_insert_with(|| (P::Coefficient::zero(), source.draw(k, round)));
            terms.push((factor, eta.clone()));
            *injected = injected.plus(factor);
            // All of it is back and no later row has it: a long vector's memory is free again once
            // it is added.
            let spent =
                injected.is_zero() && (row + 1..=injection.rounds()).all(|t| injection.z(t)[k].is_zero());
            if spent {
                self.noise.remove(&k);
            }
        }
    }

    fn draw_last_piece(&mut self, terms: &mut Multiples<P>) {
        self.value_piece(terms);
        let noise = std::mem::take(&mut self.noise).into_values();
        terms.extend(noise.map(|(injected, eta)| (injected.negated(), eta)));
    }

    fn value_piece(&mut self, terms: &mut Multiples<P>) {
        let c = self.injection.c()[self.next];
        self.next += 1;
        if !c.is_zero() {
            terms.push((c, self.own.value.clone()));
        }
    }
}

impl<P, W> Injector<P, W> for Injecting<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// An equal part of the state, as large as the one that stays.
    fn split(&mut self, state: &mut State<P, W>, receivers: usize, pack: Pack<'_, P, W>) -> Share<P, W> {
        state.divide(receivers as u32 + 1, pack)
    }

    /// Adds up all that later rounds inject.
    fn prepare(&mut self, source: &mut dyn NoiseSource<P>) {
        let next = self.next;
        while self.next <= self.injection.rounds() {
            let mut piece = Vec::new();
            if self.next < self.injection.rounds() {
                self.draw_piece(source, self.next as u32, &mut piece);
            } else {
                self.draw_last_piece(&mut piece);
            }
            let mut sum = P::zero_like(&self.own.value);
            sum.add_multiples(&borrowed(&piece));
            self.prepared.push_back(sum.pack());
        }
        self.next = next;
    }

    /// The next row before the last: its values are due, its weight is added.
    fn inject(&mut self, source: &mut dyn NoiseSource<P>, round: u32, state: &mut State<P, W>) {
        self.inject_weight(&mut state.sum.weight);
        if !self.take_prepared(&mut state.due) {
            self.draw_piece(source, round, &mut state.due);
        }
    }

    /// The next part of x̃ minus all correlated noise that is still out.
    fn cancel(&mut self, state: &mut State<P, W>) {
        self.inject_weight(&mut state.sum.weight);
        if !self.take_prepared(&mut state.due) {
            self.draw_last_piece(&mut state.due);
        }
    }
}
