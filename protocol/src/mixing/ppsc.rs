//! PPSC (Algorithm 1): the value is in the state from the start; a share is the whole state less a
//! fresh noise γ that stays. One γ for each hand-out, drawn before it is needed.

use std::collections::VecDeque;

use crate::lattice::payload::Payload;
use crate::mixing::injector::{DrawnNoise, Injector, InjectorRule, Pack};
use crate::mixing::portion::{NoiseSource, Portion, Resting, Share};
use crate::mixing::state::State;

/// A party of PPSC with so many hand-outs in the whole run.
pub(super) struct HandOverRule(pub(super) usize);

impl<P, W> InjectorRule<P, W> for HandOverRule
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    fn begin(&self, own: Resting<P, W>) -> (Box<dyn Injector<P, W>>, State<P, W>) {
        (Box::new(HandingOver::new(self.0)), State::of(&own))
    }

    /// Only what it began with: a fresh noise that it keeps it deducts from a share.
    fn injected(&self, _: usize, own: &Resting<P, W>, _: DrawnNoise<'_, P>) -> Portion<P, W> {
        State::of(own).present()
    }
}

struct HandingOver<P: Payload> {
    /// Hand-outs of this party in the whole run.
    hand_outs: usize,
    drawn: usize,
    fresh: VecDeque<P::Packed>,
}

impl<P: Payload> HandingOver<P> {
    fn new(hand_outs: usize) -> Self {
        HandingOver {
            hand_outs,
            drawn: 0,
            fresh: VecDeque::new(),
        }
    }

    fn draw(&mut self, source: &mut dyn NoiseSource<P>, round: u32) {
        self.fresh.push_back(source.draw(self.drawn, round));
        self.drawn += 1;
    }
}

impl<P, W> Injector<P, W> for HandingOver<P>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// The whole state less the next fresh noise, to one party; none in a round without a receiver.
    fn split(&mut self, state: &mut State<P, W>, receivers: usize, pack: Pack<'_, P, W>) -> Share<P, W> {
        if receivers == 0 {
            return state.divide(1, pack);
        }
        assert_eq!(
            receivers, 1,
            "a schedule of PPSC has at most one receiver a party and round"
        );
        let fresh = self
            .fresh
            .pop_front()
            .expect("the schedule gives as many hand-outs as the machine was made for, at most one a round");
        state.hand_over(fresh, pack)
    }

    /// Has all later γ at hand.
    fn prepare(&mut self, source: &mut dyn NoiseSource<P>) {
        while self.drawn < self.hand_outs {
            self.draw(source, 0);
        }
    }

    /// Has the next γ at hand, if there is another hand-out.
    fn inject(&mut self, source: &mut dyn NoiseSource<P>, round: u32, _: &mut State<P, W>) {
        if self.fresh.is_empty() && self.drawn < self.hand_outs {
            self.draw(source, round);
        }
    }

    /// Does nothing: its noises cancel by themselves.
    fn cancel(&mut self, _: &mut State<P, W>) {}
}
