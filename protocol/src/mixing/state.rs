//! One party's state while it mixes: a sum that is worked out once a round.

use crate::lattice::payload::{Coefficient, Payload};
use crate::mixing::portion::{Portion, Resting, Share};

/// Multiples of vectors at rest, to be added.
pub(super) type Multiples<P> = Vec<(<P as Payload>::Coefficient, <P as Payload>::Packed)>;

/// Multiples with their vectors borrowed, as [`Payload::add_multiples`] takes them.
pub(super) fn borrowed<C: Copy, V>(owned: &[(C, V)]) -> Vec<(C, &V)> {
    owned.iter().map(|(factor, vector)| (*factor, vector)).collect()
}

/// The state that a party holds. A long vector is gone through once a round, when it is split:
/// until then what belongs to it waits in `due`.
pub(super) struct State<P: Payload, W> {
    /// The sum, but for what is due.
    pub(super) sum: Portion<P, W>,
    /// Multiples of values that belong to the state (their weights are in it already).
    pub(super) due: Multiples<P>,
}

impl<P, W> State<P, W>
where
    P: Payload,
    W: Payload<Coefficient = P::Coefficient, Packed = W>,
{
    /// Returns an empty state of the shape of `own`.
    pub(super) fn zero_like(own: &Resting<P, W>) -> Self {
        State {
            sum: Portion {
                value: P::zero_like(&own.value),
                weight: W::zero_like(&own.weight),
            },
            due: Vec::new(),
        }
    }

    /// All of a party's own value, with its weight.
    pub(super) fn of(own: &Resting<P, W>) -> Self {
        let mut state = State::zero_like(own);
        state.join(own);
        state
    }

    /// Adds everything that belongs to the state, with its weight.
    pub(super) fn join(&mut self, part: &Resting<P, W>) {
        self.due.push((P::Coefficient::one(), part.value.clone()));
        self.sum.weight.add(&part.weight);
    }

    /// Works out the sum and divides its values.
    pub(super) fn add_due(&mut self, ways: u32) {
        self.sum.value.add_and_divide(&borrowed(&self.due), ways);
        self.due.clear();
    }

    /// Divides the state into equal parts, of which one stays; the other, as `pack` puts it.
    pub(super) fn divide(
        &mut self,
        ways: u32,
        pack: impl FnOnce(&Portion<P, W>) -> P::Packed,
    ) -> Share<P, W> {
        self.add_due(ways);
        self.sum.weight.add_and_divide(&[], ways);
        self.packed(pack)
    }

    /// Gives the whole state away, as `pack` puts it, less `fresh`, which stays as the new one.
    pub(super) fn hand_over(
        &mut self,
        fresh: P::Packed,
        pack: impl FnOnce(&Portion<P, W>) -> P::Packed,
    ) -> Share<P, W> {
        self.due.push((P::Coefficient::one().negated(), fresh.clone()));
        self.add_due(1);
        let share = self.packed(pack);
        self.sum = Portion {
            value: P::zero_like(&fresh),
            weight: W::zero_like(&share.0.weight),
        };
        self.due.push((P::Coefficient::one(), fresh));
        share
    }

    fn packed(&self, pack: impl FnOnce(&Portion<P, W>) -> P::Packed) -> Share<P, W> {
        Share(Portion {
            value: pack(&self.sum),
            weight: self.sum.weight.clone(),
        })
    }

    /// The state as it is now.
    pub(super) fn present(&self) -> Portion<P, W> {
        let mut state = self.sum.clone();
        state.value.add_multiples(&borrowed(&self.due));
        state
    }
}
