//! Losses of what happened, computed against every coalition.

use std::collections::BTreeSet;

use undertone_protocol::messages::log::AgreedLogs;
use undertone_protocol::topology::party::Party;

use crate::bounds::exact_sum;
use crate::class::coalitions::{self, MOST_PARTIES, MOST_SETTLED};
use crate::execution::checked::Execution;
use crate::execution::rows::{Rows, SCREENED};
use crate::execution::settled::{LogsError, Readings, exceptions};
use crate::execution::share::ShareFault;
use crate::execution::trace::Trace;
use crate::gate::plan_facts::{Gate, LargestLoss};
use crate::gate::verdict::Basis;
use crate::losses::loss::{largest, largest_mu, scaled, squared_losses};
use crate::losses::view::View;
use crate::parallel::in_parallel;

impl Gate<'_> {
    /// Whether the gate computes so many readings of what happened; else a theorem stands in. One
    /// reading is always computed where the plan's whole class was.
    pub(super) fn feasible(&self, members: usize, readings: usize) -> bool {
        self.plan.parties() <= MOST_PARTIES
            && coalitions::settled_products(&self.setting, members) * readings as f64 <= MOST_SETTLED
    }

    /// The largest loss with roll-back: of the members, against whom by Theorem R the departed
    /// collude and stay; and of the departed.
    pub(super) fn with_roll_back(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<Option<LargestLoss>, LogsError> {
        if !self.feasible(publish.len(), 1) {
            return Ok(None);
        }
        let departed = self.departed(publish);
        let execution = self.among_members(logs, publish)?;
        let worst = self.worst(&[execution], &self.coalitions(publish, &departed), |_| true)?;
        Ok(Some(self.or_departed(worst, logs, publish)?))
    }

    /// The largest loss in the paper's protocol: over what the logs say, every reading of what
    /// silent parties did, and coalitions of any parties.
    pub(super) fn as_it_was(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<Option<LargestLoss>, LogsError> {
        let readings = Readings::of(self.plan, logs, 0);
        let everybody: BTreeSet<Party> = (0..self.plan.parties()).collect();
        let Some(count) = readings
            .count()
            .filter(|&count| self.feasible(everybody.len(), count))
        else {
            return Ok(None);
        };
        let mut executions = Vec::with_capacity(count);
        for reading in 0..count {
            executions.push(
                readings
                    .execution(&self.base, reading)?
                    .with_published(publish.iter().copied())?,
            );
        }
        Ok(Some(self.worst(
            &executions,
            &self.coalitions(&everybody, &BTreeSet::new()),
            |_| true,
        )?))
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
            logs,
            publish,
        )
    }

    /// What happened to shares among the members; the departed are there to the end.
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
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<LargestLoss, LogsError> {
        let departed = self.departed(publish);
        for &party in &departed {
            let own = self.departed_own(logs, publish, &departed, party)?;
            if own.mu > worst.mu {
                // The bound needs an execution that is not above it: that of the survivors is one.
                let execution = if own.basis == Basis::Computed {
                    own.execution
                } else {
                    worst.execution
                };
                worst = LargestLoss { execution, ..own };
            }
        }
        Ok(worst)
    }

    /// A departed party's own loss: the theorem before publishing; if that exceeds the budget, the
    /// view itself.
    pub(super) fn departed_own(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
        departed: &BTreeSet<Party>,
        party: Party,
    ) -> Result<LargestLoss, LogsError> {
        // The theorem.
        let bound = self.bound_before_publishing(party)?;
        let bounded = LargestLoss {
            mu: bound,
            execution: self.base.clone(),
            basis: Basis::BeforePublishing,
            among: None,
        };
        if bound <= self.budget {
            return Ok(bounded);
        }
        let others: BTreeSet<Party> = departed.iter().copied().filter(|&other| other != party).collect();
        // All that it was due to send up to T counts as sent: it is online to the end. The other
        // departed are known to the coalition.
        let known: AgreedLogs = logs
            .iter()
            .filter(|(author, _)| publish.contains(author))
            .map(|(&author, log)| (author, log.clone()))
            .collect();
        let readings = Readings::of(self.plan, &known, self.plan.rounds());
        let Some(count) = readings
            .count()
            .filter(|&count| self.feasible(publish.len(), count))
        else {
            return Ok(bounded);
        };
        // The view: with every reading, as if the party were rolled back.
        let mut executions = Vec::with_capacity(count);
        for reading in 0..count {
            let execution = readings.execution(&self.base, reading)?;
            executions.push(
                all_seen(execution, party)?
                    .with_published([])?
                    .with_rolled_back([party])?
                    .with_published(publish.iter().copied())?,
            );
        }
        let exact = self.worst(&executions, &self.coalitions(publish, &others), |who| {
            who == party
        })?;
        Ok(if exact.mu <= bound { exact } else { bounded })
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

    /// The largest loss, over executions and coalitions, of parties that count.
    pub(super) fn worst(
        &self,
        executions: &[Execution],
        coalitions: &[BTreeSet<Party>],
        counts: impl Fn(Party) -> bool + Sync,
    ) -> Result<LargestLoss, LogsError> {
        let mut worst: Option<LargestLoss> = None;
        let members = coalitions.first().map_or(0, BTreeSet::len);
        let members = (self.plan.parties() + self.setting.colluding).saturating_sub(members);
        for execution in executions {
            if !self.spend(coalitions::settled_products(&self.setting, members)) {
                return self.unknown(execution);
            }
            let trace = Trace::of(execution, &self.setting.weights);
            // Worst first, so that the rest need not be computed once one is worse than they may
            // be.
            for (screened, coalition) in self.screen(&trace, execution, coalitions, &counts) {
                if worst
                    .as_ref()
                    .is_some_and(|worst| screened * (1.0 + SCREENED) < worst.mu.powi(2))
                {
                    break;
                }
                let against = execution
                    .clone()
                    .with_corrupted(coalitions[coalition].iter().copied())?;
                let view = View::of_trace(&trace, &against);
                if !self.spend_on_view(&view) {
                    return self.unknown(execution);
                }
                let squares = squared_losses(&view, self.noise);
                let losses = view
                    .honest
                    .iter()
                    .zip(squares)
                    .filter(|(party, _)| counts(**party));
                let losses = losses
                    .map(|(&party, square)| (party, scaled(self.setting.sensitivity[party], square)))
                    .collect();
                let mu = largest_mu(&losses);
                if worst.as_ref().is_none_or(|worst| mu > worst.mu) {
                    worst = Some(LargestLoss {
                        mu,
                        execution: against,
                        basis: Basis::Computed,
                        among: None,
                    });
                }
            }
        }
        Ok(worst.expect("there is at least one execution and one coalition"))
    }

    /// What is said of an execution that there was no time to look at.
    fn unknown(&self, execution: &Execution) -> Result<LargestLoss, LogsError> {
        Ok(LargestLoss {
            mu: f64::INFINITY,
            execution: execution.clone(),
            basis: Basis::Computed,
            among: None,
        })
    }

    /// The largest squared loss against each coalition by the fast path, worst first; ∞ where that
    /// is in doubt.
    pub(super) fn screen(
        &self,
        trace: &Trace,
        execution: &Execution,
        coalitions: &[BTreeSet<Party>],
        counts: &(impl Fn(Party) -> bool + Sync),
    ) -> Vec<(f64, usize)> {
        if self.setting.reveals_sums(self.noise) {
            // Losses of rolled back parties, over a few coalitions: each is computed with care.
            return (0..coalitions.len())
                .map(|index| (f64::INFINITY, index))
                .collect();
        }
        let rows = Rows::of(trace, execution);
        let ratio = (self.noise.correlated_std / self.noise.independent_std).powi(2);
        let at = rows.at(
            ratio,
            coalitions.len(),
            coalitions.first().map_or(0, BTreeSet::len),
        );
        let scale = self.noise.independent_std.powi(2);
        let mut screened = in_parallel(coalitions.len(), |index| {
            let coalition: Vec<Party> = coalitions[index].iter().copied().collect();
            let Some(squares) = at.squared_losses(&coalition) else {
                return Some((f64::INFINITY, index));
            };
            let honest = rows
                .honest(&coalition)
                .into_iter()
                .zip(squares)
                .filter(|&(party, _)| counts(party));
            let (parties, squares): (Vec<Party>, Vec<f64>) = honest.unzip();
            Some((
                largest(&parties, &squares, &self.setting.sensitivity).0.max(0.0) / scale,
                index,
            ))
        });
        screened.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        screened
    }
}

/// An execution with every share that `party` sent counted as seen.
fn all_seen(execution: Execution, party: Party) -> Result<Execution, LogsError> {
    let seen = |fault: &ShareFault| ShareFault {
        seen: fault.seen || fault.from == party,
        ..*fault
    };
    let shares = execution.shares().iter().map(seen).collect();
    Ok(execution.with_shares(shares)?)
}
