//! The decision on who may publish.

use std::collections::BTreeSet;

use undertone_protocol::messages::log::{AgreedLogs, deniers};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::bounds::closed_form::speaks_of;
use crate::execution::checked::Execution;
use crate::execution::settled::{LogsError, check, exceptions};
use crate::gate::plan_facts::{Gate, LargestLoss, MOST_OF_ONE};
use crate::gate::verdict::{Audit, Basis, Verdict};
use crate::guarantee::choice::Guarantee;
use crate::losses::releases::together;

/// Sets of which the gate computes the connectivity: with 1,000 parties one takes some seconds.
const MOST_CONNECTED: usize = 64;

/// The reason why a member is left out.
const EXCEEDS: &str = "the loss would exceed the budget";

/// Decides who may publish. Never panics, whatever the logs say.
pub fn gate(plan: &Plan, logs: &AgreedLogs) -> Verdict {
    match Gate::of(plan).and_then(|gate| gate.judge(logs)) {
        Ok(verdict) => verdict,
        Err(error) => Verdict {
            publish: None,
            reason: error.to_string(),
            audit: withheld(plan, &error.to_string()),
        },
    }
}

/// The audit of a run in which nobody publishes: what its shares alone can have lost, never 0.
pub fn withheld(plan: &Plan, reason: &str) -> Audit {
    // A checked plan has an injection, a schedule and a δ; what is left is arithmetic on them.
    let gate = Gate::of(plan).expect("a checked plan is a run without faults");
    gate.before_publishing((0..plan.parties()).collect(), vec![reason.to_string()])
}

/// The audit of a node that withholds and does not know whether the others published: what its
/// shares alone can have lost, and no less than what the others' gate lets through. That is the
/// plan's budget where losses are computed, and a headline where claims decide. Where exact sums
/// are revealed, they may be out.
pub fn without_verdict(plan: &Plan, reason: &str) -> Audit {
    let own = withheld(plan, reason);
    let gate = Gate::of(plan).expect("a checked plan is a run without faults");
    let claims = plan.calibration().claims.iter();
    let headlines = claims.filter(|claim| claim.holds_as_headline);
    // A plan's claims are of all its releases, this audit of one.
    let releases = (plan.draft().protected_releases() as f64).sqrt();
    let published = headlines
        .map(|claim| claim.mu / releases)
        .fold(gate.budget, f64::max);
    let mu = match own.same_sum_mu {
        Some(_) => f64::INFINITY,
        None => own.mu.max(published),
    };
    Audit {
        same_sum_mu: own.same_sum_mu.map(|mu| mu.max(published)),
        mu,
        epsilon: gate.epsilon(mu),
        ..own
    }
}

impl Gate<'_> {
    /// Takes the largest set of members that is allowed.
    pub(super) fn judge(&self, logs: &AgreedLogs) -> Result<Verdict, LogsError> {
        check(self.plan, logs)?;
        // Too few logs: nobody publishes.
        let least = self.plan.draft().run.min_parties;
        let deniers = deniers(logs);
        if logs.len() - deniers.len() < least {
            let mut reason = format!(
                "only {} logs are agreed, at least {least} parties are needed",
                logs.len()
            );
            if !deniers.is_empty() {
                let names: Vec<&str> = deniers.iter().map(|&party| self.name(party)).collect();
                reason += &format!("; {} denied what it signed for", names.join(" and "));
            }
            let audit = self.before_publishing(
                self.departed(&BTreeSet::new()),
                self.sentences(logs, &BTreeSet::new()),
            );
            return Ok(Verdict {
                publish: None,
                reason,
                audit,
            });
        }
        // All of them, or all but one or two.
        let mut smallest = f64::INFINITY;
        for publish in self.candidates(logs, least) {
            let found = self.largest(logs, &publish)?;
            if self.allows(&found) {
                let reason = self.left_out(logs, &publish, EXCEEDS);
                let audit = self.audit(found, self.departed(&publish), self.sentences(logs, &publish));
                return Ok(Verdict {
                    publish: Some(publish),
                    reason,
                    audit,
                });
            }
            smallest = smallest.min(found.mu);
        }
        let releases = self.plan.draft().protected_releases();
        let epsilon = self.epsilon(together(smallest, releases));
        let all = match releases {
            1 => String::new(),
            releases => format!(" in all {releases} releases"),
        };
        let mut reason = format!(
            "publishing{all} would cost epsilon {epsilon:.4}, above {}",
            self.plan.draft().privacy.epsilon
        );
        if self.is_spent() {
            reason += "; there was no time to compute more of what happened";
        }
        let audit = self.before_publishing(
            self.departed(&BTreeSet::new()),
            self.sentences(logs, &BTreeSet::new()),
        );
        Ok(Verdict {
            publish: None,
            reason,
            audit,
        })
    }

    /// The sets that the gate looks at: as many of [`Gate::sets`] as it has time for.
    pub(super) fn candidates(
        &self,
        logs: &AgreedLogs,
        least: usize,
    ) -> impl Iterator<Item = BTreeSet<Party>> {
        // Where only the theorem speaks, it says the same of every set.
        let affordable = MOST_OF_ONE / self.products(logs.len());
        let most = if affordable >= 1.0 && !self.guarantee.counts_parties() {
            affordable as usize
        } else if self.guarantee.counts_parties() || speaks_of(&self.setting) {
            MOST_CONNECTED
        } else {
            1
        };
        self.sets(logs, least).take(most)
    }

    /// Everybody who has a log that does not deny what its party signed for; then without one
    /// member, then without two: most faulted shares first, ties by plan order; not below `least`.
    pub(super) fn sets(&self, logs: &AgreedLogs, least: usize) -> impl Iterator<Item = BTreeSet<Party>> {
        let faults = exceptions(self.plan, logs);
        let faulted = |party: &Party| {
            faults
                .iter()
                .filter(|fault| fault.from == *party || fault.to == *party)
                .count()
        };
        let deniers = deniers(logs);
        let whole: BTreeSet<Party> = logs
            .keys()
            .copied()
            .filter(|party| !deniers.contains(party))
            .collect();
        let mut order: Vec<Party> = whole.iter().copied().collect();
        order.sort_by_cached_key(|party| (std::cmp::Reverse(faulted(party)), *party));
        let (one, two) = (
            usize::from(whole.len() > least),
            usize::from(whole.len() > least + 1),
        );
        let count = order.len();
        let ones = (0..one * count).map(|index| (index, None));
        let twos =
            (0..two * count).flat_map(move |one| (one + 1..count).map(move |other| (one, Some(other))));
        let (none, leaving) = (std::iter::once(whole.clone()), ones.chain(twos));
        none.chain(leaving.map(move |(one, other)| {
            let mut set = whole.clone();
            std::iter::once(one).chain(other).for_each(|index| {
                set.remove(&order[index]);
            });
            set
        }))
    }

    /// The largest loss if `publish` publishes: the smallest of the valid statements.
    pub(super) fn largest(
        &self,
        logs: &AgreedLogs,
        publish: &BTreeSet<Party>,
    ) -> Result<LargestLoss, LogsError> {
        let theorem = self.theorem();
        let found = match self.guarantee {
            Guarantee::ExactSum | Guarantee::AsInPaper => return self.same_sum(logs, publish),
            Guarantee::Drawn => return self.by_draw(logs, publish),
            Guarantee::Connected => return self.by_connectivity(logs, publish),
            Guarantee::Gaussian => self.by_theorem_c(self.among_members(logs, publish)?, publish)?,
            // No final of these is published by a gate.
            Guarantee::OwnNoise | Guarantee::Circles => None,
        };
        Ok(match found {
            Some(found) if found.mu <= theorem => found,
            _ => LargestLoss {
                mu: theorem,
                execution: self.some_execution(publish)?,
                basis: Basis::Theorem,
                among: None,
            },
        })
    }

    /// The largest loss in what happened, of the members and of the departed: each coalition
    /// computed, or the closed form for all. None where no theorem speaks of the plan.
    pub(super) fn by_theorem_c(
        &self,
        happened: Execution,
        publish: &BTreeSet<Party>,
    ) -> Result<Option<LargestLoss>, LogsError> {
        let found = match self.computed(happened.clone(), publish)? {
            None => self.by_closed_form(happened, publish)?,
            computed => computed,
        };
        found.map(|found| self.or_departed(found, publish)).transpose()
    }

    /// The audit if nobody publishes: the theorem before publishing, for the execution in which the
    /// first `colluding` parties saw their shares.
    pub(super) fn before_publishing(&self, departed: BTreeSet<Party>, faults: Vec<String>) -> Audit {
        let bounds = (0..self.plan.parties())
            .map(|party| self.bound_before_publishing(party).unwrap_or(f64::INFINITY));
        let mu = if self.guarantee.counts_parties() {
            0.0
        } else {
            bounds.fold(0.0, f64::max).min(self.theorem())
        };
        let corrupted = 0..self.coalition_size(self.plan.parties());
        let execution = self
            .base
            .clone()
            .with_published([])
            .and_then(|execution| execution.with_corrupted(corrupted));
        let execution = execution.expect("the first parties are parties");
        self.audit(
            LargestLoss {
                mu,
                execution,
                basis: Basis::BeforePublishing,
                among: None,
            },
            departed,
            faults,
        )
    }
}

#[cfg(test)]
mod tests;
