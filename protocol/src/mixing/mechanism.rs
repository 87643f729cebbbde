//! The mechanisms. Everything in which they differ while a party mixes stands in a file of each, as
//! a `WayIn` and a `Feed` (`mixing/feed.rs`); here they are only chosen between.

use crate::lattice::payload::Payload;
use crate::mixing::feed::WayIn;
use crate::mixing::inca::InjectionWay;
use crate::mixing::masks::MaskWay;
use crate::mixing::portion::{Portion, Resting};
use crate::mixing::ppsc::HandOverWay;
use crate::plan::exchange::ways_in::Mechanism;

impl<C: 'static> Mechanism<C> {
    /// How parties of this mechanism mix.
    pub(super) fn way<P, W>(&self) -> Box<dyn WayIn<P, W>>
    where
        P: Payload<Coefficient = C>,
        W: Payload<Coefficient = C, Packed = W>,
    {
        match self {
            Mechanism::Injection(injection) => Box::new(InjectionWay(injection.clone())),
            Mechanism::HandOver { hand_outs } => Box::new(HandOverWay(*hand_outs)),
            Mechanism::Masks { masks } => Box::new(MaskWay(*masks)),
        }
    }

    /// Everything that a party has brought into the run after `ends` ends of rounds (one of them
    /// before round 1), from what it has drawn of its noise.
    pub(crate) fn injected<'a, P, W>(
        &self,
        ends: usize,
        own: &Resting<P, W>,
        drawn: &'a dyn Fn(usize) -> Option<&'a P::Packed>,
    ) -> Portion<P, W>
    where
        P: Payload<Coefficient = C>,
        W: Payload<Coefficient = C, Packed = W>,
    {
        self.way().injected(ends, own, drawn)
    }
}
