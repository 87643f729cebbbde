//! The mechanisms: everything in which they differ while a party mixes.
//!
//! A mechanism is a file of its own with these few methods; here they are only chosen between.

use crate::lattice::payload::Payload;
use crate::mixing::inca::{self, Injecting};
use crate::mixing::portion::{NoiseSource, Portion, Share};
use crate::mixing::ppsc::HandingOver;
use crate::mixing::state::State;
use crate::plan::mechanism::ways_in::Mechanism;

impl<C> Mechanism<C> {
    /// Everything that a party has brought into the run after `ends` ends of rounds (one of them
    /// before round 1), from what it has drawn of its noise.
    pub(crate) fn injected<'a, P, W>(
        &self,
        ends: usize,
        own: &Share<P, W>,
        drawn: impl Fn(usize) -> Option<&'a P::Packed>,
    ) -> Portion<P, W>
    where
        P: Payload<Coefficient = C, Packed: 'a>,
        W: Payload<Coefficient = C, Packed = W>,
    {
        match self {
            Mechanism::Injection(injection) => inca::injected(injection, ends, own, drawn),
            // A fresh noise that it keeps it deducts from a share.
            Mechanism::HandOver { .. } => {
                let mut state = State::zero_like(own);
                state.join(own);
                state.present()
            }
        }
    }
}

/// A mechanism at work in one party.
pub(super) enum Feed<P: Payload, W> {
    Injecting(Injecting<P, W>),
    HandingOver(HandingOver<P>),
}

impl<P, W> Feed<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// Begins with a party's own noisy value and weight, and with what is of them in its state
    /// before anything is injected.
    pub(super) fn begin(mechanism: Mechanism<P::Coefficient>, own: Share<P, W>) -> (Self, State<P, W>) {
        let mut state = State::zero_like(&own);
        let feed = match mechanism {
            Mechanism::Injection(injection) => Feed::Injecting(Injecting::new(injection, own)),
            Mechanism::HandOver { hand_outs } => {
                state.join(&own);
                Feed::HandingOver(HandingOver::new(hand_outs))
            }
        };
        (feed, state)
    }

    /// What each of `receivers` parties gets of the state.
    pub(super) fn split(
        &mut self,
        state: &mut State<P, W>,
        receivers: usize,
        pack: impl FnOnce(&Portion<P, W>) -> P::Packed,
    ) -> Share<P, W> {
        match self {
            Feed::Injecting(_) => state.divide(receivers as u32 + 1, pack),
            Feed::HandingOver(noises) => noises.split(state, receivers, pack),
        }
    }

    /// Draws all noise that later rounds need.
    pub(super) fn prepare(&mut self, source: &mut impl NoiseSource<P>) {
        match self {
            Feed::Injecting(rows) => rows.prepare(source),
            Feed::HandingOver(noises) => noises.prepare(source),
        }
    }

    /// The end of an online round before the last.
    pub(super) fn inject(&mut self, source: &mut impl NoiseSource<P>, round: u32, state: &mut State<P, W>) {
        match self {
            Feed::Injecting(rows) => rows.inject(source, round, state),
            Feed::HandingOver(noises) => noises.refill(source, round),
        }
    }

    /// The end of the last online round.
    pub(super) fn cancel(&mut self, state: &mut State<P, W>) {
        match self {
            Feed::Injecting(rows) => rows.cancel(state),
            // Its noises cancel by themselves.
            Feed::HandingOver(_) => {}
        }
    }
}
