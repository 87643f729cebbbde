//! One party's computation in one round of gossip averaging.

use crate::lattice::average::{Averageable, nearest};
use crate::mixing::gossip::weights::RoundWeights;
use crate::topology::party::Party;

/// The part of the parties' values that a state carries: public, and [`CarriedWeight::WHOLE`] as
/// long as no message was missing. Never above that, and 0 only after dozens of rounds without a
/// message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CarriedWeight(i128);

impl CarriedWeight {
    /// The weight of a state that lacks nothing: 2^64.
    pub const WHOLE: Self = CarriedWeight(1 << 64);

    /// A weight that was told; `None` if it is one that no honest party has.
    pub fn from_units(weight: i128) -> Option<Self> {
        (0..=Self::WHOLE.0)
            .contains(&weight)
            .then_some(CarriedWeight(weight))
    }

    /// The weight as it travels, in units of 2^-64.
    pub fn units(self) -> i128 {
        self.0
    }

    /// The part of a whole that it is: what an estimate divides a state by. From 0 to 1.
    pub fn part(self) -> f64 {
        self.0 as f64 / Self::WHOLE.0 as f64
    }
}

/// One party's round: the terms that have arrived so far.
///
/// Terms may come in any order; the sum is the same to the bit. What does not come is left out.
pub struct RoundSum<'a, P: Averageable> {
    own: Party,
    /// The parties whose messages are due, with their weights.
    row: &'a [(Party, u32)],
    /// The terms that are in, by place in `row`.
    there: Vec<bool>,
    /// The own message, which becomes the next state.
    message: P,
    sum: P::Sum,
    weight: i128,
}

impl<'a, P: Averageable> RoundSum<'a, P> {
    /// Begins with the own message z = θ + x + u and the weight of the state in it. `own` is below
    /// the number of parties.
    pub fn new(weights: &'a RoundWeights, own: Party, message: P, weight: CarriedWeight) -> Self {
        let row = weights.row(own);
        let mut round = RoundSum {
            own,
            row,
            there: vec![false; row.len()],
            sum: message.no_terms(),
            message,
            weight: 0,
        };
        if let Some((place, factor)) = round.place(own) {
            round.there[place] = true;
            round.message.add_to(factor, &mut round.sum);
            round.weight += i128::from(factor) * weight.0;
        }
        round
    }

    fn place(&self, from: Party) -> Option<(usize, u32)> {
        let place = self.row.binary_search_by_key(&from, |&(party, _)| party).ok()?;
        Some((place, self.row[place].1))
    }

    /// A neighbour's message of this round, of the own one's shape. False, and nothing is changed,
    /// if none is due from `from`, or it is in already.
    pub fn add(&mut self, from: Party, message: &P, weight: CarriedWeight) -> bool {
        match self.place(from) {
            Some((place, factor)) if !self.there[place] => {
                self.there[place] = true;
                message.add_to(factor, &mut self.sum);
                self.weight += i128::from(factor) * weight.0;
                true
            }
            _ => false,
        }
    }

    /// Returns the parties whose messages are due and not here, ascending.
    pub fn missing(&self) -> impl Iterator<Item = Party> + '_ {
        let due = self.row.iter().zip(&self.there);
        due.filter(|(_, there)| !**there).map(|(&(party, _), _)| party)
    }

    /// Whether no term but the own one has come.
    pub fn alone(&self) -> bool {
        self.row
            .iter()
            .zip(&self.there)
            .all(|(&(party, _), &there)| !there || party == self.own)
    }

    /// The state after the round, and its weight, of the terms that have come.
    pub fn end(mut self) -> (P, CarriedWeight) {
        self.message.become_average(&self.sum);
        (self.message, CarriedWeight(nearest(self.weight)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::payload::Impulse;
    use crate::mixing::gossip::weights::WHOLE;
    use crate::topology::graph::Graph;
    use proptest::prelude::*;

    fn unit(parties: usize, place: usize) -> Impulse {
        Impulse::unit(parties, place)
    }

    #[test]
    fn a_round_is_the_row_of_weights() {
        let weights = RoundWeights::of(&Graph::ring(5));
        let mut round = RoundSum::new(&weights, 1, unit(5, 1), CarriedWeight::WHOLE);
        assert!(round.alone() && round.missing().eq([0, 2]));
        assert!(round.add(2, &unit(5, 2), CarriedWeight::WHOLE));
        assert!(
            !round.add(2, &unit(5, 2), CarriedWeight::WHOLE),
            "it is in already"
        );
        assert!(
            !round.add(3, &unit(5, 3), CarriedWeight::WHOLE),
            "no edge is active"
        );
        assert!(round.add(0, &unit(5, 0), CarriedWeight::WHOLE) && !round.alone());
        let (state, weight) = round.end();
        let part = |n: u32| f64::from(n) / f64::from(WHOLE);
        assert_eq!(state.0, [part(21845), part(21846), part(21845), 0.0, 0.0]);
        assert_eq!(weight, CarriedWeight::WHOLE);
    }

    #[test]
    fn what_is_missing_takes_its_weight_with_it() {
        let weights = RoundWeights::of(&Graph::complete(4));
        let half = CarriedWeight::from_units(1 << 63).expect("a weight");
        let mut round = RoundSum::new(&weights, 3, unit(4, 3), CarriedWeight::WHOLE);
        round.add(1, &unit(4, 1), half);
        assert!(round.missing().eq([0, 2]));
        let (state, weight) = round.end();
        assert_eq!(state.0, [0.0, 0.25, 0.0, 0.25]);
        assert_eq!(weight.part(), 0.375);
        assert_eq!(CarriedWeight::from_units((1 << 64) + 1), None);
        assert_eq!(CarriedWeight::from_units(-1), None);
    }

    proptest! {
        /// Nothing is lost where nothing is missing: weights stay whole, and the states' sum is the
        /// messages' one.
        #[test]
        fn the_sum_of_all_states_is_kept(
            parties in 2usize..12,
            extra in proptest::collection::vec((0usize..12, 0usize..12), 0..20),
            values in proptest::collection::vec(-1e3f64..1e3, 12),
        ) {
            let weights = RoundWeights::of(&Graph::tree_and(parties, extra));
            let message = |party: Party| Impulse(vec![values[party]]);
            let mut total = 0.0;
            for own in 0..parties {
                let mut round = RoundSum::new(&weights, own, message(own), CarriedWeight::WHOLE);
                for &(other, _) in weights.row(own).iter().rev() {
                    round.add(other, &message(other), CarriedWeight::WHOLE);
                }
                prop_assert_eq!(round.missing().count(), 0);
                let (state, weight) = round.end();
                prop_assert_eq!(weight, CarriedWeight::WHOLE);
                total += state.0[0];
            }
            prop_assert!((total - values[..parties].iter().sum::<f64>()).abs() < 1e-8);
        }
    }
}
