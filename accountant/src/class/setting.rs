//! The facts that a plan fixes and every loss depends on.

use undertone_protocol::lattice::injection::InjectionError;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::draft::Draft;
use undertone_protocol::plan::run_file::settings::{Coalitions, CorrelatedNoise};
use undertone_protocol::topology::party::Party;
use undertone_protocol::topology::schedule::Schedule;

use crate::execution::checked::Execution;
use crate::execution::error::ExecutionError;
use crate::losses::loss::Noise;
use crate::mechanism::chosen::Mechanism;

/// A mechanism and a threat, without the noise.
#[derive(Debug, Clone)]
pub struct Setting {
    /// How value and noise get into states.
    pub mechanism: Mechanism,
    /// The parties that each party sends to, round by round.
    pub out: Vec<Vec<Vec<Party>>>,
    /// How far each party's value may change, in the data's unit.
    pub sensitivity: Vec<f64>,
    /// The weight of each party's value in the result.
    pub weights: Vec<f64>,
    /// How many parties collude at most.
    pub colluding: usize,
    /// How many departures are tolerated.
    pub dropouts: usize,
    /// Whether departed parties are rolled back.
    pub rollback: bool,
    /// Whether the noise that cancels is uniform over residues, and not Gaussian.
    pub uniform: bool,
    /// Where START draws the schedule: how many shares between survivors may go astray.
    pub drawn_share_faults: Option<usize>,
}

impl Setting {
    /// The setting of a draft with a schedule.
    pub fn of_draft(draft: &Draft, schedule: &Schedule) -> Result<Self, InjectionError> {
        Ok(Setting {
            mechanism: Mechanism::of_exchange(&draft.exchange, schedule.rounds())?,
            out: schedule.out().to_vec(),
            sensitivity: (0..draft.parties())
                .map(|party| draft.sensitivity(party))
                .collect(),
            weights: (0..draft.parties()).map(|party| draft.weight(party)).collect(),
            colluding: draft.privacy.colluding,
            dropouts: draft.privacy.dropouts,
            rollback: draft.exchange.rolls_back(),
            uniform: draft.exchange.correlated() == CorrelatedNoise::Uniform,
            drawn_share_faults: drawn_share_faults(draft),
        })
    }

    /// The setting of a plan. Where START draws the schedule and has not yet: with some schedule,
    /// for what does not depend on which.
    pub fn of_plan(plan: &Plan) -> Result<Self, InjectionError> {
        if plan.draws_at_start() && plan.seed_at_start().is_none() {
            let example = plan.with_draw(EXAMPLE_SEED);
            return Self::of_draft(plan.draft(), example.schedule());
        }
        Self::of_draft(plan.draft(), plan.schedule())
    }

    /// How many parties there are.
    pub fn parties(&self) -> usize {
        self.sensitivity.len()
    }

    /// How many rounds the schedule has.
    pub fn rounds(&self) -> usize {
        self.out.len()
    }

    /// The largest sensitivity of any party.
    pub fn largest_sensitivity(&self) -> f64 {
        self.sensitivity
            .iter()
            .fold(0.0, |largest, &delta| largest.max(delta))
    }

    /// How many parties a coalition has that the class is computed against: the departed join the
    /// colluding, with roll-back by Theorem R, and without because they learn no less so.
    pub fn coalition_size(&self) -> usize {
        self.colluding + self.dropouts
    }

    /// The sum of all weights.
    pub fn total_weight(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// The run in which nothing goes wrong.
    pub fn fault_free(&self) -> Result<Execution, ExecutionError> {
        Execution::fault_free(self.mechanism.clone(), self.out.clone())
    }

    /// Whether nothing but noise that cancels is added, as with `independent_noise = "none"`.
    pub fn reveals_sums(&self, noise: Noise) -> bool {
        self.mechanism.rules().may_reveal_sums() && noise.independent_std == 0.0
    }

    /// How often a party hands something out before the finals.
    pub fn hand_outs(&self, party: Party) -> usize {
        self.out.iter().filter(|round| !round[party].is_empty()).count()
    }
}

/// One share may go astray where shares are sent, or as many as a run file says.
pub(crate) fn drawn_share_faults(draft: &Draft) -> Option<usize> {
    let is_drawn = draft.privacy.coalitions == Coalitions::Static;
    let sent = usize::from(draft.exchange.rules().mixes());
    is_drawn.then(|| draft.privacy.share_faults.unwrap_or(sent))
}

/// The seed of an example schedule, for what does not depend on which: the one that a search knows.
pub(crate) const EXAMPLE_SEED: u64 = 0;
