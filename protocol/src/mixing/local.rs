//! Local noise: what a party brings is in its state from the start, and never leaves it before the
//! final. A third mechanism, for tests of what a mechanism has to answer.

use crate::lattice::payload::Payload;
use crate::mixing::feed::{DrawnNoise, Feed, Pack, WayIn};
use crate::mixing::portion::{NoiseSource, Portion, Share};
use crate::mixing::state::State;

/// A party that sends nothing and gets nothing.
pub(super) struct Unmixed;

impl<P, W> WayIn<P, W> for Unmixed
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    fn begin(&self, own: Share<P, W>) -> (Box<dyn Feed<P, W>>, State<P, W>) {
        (Box::new(Unmixed), State::of(&own))
    }

    fn injected(&self, _: usize, own: &Share<P, W>, _: DrawnNoise<'_, P>) -> Portion<P, W> {
        State::of(own).present()
    }
}

impl<P, W> Feed<P, W> for Unmixed
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    fn split(&mut self, state: &mut State<P, W>, receivers: usize, pack: Pack<'_, P, W>) -> Share<P, W> {
        assert_eq!(receivers, 0, "nobody sends anything");
        state.divide(1, pack)
    }

    fn prepare(&mut self, _: &mut dyn NoiseSource<P>) {}

    fn inject(&mut self, _: &mut dyn NoiseSource<P>, _: u32, _: &mut State<P, W>) {}

    fn cancel(&mut self, _: &mut State<P, W>) {}
}

mod tests;
