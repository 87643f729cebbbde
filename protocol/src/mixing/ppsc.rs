//! PPSC's fresh noises (Algorithm 1): one γ for each hand-out, drawn before it is needed.

use std::collections::VecDeque;

use crate::lattice::payload::Payload;
use crate::mixing::portion::{NoiseSource, Portion, Share};
use crate::mixing::state::State;

pub(super) struct HandingOver<P: Payload> {
    /// Hand-outs of this party in the whole run.
    hand_outs: usize,
    drawn: usize,
    fresh: VecDeque<P::Packed>,
}

impl<P: Payload> HandingOver<P> {
    pub(super) fn new(hand_outs: usize) -> Self {
        HandingOver {
            hand_outs,
            drawn: 0,
            fresh: VecDeque::new(),
        }
    }

    /// Has the next γ at hand, if there is another hand-out.
    pub(super) fn refill(&mut self, source: &mut impl NoiseSource<P>, round: u32) {
        if self.fresh.is_empty() && self.drawn < self.hand_outs {
            self.draw(source, round);
        }
    }

    /// Has all later γ at hand.
    pub(super) fn prepare(&mut self, source: &mut impl NoiseSource<P>) {
        while self.drawn < self.hand_outs {
            self.draw(source, 0);
        }
    }

    fn draw(&mut self, source: &mut impl NoiseSource<P>, round: u32) {
        self.fresh.push_back(source.draw(self.drawn, round));
        self.drawn += 1;
    }

    /// The whole state less the next fresh noise, to one party; none in a round without a receiver.
    pub(super) fn split<W>(
        &mut self,
        state: &mut State<P, W>,
        receivers: usize,
        pack: impl FnOnce(&Portion<P, W>) -> P::Packed,
    ) -> Share<P, W>
    where
        W: Payload<Coefficient = P::Coefficient, Packed = W>,
    {
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
}
