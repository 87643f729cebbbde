//! Gossip with open messages: a neighbour reads a party's value with its own noise, so that this
//! noise is all that any headline rests on, whatever the graph, the rounds and the faults.

use undertone_protocol::plan::calibration::{Calibration, SeededSchedule};
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::claim::{Adversary, Claim, Established, Faults, Predicted};
use undertone_protocol::plan::computation::stream::Protect;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::limits::MOST_EXCHANGE_ROUNDS;
use undertone_protocol::plan::run_file::settings::{Clip, Rounds};
use undertone_protocol::topology::schedule::Schedule;

use crate::calibration::claims::theorem;
use crate::calibration::error::CalibrateError;
use crate::calibration::gossip::{EstimateError, EstimateReach, EstimateWeights, weights};
use crate::calibration::limits::MARGIN;
use crate::class::gossip::{GossipClass, open_loss};
use crate::losses::gaussian::{self, GaussianError, SLACK};

/// The seed of the edges that are active by chance. Everybody knows them, and every claim is of
/// these edges.
pub(super) const SEED: u64 = 0;

/// μ of so many releases of the draft that have left, with this noise: √E·Δ/σ where all of them may
/// change, Δ/σ where one may; 0 of none. Never below the true one, whoever colludes, whatever goes
/// wrong, and whatever the releases were computed from.
pub fn loss_of(draft: &Draft, independent_std: f64, releases: u64) -> f64 {
    let each = draft.largest_sensitivity() / independent_std;
    match (draft.computation.protect(), releases) {
        (_, 0) => 0.0,
        (Protect::All, releases) => each * (releases as f64).sqrt() * (1.0 + SLACK),
        (Protect::One, _) => each * (1.0 + SLACK),
    }
}

/// The parts of a plan of gossip with open messages, beside its draft.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenGossip<'a> {
    /// The edges of each round.
    pub(crate) schedule: &'a Schedule,
    /// σ of each party's noise in a round with a release.
    pub(crate) independent_std: f64,
    /// One step of its lattice, in a state's units.
    pub(crate) step: f64,
}

impl OpenGossip<'_> {
    /// Returns the headline: the claim against all others together, with any faults.
    ///
    /// # Errors
    /// δ is out of range.
    pub(crate) fn claim_of_all(&self, draft: &Draft) -> Result<Claim, GaussianError> {
        Ok(Claim {
            adversary: Adversary::Coalition,
            size: draft.parties().saturating_sub(1),
            faults: Faults::Any,
            established: Established::Theorem,
            holds_as_headline: true,
            ..claim(draft, loss_of(draft, self.independent_std, draft.releases()))?
        })
    }

    /// Returns the claim about strangers as long as nothing fails, from every coalition of as many
    /// as collude. It is `None` where rows may follow estimates, or where a release is averaged in
    /// rounds without noise of their own. Nor is there one where nobody is a stranger, or where
    /// coalitions are too many.
    ///
    /// # Errors
    /// δ is out of range.
    pub(crate) fn claim_of_strangers(&self, draft: &Draft) -> Result<Option<Claim>, GaussianError> {
        let size = draft.privacy.colluding;
        // The class is computed for rows that are fixed before the run: those that follow estimates
        // change with what is seen.
        if draft.releases() < 2 || draft.computation.is_adaptive() || size == 0 {
            return Ok(None);
        }
        let worst = GossipClass::of_schedule(self.schedule).apart(size, draft.computation.protect());
        let Some(worst) = worst.filter(|worst| worst.case.is_some()) else {
            return Ok(None);
        };
        let without_rounding = worst.square.sqrt() * draft.largest_sensitivity() / self.independent_std;
        // Messages are rounded to the lattice, which the weights alone do not show.
        let rounding = draft.rounding_loss(self.step, self.independent_std);
        Ok(Some(Claim {
            adversary: Adversary::Apart,
            size,
            // A departure changes the weights of later rounds, and only those without any were
            // computed.
            faults: Faults::None,
            established: Established::Exhaustive,
            cases: worst.cases as u64,
            ..claim(draft, (without_rounding + rounding) * (1.0 + SLACK))?
        }))
    }

    /// All that can be established; what strangers learn, which takes computing, only if
    /// `strangers` is set.
    ///
    /// # Errors
    /// δ is out of range.
    pub(crate) fn claims(&self, draft: &Draft, strangers: bool) -> Result<Vec<Claim>, GaussianError> {
        let mut claims = vec![self.claim_of_all(draft)?];
        if strangers {
            claims.extend(self.claim_of_strangers(draft)?);
        }
        Ok(claims)
    }
}

/// A claim of this loss, of no headline yet.
pub(super) fn claim(draft: &Draft, mu: f64) -> Result<Claim, GaussianError> {
    theorem(draft.privacy.colluding, Faults::Any, mu, draft.privacy.delta)
}

/// Establishes the claims of a plan; the one about strangers only if the plan makes it.
///
/// # Errors
/// δ is out of range.
pub(crate) fn established(plan: &Plan) -> Result<Vec<Claim>, GaussianError> {
    let open = OpenGossip {
        schedule: plan.exchanges(),
        independent_std: plan.calibration().independent_std,
        step: plan.lattice().step(),
    };
    let mut claimed = plan.calibration().claims.iter();
    open.claims(
        plan.draft(),
        claimed.any(|claim| claim.adversary == Adversary::Apart),
    )
}

/// μᵣ of a plan: what rounding adds at most to a loss of its streams ([`Draft::rounding_loss`]).
pub fn rounding_loss(plan: &Plan) -> f64 {
    plan.draft()
        .rounding_loss(plan.lattice().step(), plan.calibration().independent_std)
}

/// How far a plan's estimates are from the mean, if nobody's message is missing.
pub fn estimate_error(plan: &Plan) -> EstimateError {
    EstimateError::of(plan.exchanges(), plan.draft().releases())
}

/// The largest distance of a clipped value from the middle of its range, in a state's units.
pub fn half_width(draft: &Draft) -> f64 {
    match &draft.data.clip {
        Clip::Box { low, high } => (0..draft.dimension())
            .map(|at| (high.at(at) - low.at(at)) / 2.0)
            .fold(0.0, f64::max),
        Clip::L2 { .. } | Clip::Described { .. } | Clip::Tensors { .. } => draft.value_bound(),
    }
}

/// Rounds that are drawn at first; our choice.
const FIRST_DRAW: u32 = 32;

/// The fewest rounds of one value after which no two estimates differ by more than `run.accuracy`
/// standard errors.
fn rounds_of_one_value(draft: &Draft, independent_std: f64) -> Result<u32, CalibrateError> {
    let reach = EstimateReach {
        half_width: half_width(draft),
        std: independent_std,
    };
    let draw = |rounds: u32| Calibration::draw_schedule(draft, rounds, SEED).ok_or(CalibrateError::Kind);
    // A draw is the beginning of that for more rounds.
    let mut schedule = draw(FIRST_DRAW)?;
    let mut estimates = EstimateWeights::unmixed(draft.parties());
    for round in 1..=MOST_EXCHANGE_ROUNDS {
        if round as usize > schedule.rounds() {
            schedule = draw((2 * round).min(MOST_EXCHANGE_ROUNDS))?;
        }
        estimates = estimates.then(&weights(&schedule, round));
        if reach.within(&estimates, draft.run.accuracy) {
            return Ok(round);
        }
    }
    Err(CalibrateError::Slow {
        rounds: MOST_EXCHANGE_ROUNDS,
        accuracy: draft.run.accuracy,
    })
}

/// Predicts the errors of the estimate at the node that is furthest from the mean. `budget` is the
/// loss that the plan's (ε, δ) allows.
pub(super) fn predicted(draft: &Draft, schedule: &Schedule, independent_std: f64, budget: f64) -> Predicted {
    let (parties, releases) = (draft.parties() as f64, draft.releases() as f64);
    let error = EstimateError::of(schedule, draft.releases());
    // Of the means of all releases, added up: each has its own noise, and its part of the budget.
    let each = draft.largest_sensitivity()
        * (releases * open_loss(draft.computation.protect(), draft.releases())).sqrt()
        / budget;
    let honest = draft.honest().max(1) as f64;
    Predicted {
        standard_error: error.standard_error(independent_std),
        standard_error_one_dropout: None,
        standard_error_late_dropout: None,
        standard_error_correcting: None,
        central: each / parties,
        local: each / parties.sqrt(),
        error_floor: each / (parties * honest).sqrt(),
        bytes_per_party: 0,
    }
}

/// Predicts the errors of a plan's estimates, in a state's units.
///
/// # Errors
/// δ is out of range.
pub(super) fn expected(plan: &Plan) -> Result<Predicted, GaussianError> {
    let draft = plan.draft();
    let budget = gaussian::mu(draft.privacy.epsilon, draft.privacy.delta)?;
    Ok(predicted(
        draft,
        plan.exchanges(),
        plan.calibration().independent_std,
        budget,
    ))
}

/// Noise from the budget, and of one value the number of rounds.
pub(super) fn calibrate(draft: &Draft) -> Result<Calibration, CalibrateError> {
    let budget = gaussian::mu(draft.privacy.epsilon, draft.privacy.delta)?;
    // Neighbours read every message, so that neither graph nor rounds enter the noise.
    let square = draft.largest_sensitivity().powi(2)
        * open_loss(draft.computation.protect(), draft.releases())
        / MARGIN;
    let independent_std = square.sqrt() / budget;
    if !independent_std.is_normal() {
        return Err(CalibrateError::Budget {
            epsilon: draft.privacy.epsilon,
            delta: draft.privacy.delta,
            party: draft.members[0].name.clone(),
        });
    }
    // One value takes rounds to spread; of many releases each has a round of its own.
    let rounds = match (draft.releases(), draft.exchange.rounds()) {
        (1, Rounds::Auto) => rounds_of_one_value(draft, independent_std)?,
        (1, Rounds::Fixed(rounds)) => rounds,
        (releases, _) => releases as u32,
    };
    let schedule = Calibration::draw_schedule(draft, rounds, SEED).ok_or(CalibrateError::Kind)?;
    let predicted = predicted(draft, &schedule, independent_std, budget);
    let mut calibration = Calibration {
        rounds,
        claims: vec![],
        predicted: predicted.times(draft.data.scales().root_mean_square()),
        drawn: Some(SeededSchedule {
            seed: SEED,
            schedule: schedule.clone(),
        }),
        independent_std,
        correlated_std: 0.0,
    };
    // Where it fits on no lattice the plan is refused, with the reason.
    let step = calibration.step(draft);
    let open = OpenGossip {
        schedule: &schedule,
        independent_std,
        step: step.unwrap_or(0.0),
    };
    calibration.claims = open.claims(draft, step.is_some())?;
    Ok(calibration)
}

#[cfg(test)]
mod tests;
