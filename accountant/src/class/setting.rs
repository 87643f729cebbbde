//! What a plan fixes and every loss depends on.

use undertone_protocol::injection::InjectionError;
use undertone_protocol::mixing::Party;
use undertone_protocol::plan::{Draft, Plan};
use undertone_protocol::run_file::{InjectionChoice, MechanismKind};
use undertone_protocol::schedule::Schedule;

use crate::execution::{CustomInjection, Execution, ExecutionError, Family, InjectionSpec, NamedInjection};
use crate::loss::Noise;
use crate::static_coalitions::calibration::EXAMPLE_SEED;

/// A mechanism and a threat, without the noise.
#[derive(Debug, Clone)]
pub struct Setting {
    /// How value and noise get into states: (c, Z) of INCA, or PPSC.
    pub family: Family,
    /// Round 1…T: for each party its out-neighbours.
    pub out: Vec<Vec<Vec<Party>>>,
    /// Δᵢ of each party, in the data's unit.
    pub sensitivity: Vec<f64>,
    /// Weight of each party's value in the result.
    pub weights: Vec<f64>,
    /// Parties that collude.
    pub colluding: usize,
    /// Departures that are tolerated.
    pub dropouts: usize,
    /// Whether departed parties are rolled back.
    pub rollback: bool,
}

impl Setting {
    /// Of a draft with a schedule.
    pub fn of_draft(draft: &Draft, schedule: &Schedule) -> Result<Self, InjectionError> {
        Ok(Setting {
            family: family(draft, schedule.rounds())?,
            out: schedule.out().to_vec(),
            sensitivity: (0..draft.parties())
                .map(|party| draft.sensitivity(party))
                .collect(),
            weights: (0..draft.parties()).map(|party| draft.weight(party)).collect(),
            colluding: draft.privacy.colluding,
            dropouts: draft.privacy.dropouts,
            rollback: draft.mechanism.rollback,
        })
    }

    /// Of a plan. Where START draws the schedule and has not yet: with some schedule, for what does not depend on which.
    pub fn of_plan(plan: &Plan) -> Result<Self, InjectionError> {
        if plan.draws_at_start() && plan.seed_at_start().is_none() {
            let example = plan.with_draw(EXAMPLE_SEED);
            return Self::of_draft(plan.draft(), example.schedule());
        }
        Self::of_draft(plan.draft(), plan.schedule())
    }

    /// n.
    pub fn parties(&self) -> usize {
        self.sensitivity.len()
    }

    /// T.
    pub fn rounds(&self) -> usize {
        self.out.len()
    }

    /// The largest Δᵢ.
    pub fn largest_sensitivity(&self) -> f64 {
        self.sensitivity
            .iter()
            .fold(0.0, |largest, &delta| largest.max(delta))
    }

    /// How many parties a coalition has that the class is computed against: by Theorem R the departed join the colluding.
    pub fn coalition_size(&self) -> usize {
        if self.rollback {
            self.colluding + self.dropouts
        } else {
            self.colluding
        }
    }

    /// W: the sum of all weights.
    pub fn total_weight(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// The run in which nothing goes wrong.
    pub fn fault_free(&self) -> Result<Execution, ExecutionError> {
        Execution::fault_free(self.family.clone(), self.out.clone())
    }

    /// Whether nothing but noise that cancels is added: PPSC with `independent_noise = "none"`.
    pub fn reveals_sums(&self, noise: Noise) -> bool {
        self.family == Family::Ppsc && noise.independent_std == 0.0
    }

    /// How often a party hands something out before the finals.
    pub fn hand_outs(&self, party: Party) -> usize {
        self.out.iter().filter(|round| !round[party].is_empty()).count()
    }
}

fn family(draft: &Draft, rounds: usize) -> Result<Family, InjectionError> {
    if draft.mechanism.kind == MechanismKind::Ppsc {
        return Ok(Family::Ppsc);
    }
    Ok(Family::Inca(match &draft.mechanism.injection {
        InjectionChoice::Incremental => InjectionSpec::Named(NamedInjection::Incremental),
        InjectionChoice::Early => InjectionSpec::Named(NamedInjection::Early),
        custom => {
            let exact = custom.exact(rounds as u32)?.to_f64();
            let z = (0..=exact.rounds()).map(|t| exact.z(t).to_vec()).collect();
            InjectionSpec::Custom(CustomInjection {
                c: exact.c().to_vec(),
                z,
            })
        }
    }))
}
