//! Rules of a mechanism for one party's mixing: how value and noise get into its state, and what a
//! share is.

use crate::lattice::payload::Payload;
use crate::mixing::portion::{NoiseSource, Portion, Resting, Share};
use crate::mixing::state::State;

/// Puts the values of a share at rest, or as they travel; called at most once.
pub(super) type Pack<'a, P, W> = Box<dyn FnOnce(&Portion<P, W>) -> <P as Payload>::Packed + 'a>;

/// A lookup of the correlated noise that a party has drawn so far, by number.
pub(super) type DrawnNoise<'a, P> = &'a dyn Fn(usize) -> Option<&'a <P as Payload>::Packed>;

/// A mechanism, before a party mixes.
pub(super) trait InjectorRule<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// Begins with a party's own noisy value and weight. Returns the injector and the party's first
    /// state.
    fn begin(&self, own: Resting<P, W>) -> (Box<dyn Injector<P, W>>, State<P, W>);

    /// Returns everything that a party has contributed to the run after `ends` ends of rounds, from
    /// what it has drawn of its noise. One of the ends is before round 1.
    fn injected(&self, ends: usize, own: &Resting<P, W>, drawn: DrawnNoise<'_, P>) -> Portion<P, W>;
}

/// A mechanism at work in one party.
pub(super) trait Injector<P, W>: Send
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// Returns the share of the state for each of `receivers` parties.
    fn split(&mut self, state: &mut State<P, W>, receivers: usize, pack: Pack<'_, P, W>) -> Share<P, W>;

    /// Draws all noise that later rounds need.
    fn prepare(&mut self, source: &mut dyn NoiseSource<P>);

    /// The end of an online round before the last.
    fn inject(&mut self, source: &mut dyn NoiseSource<P>, round: u32, state: &mut State<P, W>);

    /// The end of the last online round.
    fn cancel(&mut self, state: &mut State<P, W>);
}
