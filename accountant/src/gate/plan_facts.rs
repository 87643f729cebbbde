//! The facts of a plan that the gate knows before anything has happened, and their consequences.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::Claim;
use undertone_protocol::topology::party::Party;

use crate::bounds::before_publishing::bound;
use crate::bounds::bound::local_loss;
use crate::bounds::static_draw::delta_of_noise;
use crate::class::setting::Setting;
use crate::execution::checked::Execution;
use crate::execution::settled::LogsError;
use crate::gate::verdict::{Audit, Basis};
use crate::guarantee::choice::Guarantee;
use crate::losses::gaussian::{self, SLACK};
use crate::losses::loss::Noise;
use crate::losses::releases;

/// A plan, ready to be asked who may publish.
pub(super) struct Gate<'a> {
    pub(super) plan: &'a Plan,
    pub(super) guarantee: Guarantee,
    pub(super) setting: Setting,
    pub(super) noise: Noise,
    /// The run without faults.
    pub(super) base: Execution,
    /// The loss that the plan's (ε, δ) allows one release.
    pub(super) budget: f64,
    /// Where correlated noise is uniform, or masks of pairs: among how many values the plan says
    /// that each is hidden. Its noise is enough for so many, and `verify` has found them.
    pub(super) hidden_among: usize,
    /// Multiplications that are left for all sets to come; none once they were not enough.
    pub(super) left: Mutex<Option<f64>>,
}

/// Multiplications that one set of members may take, while all wait for it: measured, two seconds
/// of one core.
pub(super) const MOST_OF_ONE: f64 = 1e10;

/// The most multiplications that the gate performs in total, whatever the logs say: about eight
/// seconds of one core. A loss that is not computed for this reason counts as unbounded, and the
/// theorem of local noise is used instead.
const MOST_WORK: f64 = 4.0 * MOST_OF_ONE;

/// The δ of the plan's noise: its own, less what is left to the draw of a schedule at START.
pub fn delta_of(plan: &Plan) -> f64 {
    let delta = plan.draft().privacy.delta;
    match plan.draws_at_start() {
        true => delta_of_noise(delta),
        false => delta,
    }
}

/// The loss that a plan's (ε, δ) allows one release: nothing where δ is out of range. By `libm`
/// alone: the same bits on every machine.
pub(crate) fn budget_of_release(plan: &Plan) -> f64 {
    let budget = gaussian::mu(plan.draft().privacy.epsilon, delta_of(plan)).unwrap_or(0.0);
    releases::each(budget, plan.draft().protected_releases())
}

/// The largest of the numbers of values that a plan's claims say each is hidden among; 1, the own
/// value alone, where none says more.
fn hidden_among(plan: &Plan) -> usize {
    let stated = |claim: &Claim| {
        let connected = claim.connectivity.map(|basis| basis.among);
        connected.or(claim.draw.map(|basis| basis.among))
    };
    let all = plan.calibration().claims.iter().filter_map(stated);
    all.max().unwrap_or(1)
}

/// The largest loss if a set of members publishes.
pub(super) struct LargestLoss {
    /// The loss; with exact sums revealed that of changes which keep them.
    pub(super) mu: f64,
    /// An execution with that loss, or with no larger one where `basis` is a bound.
    pub(super) execution: Execution,
    pub(super) basis: Basis,
    /// Where correlated noise is uniform: the fewest values among which a member's is hidden.
    pub(super) among: Option<usize>,
}

impl<'a> Gate<'a> {
    /// Prepares a plan.
    pub(super) fn of(plan: &'a Plan) -> Result<Self, LogsError> {
        let calibration = plan.calibration();
        let setting =
            Setting::of_plan(plan).map_err(|error| crate::execution::error::ExecutionError::Invalid {
                place: "injection".into(),
                problem: error.to_string(),
            })?;
        let base = setting
            .fault_free()?
            .with_sensitivity(setting.sensitivity.clone())?;
        let noise = Noise {
            independent_std: calibration.independent_std,
            correlated_std: calibration.correlated_std,
        };
        Ok(Gate {
            plan,
            guarantee: Guarantee::of(plan.draft()),
            setting,
            noise,
            base,
            budget: budget_of_release(plan),
            hidden_among: hidden_among(plan),
            left: Mutex::new(Some(MOST_WORK)),
        })
    }

    /// Whether a set of that largest loss may publish. Where values are hidden among a number of
    /// others it is the number that decides, which all nodes count alike; else the loss, which they
    /// compute alike to within far less than `verify` keeps it away from the budget.
    pub(super) fn allows(&self, found: &LargestLoss) -> bool {
        match found.among {
            Some(among) => among >= self.hidden_among,
            None => found.mu <= self.budget,
        }
    }

    /// Takes so many multiplications from what the gate may spend; false, now and from then on, if
    /// that is not there.
    pub(super) fn spend(&self, products: f64) -> bool {
        let add = |left: f64| (left >= products).then_some(left - products);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.and_then(add);
        left.is_some()
    }

    /// Whether something was not computed because all was spent.
    pub(super) fn is_spent(&self) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// How many of so many members collude.
    pub(super) fn coalition_size(&self, members: usize) -> usize {
        self.setting.colluding.min(members.saturating_sub(1))
    }

    /// The loss of local noise, for any coalition and any faults.
    pub(super) fn theorem(&self) -> f64 {
        local_loss(&self.setting, self.noise)
    }

    /// Returns a bound on a party's loss before its final leaves, by the mechanism's theorem.
    pub(super) fn bound_before_publishing(&self, party: Party) -> Result<f64, LogsError> {
        Ok(bound(&self.setting, party, self.noise)? * (1.0 + SLACK))
    }

    /// An execution of this set for a statement that rests on none.
    pub(super) fn some_execution(&self, publish: &BTreeSet<Party>) -> Result<Execution, LogsError> {
        let departed = self.departed(publish);
        let colluding = publish.iter().copied().take(self.coalition_size(publish.len()));
        let corrupted: Vec<Party> = departed.iter().copied().chain(colluding).collect();
        Ok(self
            .base
            .clone()
            .with_corrupted(corrupted)?
            .with_published(publish.iter().copied())?)
    }

    /// Returns the statement about a run with that loss.
    pub(super) fn audit(&self, found: LargestLoss, departed: BTreeSet<Party>, faults: Vec<String>) -> Audit {
        let LargestLoss {
            mu,
            execution,
            basis,
            among,
        } = found;
        let same_sum_mu = self.guarantee.reveals_sums().then_some(mu);
        // Once finals are out the sums are public.
        let mu = if same_sum_mu.is_some() && !execution.published().is_empty() {
            f64::INFINITY
        } else {
            mu
        };
        Audit {
            same_sum_mu,
            mu,
            epsilon: self.epsilon(mu),
            delta: self.plan.draft().privacy.delta,
            execution,
            basis,
            among,
            departed,
            faults,
        }
    }

    /// The ε of a loss at the plan's δ, never below the true one; ∞ where there is none.
    pub(super) fn epsilon(&self, mu: f64) -> f64 {
        gaussian::epsilon(delta_of(self.plan), mu).unwrap_or(f64::INFINITY)
    }

    /// Everybody who is not in `publish`.
    pub(super) fn departed(&self, publish: &BTreeSet<Party>) -> BTreeSet<Party> {
        (0..self.plan.parties())
            .filter(|party| !publish.contains(party))
            .collect()
    }

    pub(super) fn name(&self, party: Party) -> &str {
        &self.plan.draft().members[party].name
    }
}
