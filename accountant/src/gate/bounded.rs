//! The gate where coalitions are too many to compute: PPSC's bound on all of them ([`crate::ppsc::spreading`]).

use std::collections::BTreeSet;

use undertone_protocol::log::AgreedLogs;
use undertone_protocol::mixing::Party;

use super::{Basis, Found, Gate};
use crate::execution::Family;
use crate::gaussian::SLACK;
use crate::ppsc::spreading::Spreading;
use crate::settled::LogsError;

impl Gate<'_> {
    /// PPSC with too many coalitions: Theorem R as above, and a bound for all coalitions of what happened; within the tolerated class never more than the
    /// plan's. None if that is no less than the theorem's.
    pub(super) fn bounded(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<Option<Found>, LogsError> {
        if self.setting.family != Family::Ppsc || !self.setting.rollback {
            return Ok(None);
        }
        let execution = self.among_members(logs, publish)?;
        let size = self.coalition_size(publish.len());
        let spreading = Spreading::of(&execution, |party| publish.contains(&party), size, 0);
        let here = self.bound_of(&spreading, |party| publish.contains(&party));
        let departures = self.plan.parties() - publish.len();
        let in_class = departures <= self.setting.dropouts && execution.shares().len() <= 1;
        let of_class = if in_class { self.bound_of_class()? } else { None };
        let mu = of_class.map_or(here, |of_class| of_class.min(here));
        let corrupted = self
            .departed(publish)
            .into_iter()
            .chain(publish.iter().copied().take(size));
        let execution = execution.with_corrupted(corrupted)?;
        let worst = self.or_departed(
            Found {
                mu,
                execution,
                basis: Basis::Spreading,
            },
            logs,
            publish,
        )?;
        Ok(Some(worst).filter(|worst| worst.mu < self.theorem()))
    }

    /// μ that the plan's claim says of its class; none where that is not bounded.
    fn bound_of_class(&self) -> Result<Option<f64>, LogsError> {
        if self.of_class.get().is_none() {
            let bound =
                Spreading::of_class(&self.setting)?.map(|spreading| self.bound_of(&spreading, |_| true));
            let _ = self.of_class.set(bound);
        }
        Ok(self.of_class.get().copied().flatten())
    }

    fn bound_of(&self, spreading: &Spreading, counts: impl Fn(Party) -> bool) -> f64 {
        let ratio = (self.noise.correlated_std / self.noise.independent_std).powi(2);
        let (square, _) = spreading.worst(&self.setting.sensitivity, ratio, counts);
        square.sqrt() / self.noise.independent_std * (1.0 + SLACK)
    }
}
