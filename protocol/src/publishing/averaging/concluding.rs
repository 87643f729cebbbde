//! How it ends for this node: with a mean and its bound, or without one.

use std::collections::BTreeSet;

use crate::lattice::grid::LatticeWeight;
use crate::publishing::averaging::averaged::VerifiedMean;
use crate::publishing::averaging::fast::Fast;
use crate::publishing::averaging::machine::{Averaging, Entrants, Mode};
use crate::publishing::interface::Surroundings;
use crate::time::Time;
use crate::topology::party::Party;

impl Averaging {
    pub(super) fn conclude_fast(&mut self, now: Time) {
        let (Mode::Fast(fast), Some(electorate)) = (&self.stage, &self.electorate) else {
            return;
        };
        let included = electorate.members.clone();
        let mean = self.mean(
            electorate,
            &included,
            self.sum_of_fast(fast, &included),
            fast.schedule().course.error,
        );
        self.end(now, included, mean);
    }

    pub(super) fn conclude_fallback(&mut self, now: Time, only_within: bool) {
        let (Mode::Fallback { fallback, .. }, Some(electorate)) = (&self.stage, &self.electorate) else {
            return;
        };
        let included = fallback.roles().included();
        let mean = fallback.best().and_then(|best| {
            let sum = self.sum_of_fallback(&best.mean, &included);
            self.mean(electorate, &included, sum, best.bound)
        });
        if only_within && !mean.as_ref().is_some_and(|mean| self.is_within(mean)) {
            return;
        }
        self.end(now, included, mean);
    }

    /// A result in steps of the sum.
    pub(super) fn sum_of_fast(&self, fast: &Fast, included: &BTreeSet<Party>) -> Vec<i128> {
        let count = included.len() as i128;
        fast.state()
            .iter()
            .map(|&x| self.terms.to_steps(i128::from(x).wrapping_mul(count)))
            .collect()
    }

    pub(super) fn sum_of_fallback(&self, mean: &[f64], included: &BTreeSet<Party>) -> Vec<i128> {
        let scale = included.len() as f64 * libm::exp2(f64::from(self.terms.grain_log2));
        mean.iter().map(|x| (x * scale).round() as i128).collect()
    }

    pub(super) fn is_within(&self, mean: &VerifiedMean) -> bool {
        mean.standard_errors <= 0.5 * self.terms.accuracy()
    }

    /// `bound`: how far an average in units may be from the exact one of the openings.
    pub(super) fn mean(
        &self,
        electorate: &Entrants,
        included: &BTreeSet<Party>,
        sum: Vec<i128>,
        bound: f64,
    ) -> Option<VerifiedMean> {
        let weights = included
            .iter()
            .filter_map(|party| Some(electorate.entries.get(party)?.weight.0));
        let weight = LatticeWeight(weights.fold(0, i128::saturating_add));
        let in_parties = self.lattice.weight_to_f64(weight.0);
        let terms = &self.terms;
        let units = bound + terms.rounded(included.len());
        let steps = units * included.len() as f64 * libm::exp2(f64::from(terms.grain_log2));
        let standard_errors = units * terms.unit_errors(included.len(), in_parties);
        (in_parties > 0.0).then_some(VerifiedMean {
            sum,
            weight,
            steps,
            standard_errors,
        })
    }

    /// Ends with what there is: this node leaves.
    pub fn leave(&mut self, now: Time, around: &Surroundings<'_>) {
        match self.stage {
            Mode::Fallback { .. } => self.conclude_fallback(now, false),
            _ => {
                let included = self
                    .electorate
                    .as_ref()
                    .map(|electorate| electorate.members.clone())
                    .unwrap_or_default();
                self.end(now, included, None);
            }
        }
        self.give_out_at_once(around);
    }
}
