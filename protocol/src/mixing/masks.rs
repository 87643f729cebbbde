//! Masks of pairs, as whoever looks at what a coalition learns has them: a share is a fresh noise
//! that its sender deducts and its receiver adds.
//!
//! Nodes exchange none of it: both ends expand the same residues from a key that they have in
//! common ([`PairMasks`](crate::sealing::pair_masks::PairMasks)), of a cipher that cannot be told
//! from uniform noise. What is drawn here is that noise.

use std::collections::VecDeque;

use crate::lattice::payload::{Coefficient, Payload};
use crate::mixing::injector::{DrawnNoise, Injector, InjectorRule, Pack};
use crate::mixing::portion::{NoiseSource, Portion, Resting, Share};
use crate::mixing::state::State;

/// A party that draws so many masks.
pub(super) struct MaskRule(pub(super) usize);

impl<P, W> InjectorRule<P, W> for MaskRule
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    fn begin(&self, own: Resting<P, W>) -> (Box<dyn Injector<P, W>>, State<P, W>) {
        let masking = Masking {
            masks: self.0,
            drawn: 0,
            fresh: VecDeque::new(),
        };
        (Box::new(masking), State::of(&own))
    }

    /// Only what it began with: what it adds of a mask it has deducted, or its neighbour has.
    fn injected(&self, _: usize, own: &Resting<P, W>, _: DrawnNoise<'_, P>) -> Portion<P, W> {
        State::of(own).present()
    }
}

struct Masking<P: Payload> {
    masks: usize,
    drawn: usize,
    fresh: VecDeque<P::Packed>,
}

impl<P: Payload> Masking<P> {
    fn draw(&mut self, source: &mut dyn NoiseSource<P>, round: u32) {
        self.fresh.push_back(source.draw(self.drawn, round));
        self.drawn += 1;
    }
}

impl<P, W> Injector<P, W> for Masking<P>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// The next mask, without weight, to one party; none in a round without a receiver.
    fn split(&mut self, state: &mut State<P, W>, receivers: usize, pack: Pack<'_, P, W>) -> Share<P, W> {
        if receivers == 0 {
            return state.divide(1, pack);
        }
        assert_eq!(receivers, 1, "a pair has a mask of its own");
        let fresh = self
            .fresh
            .pop_front()
            .expect("the machine was made for as many masks as it hands out, at most one a round");
        state.due.push((P::Coefficient::one().negated(), fresh.clone()));
        let mut value = P::zero_like(&fresh);
        value.add_multiples(&[(P::Coefficient::one(), &fresh)]);
        let weight = W::zero_like(&state.sum.weight);
        let value = pack(&Portion {
            value,
            weight: weight.clone(),
        });
        Share(Portion { value, weight })
    }

    /// Has all later masks at hand.
    fn prepare(&mut self, source: &mut dyn NoiseSource<P>) {
        while self.drawn < self.masks {
            self.draw(source, 0);
        }
    }

    /// Has the next mask at hand, if there is another.
    fn inject(&mut self, source: &mut dyn NoiseSource<P>, round: u32, _: &mut State<P, W>) {
        if self.fresh.is_empty() && self.drawn < self.masks {
            self.draw(source, round);
        }
    }

    /// Does nothing: masks cancel by themselves.
    fn cancel(&mut self, _: &mut State<P, W>) {}
}
