//! The gate where coalitions are too many to compute: PPSC's bound on all of them
//! ([`crate::bounds::spreading`]).

use std::collections::BTreeSet;

use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::topology::party::Party;

use crate::bounds::bound::Bound;
use crate::execution::settled::LogsError;
use crate::gate::plan_facts::{Gate, LargestLoss};
use crate::gate::verdict::Basis;

impl Gate<'_> {
    /// What is bounded of PPSC with too many coalitions: by Theorem R the departed stay and
    /// collude, and all coalitions of what happened are bounded at once; within the tolerated class
    /// never by more than the plan's. None if that is no less than the loss of local noise.
    pub(super) fn bounded(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<Option<LargestLoss>, LogsError> {
        let execution = self.among_members(logs, publish)?;
        let size = self.coalition_size(publish.len());
        let bound = Bound::of_execution(&self.setting, &execution, publish, size);
        if bound.is_local() {
            return Ok(None);
        }
        let here = bound.loss(self.noise)?;
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
            LargestLoss {
                mu,
                execution,
                basis: Basis::Spreading,
                among: None,
            },
            logs,
            publish,
        )?;
        Ok(Some(worst).filter(|worst| worst.mu < self.theorem()))
    }

    /// The loss that the plan's claim states of its class; none where that is not bounded.
    fn bound_of_class(&self) -> Result<Option<f64>, LogsError> {
        if self.of_class.get().is_none() {
            let bound = Bound::proved(&self.setting)?;
            let bound = if bound.is_local() {
                None
            } else {
                Some(bound.loss(self.noise)?)
            };
            let _ = self.of_class.set(bound);
        }
        Ok(self.of_class.get().copied().flatten())
    }
}
