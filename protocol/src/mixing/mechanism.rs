//! The mechanisms. Everything in which they differ while a party mixes stands in a file of each, as
//! an `InjectorRule` and an `Injector` (`mixing/injector.rs`); here they are only chosen between.

use crate::lattice::payload::Payload;
use crate::mixing::inca::InjectionRule;
use crate::mixing::injector::InjectorRule;
use crate::mixing::masks::MaskRule;
use crate::mixing::portion::{Portion, Resting};
use crate::mixing::ppsc::HandOverRule;
use crate::plan::exchange::injector::Mechanism;

impl<C: 'static> Mechanism<C> {
    /// Returns the rule by which parties of this mechanism mix.
    pub(super) fn rule<P, W>(&self) -> Box<dyn InjectorRule<P, W>>
    where
        P: Payload<Coefficient = C>,
        W: Payload<Coefficient = C, Packed = W>,
    {
        match self {
            Mechanism::Injection(injection) => Box::new(InjectionRule(injection.clone())),
            Mechanism::HandOver { hand_outs } => Box::new(HandOverRule(*hand_outs)),
            Mechanism::Masks { masks } => Box::new(MaskRule(*masks)),
        }
    }

    /// Returns everything that a party has contributed to the run after `ends` ends of rounds, from
    /// what it has drawn of its noise. One of the ends is before round 1.
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
        self.rule().injected(ends, own, drawn)
    }
}
