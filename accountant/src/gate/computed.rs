//! Losses of what happened, computed against every coalition.

use std::collections::BTreeSet;

use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::topology::party::Party;

use crate::bounds::flows::{CoalitionSet, Flows, products_of};
use crate::class::coalitions;
use crate::execution::checked::Execution;
use crate::execution::settled::{LogsError, exceptions};
use crate::execution::share::ShareFault;
use crate::gate::plan_facts::{Gate, LargestLoss, MOST_OF_ONE};
use crate::gate::verdict::Basis;
use crate::guarantee::exact_sum;

impl Gate<'_> {
    /// Roughly how many multiplications [`computed`](Self::computed) takes for so many members.
    pub(super) fn products(&self, members: usize) -> f64 {
        let coalitions = coalitions::count(members, self.coalition_size(members));
        let size = self.plan.parties() - members + self.coalition_size(members);
        products_of(&self.setting, coalitions.unwrap_or(usize::MAX), size)
    }

    /// The largest loss of the members in what happened, by Theorem C for every coalition of as
    /// many as collude, joined by the departed ([`Flows`]). None where no theorem speaks of the
    /// plan, or there are too many coalitions.
    pub(super) fn computed(
        &self,
        happened: Execution,
        publish: &BTreeSet<Party>,
    ) -> Result<Option<LargestLoss>, LogsError> {
        let members: Vec<Party> = publish.iter().copied().collect();
        let products = self.products(members.len());
        if products > MOST_OF_ONE {
            return Ok(None);
        }
        let Some(flows) = Flows::after(&self.setting, happened.shares()) else {
            return Ok(None);
        };
        if !self.spend(products) {
            return self.unknown(&happened).map(Some);
        }
        let departed = self.departed(publish);
        let colluding = self.coalition_size(members.len());
        let threat = CoalitionSet::joined(&departed, &members, colluding);
        let ratio = (self.noise.correlated_std / self.noise.independent_std).powi(2);
        let worst = flows.worst(ratio, &threat);
        Ok(Some(LargestLoss {
            // Rounded up already, by less than claims are.
            mu: worst.square.sqrt() / self.noise.independent_std,
            execution: happened.with_corrupted(worst.coalition)?,
            basis: Basis::Computed,
            among: None,
        }))
    }

    /// The largest loss with `independent_noise = "none"`: of changes that keep every revealed sum,
    /// by Theorem R against the departed, too; and of the departed, of whose values no sum is
    /// revealed.
    pub(super) fn same_sum(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<LargestLoss, LogsError> {
        let departed = self.departed(publish);
        let execution = self.among_members(logs, publish)?;
        let coalitions: Vec<Vec<Party>> = self
            .coalitions(publish, &departed)
            .into_iter()
            .map(|coalition| coalition.into_iter().collect())
            .collect();
        // Each takes the singular values of a view of at most so many rows.
        let rows = self.base.unknowns();
        let each = (self.plan.parties() * rows * rows) as f64;
        if !self.spend(10.0 * coalitions.len() as f64 * each) {
            return self.unknown(&execution);
        }
        let steepest = exact_sum::steepest(&self.setting, &[execution], &coalitions)?;
        let mu = exact_sum::loss(&self.setting, &steepest, self.noise.correlated_std);
        self.or_departed(
            LargestLoss {
                mu,
                execution: steepest.execution,
                basis: Basis::Computed,
                among: None,
            },
            publish,
        )
    }

    /// Returns the execution among the members, in which the departed stay to the end.
    pub(super) fn among_members(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<Execution, LogsError> {
        let among = |fault: &ShareFault| publish.contains(&fault.from) && publish.contains(&fault.to);
        let shares = exceptions(self.plan, logs).into_iter().filter(among).collect();
        Ok(self
            .base
            .clone()
            .with_shares(shares)?
            .with_published(publish.iter().copied())?)
    }

    /// The members' worst loss, or a departed party's own if that is larger.
    pub(super) fn or_departed(
        &self,
        mut worst: LargestLoss,
        publish: &BTreeSet<Party>,
    ) -> Result<LargestLoss, LogsError> {
        for party in self.departed(publish) {
            let own = self.bound_before_publishing(party)?;
            if own > worst.mu {
                // The execution of the survivors has no larger loss: it stays.
                worst.mu = own;
                worst.basis = Basis::BeforePublishing;
            }
        }
        Ok(worst)
    }

    /// Every coalition of `colluding` of the members, joined by the departed.
    pub(super) fn coalitions(
        &self,
        members: &BTreeSet<Party>,
        departed: &BTreeSet<Party>,
    ) -> Vec<BTreeSet<Party>> {
        let members: Vec<Party> = members.iter().copied().collect();
        let join = |chosen: Vec<usize>| {
            chosen
                .into_iter()
                .map(|index| members[index])
                .chain(departed.iter().copied())
                .collect()
        };
        coalitions::all(members.len(), self.coalition_size(members.len()))
            .into_iter()
            .map(join)
            .collect()
    }

    /// Returns an infinite loss for an execution that there was no time to look at.
    fn unknown(&self, execution: &Execution) -> Result<LargestLoss, LogsError> {
        Ok(LargestLoss {
            mu: f64::INFINITY,
            execution: execution.clone(),
            basis: Basis::Computed,
            among: None,
        })
    }
}
