//! One party's arithmetic through the mixing phase: split, hand out, take in, inject, cancel; and roll-back. For INCA (Algorithm 2)
//! and for PPSC (Algorithm 1), which differ in what a share is and in when noise comes in ([`Mechanism`]).
//!
//! The machine is generic over its payload and its noise source. The node runs it on lattice vectors; the accountant runs it on
//! unit impulses, and then every state that it holds or hands out is a row of the adversary's matrices (B, A).
//!
//! # Roll-back for PPSC
//! Theorem R (accountant, `theorem_r`) needs of a mechanism only this: a share leaves its sender with all that it adds to its receiver, so
//! that a state is what its party brought (its x̃; a γ is kept and deducted by the same party, so it brings nothing) plus what came in
//! minus what went out; and what a survivor hands out is a linear function, with public coefficients, of its state and of noise of its
//! own. Compare a run in which D depart with the one in which they stay and accept everything: by induction over rounds a survivor's
//! state differs by a linear function of what it sent to D and got from D, in either run, since γ is the same in both and ω = β − γ
//! hands the difference on to its receiver, who is a survivor (its difference is of the same kind) or in D (who then knows it). So does its
//! final, rolled back or not. And the finals of a set L, each with what it sent outside of L added again and what it got from there
//! subtracted, with every share between members in exactly one place, add up to Σ x̃ over L: a survivor whose value was handed to
//! a party that vanished has it back, a survivor that got the vanished party's has it no more. So do their weights, some of which are 0 or
//! negative.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod handing_over;
mod injecting;

use crate::injection::Injection;
use crate::payload::{Coefficient, Payload};
use handing_over::HandingOver;
use injecting::Injecting;

/// A participant, by its place in the plan, from 0.
pub type Party = usize;

/// Where a party's correlated noise comes from.
pub trait NoiseSource<P: Payload> {
    /// Draws η_k (k from 0) for the first time; `round` is the round whose injection contains it first, 0 for the one before round 1.
    /// For PPSC it is γ of the party's k-th hand-out, and `round` one before that. Each k is asked for at most once in a run.
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
        Account {
            weight: W::zero_like(weight),
            kept: Vec::new(),
            sum: None,
        }
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

/// How value and noise get into a party's states.
#[derive(Clone, Debug)]
pub enum Mechanism<C> {
    /// INCA: a row of (c, Z) in every online round; a share is an equal part of the state.
    Injection(Arc<Injection<C>>),
    /// PPSC: the value at first. A hand-out sends ω = β − γ with the state's whole weight, and keeps the fresh noise γ as the state.
    HandOver {
        /// How often this party hands out in the whole run.
        hand_outs: usize,
    },
}

impl<C> From<Arc<Injection<C>>> for Mechanism<C> {
    fn from(injection: Arc<Injection<C>>) -> Self {
        Mechanism::Injection(injection)
    }
}

enum Feed<P: Payload, W> {
    Injecting(Injecting<P, W>),
    HandingOver(HandingOver<P>),
}

/// The state of one party in the mixing phase. It knows no rounds that it was offline in: each call of [`Mixing::inject`] or
/// [`Mixing::cancel`] is one online round, and with INCA uses the next unused row of (c, Z) (the distribution D^O of INCA, section 3.2).
pub struct Mixing<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// The state, but for what is due: a long vector is gone through once a round, when it is split.
    state: Portion<P, W>,
    /// Multiples of values that belong to the state (their weights are in it already).
    due: Terms<P>,
    feed: Feed<P, W>,
    /// By neighbour; none if roll-back is off.
    record: Option<BTreeMap<Party, Account<P, W>>>,
}

impl<P, W> Mixing<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// Begins with what is in the state before round 1. `value` is x̃ = x + η*, `weight` the party's own weight, `record` whether
    /// departed parties can be rolled back at the end (for each neighbour one or two shares, or a vector).
    pub fn new(
        mechanism: impl Into<Mechanism<P::Coefficient>>,
        value: P::Packed,
        weight: W,
        record: bool,
        noise: &mut impl NoiseSource<P>,
    ) -> Self {
        let state = Portion {
            value: P::zero_like(&value),
            weight: W::zero_like(&weight),
        };
        let own = Portion { value, weight };
        let mut due = Vec::new();
        let (feed, state) = match mechanism.into() {
            Mechanism::Injection(injection) => (Feed::Injecting(Injecting::new(injection, own)), state),
            Mechanism::HandOver { hand_outs } => {
                due.push((P::Coefficient::one(), own.value));
                (
                    Feed::HandingOver(HandingOver::new(hand_outs)),
                    Portion {
                        weight: own.weight,
                        ..state
                    },
                )
            }
        };
        let mut mixing = Mixing {
            state,
            due,
            feed,
            record: record.then(BTreeMap::new),
        };
        mixing.inject(noise, 0);
        mixing.add_due(1);
        mixing
    }

    /// What each of `to` gets: with INCA an equal part of the state, the same as what stays; with PPSC, to one party, the whole state less the fresh
    /// noise that stays. Its values are as `pack` puts them.
    pub fn split(&mut self, to: &[Party], pack: impl FnOnce(&Portion<P, W>) -> P::Packed) -> Share<P, W> {
        let share = match &mut self.feed {
            Feed::HandingOver(noises) if !to.is_empty() => {
                assert_eq!(
                    to.len(),
                    1,
                    "a schedule of PPSC has at most one receiver a party and round"
                );
                let fresh = noises.take();
                self.hand_over(fresh, pack)
            }
            _ => {
                let ways = to.len() as u32 + 1;
                self.add_due(ways);
                self.state.weight.add_and_divide(&[], ways);
                Portion {
                    value: pack(&self.state),
                    weight: self.state.weight.clone(),
                }
            }
        };
        to.iter()
            .for_each(|&neighbour| self.enter(neighbour, P::Coefficient::one(), &share));
        share
    }

    fn hand_over(&mut self, fresh: P::Packed, pack: impl FnOnce(&Portion<P, W>) -> P::Packed) -> Share<P, W> {
        self.due.push((P::Coefficient::one().negated(), fresh.clone()));
        self.add_due(1);
        let share = Portion {
            value: pack(&self.state),
            weight: self.state.weight.clone(),
        };
        self.state = Portion {
            value: P::zero_like(&fresh),
            weight: W::zero_like(&share.weight),
        };
        self.due.push((P::Coefficient::one(), fresh));
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
            record
                .entry(neighbour)
                .or_insert_with(|| Account::new(&share.weight))
                .enter(sign, share);
        }
    }

    /// Draws all noise that later rounds need, for a party that is online in every round: with INCA one vector a round is then left to add
    /// while others wait for it. Costs a vector at rest for each round, with PPSC for each hand-out.
    pub fn prepare(&mut self, source: &mut impl NoiseSource<P>) {
        match &mut self.feed {
            Feed::Injecting(rows) => rows.prepare(source),
            Feed::HandingOver(noises) => noises.prepare(source),
        }
    }

    /// The end of an online round before the last: INCA's injection.
    pub fn inject(&mut self, source: &mut impl NoiseSource<P>, round: u32) {
        match &mut self.feed {
            Feed::Injecting(rows) => rows.inject(source, round, &mut self.state.weight, &mut self.due),
            Feed::HandingOver(noises) => noises.refill(source, round),
        }
    }

    /// The end of an online round T: INCA injects c_{t′}·x̃ minus all correlated noise that is still out. PPSC's noises cancel by themselves.
    pub fn cancel(&mut self) {
        if let Feed::Injecting(rows) = &mut self.feed {
            rows.cancel(&mut self.state.weight, &mut self.due);
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
