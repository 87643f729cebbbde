//! What the accountant answers to a draft: rounds, schedule, noise, claims.

use crate::lattice::average::AverageTerms;
use crate::lattice::grid::{Lattice, LatticeRequest, Travel};
use crate::plan::claim::{Claim, Predicted, number};
use crate::plan::draft::Draft;
use crate::plan::error::PlanError;
use crate::plan::mechanism::rules::{Occasion, Planned};
use crate::plan::run_file::handed_over::ClippedBy;
use crate::plan::run_file::problem::Problem;
use crate::plan::run_file::settings::{Coalitions, CorrelatedNoise, IndependentNoise, MechanismKind};
use crate::plan::shares::ShareCounts;
use crate::topology::multi_gossip::MultiGossip;
use crate::topology::schedule::Schedule;

/// Claims of one plan: ours have six at most. Each is computed again by whoever verifies it.
const MOST_CLAIMS: u64 = 16;

/// A schedule, and the seed that it follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeededSchedule {
    /// What it was drawn from, on the draft's private graph.
    pub seed: u64,
    /// The schedule of that seed.
    pub schedule: Schedule,
}

/// What the accountant answers to a draft.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The number of rounds T: at least 1, at most what the mechanism allows
    /// ([`Rules::most_rounds`](crate::plan::mechanism::rules::Rules::most_rounds)).
    pub rounds: u32,
    /// Who sends to whom; none where it is drawn at START (`coalitions = "static"`).
    pub drawn: Option<SeededSchedule>,
    /// σ*, in a state's units ([`Scales`](crate::plan::sensitivity::Scales)); 0 with
    /// `independent_noise = "none"`.
    pub independent_std: f64,
    /// The noise that cancels in the sum, in a state's units: σ_Δ of INCA, σ_γ of PPSC (the file's
    /// `correlated_std` or `pairwise_std`); 0 where it is uniform and has no scale.
    pub correlated_std: f64,
    /// What is claimed, the headline first.
    pub claims: Vec<Claim>,
    /// What the accountant expects of the result.
    pub predicted: Predicted,
}

impl Calibration {
    /// How many shares the run has: of the schedule, or at most of any that can be drawn.
    pub fn shares(&self, draft: &Draft) -> ShareCounts {
        match &self.drawn {
            _ if !draft.mechanism.rules().mixes() => ShareCounts::NONE,
            Some(drawn) => ShareCounts::of(&drawn.schedule, draft.parties()),
            None => {
                let (fanout, rounds) = (draft.mechanism.fanout as usize, self.rounds as usize);
                let any = ShareCounts::of_any(&draft.private_graph, fanout, rounds);
                match draft.mechanism.kind {
                    MechanismKind::Ppsc => any.of_pairs(),
                    _ => any,
                }
            }
        }
    }

    /// What a lattice has to carry for this run.
    pub(super) fn lattice_request<'a>(&self, draft: &Draft, planned: &'a dyn Planned) -> LatticeRequest<'a> {
        let shares = self.shares(draft);
        let records = draft.members.iter().filter_map(|member| member.records);
        // A program's sum is rounded once.
        let rounded = records.filter(|_| draft.data.clipped == ClippedBy::ByNode);
        let weights = (0..draft.parties()).map(|party| draft.weight_units(party));
        LatticeRequest {
            parties: draft.parties(),
            dimension: draft.dimension(),
            travel: match (planned.travel(&shares), &draft.outer) {
                // States are as fine as the accuracy that is asked for.
                (Travel::HandOver { exchanges, .. }, Some(outer)) => Travel::HandOver {
                    exchanges,
                    finest: Some(outer.finest_step()),
                },
                // Rounding may not show beside what is protected.
                (Travel::Average(terms), _) => Travel::Average(AverageTerms {
                    injections: draft.releases() as u32,
                    finest: draft.finest_average(),
                    ..terms
                }),
                (travel, _) => travel,
            },
            value_bound: draft.value_bound(),
            rows: rounded.max().unwrap_or(1),
            coarsest: draft.data.coarsest_cell(),
            weight_bound: weights.max().unwrap_or(1),
            independent_std: self.independent_std,
            correlated_std: self.correlated_std,
            shares_bound: shares.most_sent.max(shares.most_received),
            epsilon: draft.privacy.epsilon,
            // What sampling adds, each release adds.
            delta: draft.privacy.delta / draft.releases() as f64,
        }
    }

    /// The most rounds, fewer than these, whose states fit on a lattice with this noise; none if no
    /// number does, or if fewer rounds do not help (PPSC).
    pub fn most_rounds(&self, draft: &Draft) -> Option<u32> {
        let rules = draft.mechanism.rules();
        let mut shorter = (1..self.rounds).rev().filter(|_| rules.rounds_widen_states());
        shorter.find(|&rounds| self.fits_with(draft, rounds))
    }

    /// One step of the lattice that such a plan has, in a state's units; none if it fits on none.
    pub fn step(&self, draft: &Draft) -> Option<f64> {
        let rules = draft.mechanism.rules();
        let planned = rules.planned(&draft.mechanism, self.rounds).ok()?;
        let lattice = Lattice::fit(&self.lattice_request(draft, &*planned)).ok()?;
        Some(lattice.step())
    }

    /// Whether states of so many rounds instead fit on a lattice.
    fn fits_with(&self, draft: &Draft, rounds: u32) -> bool {
        let Ok(planned) = draft.mechanism.rules().planned(&draft.mechanism, rounds) else {
            return false;
        };
        let drawn = self
            .drawn
            .as_ref()
            .and_then(|drawn| Self::draw(draft, rounds, drawn.seed));
        if drawn.is_some() != self.drawn.is_some() {
            return false;
        }
        let shorter = Calibration {
            rounds,
            drawn,
            ..self.clone()
        };
        Lattice::fit(&shorter.lattice_request(draft, &*planned)).is_ok()
    }

    /// The schedule of `seed` for so many rounds: with PPSC of as many iterations as fit into them.
    /// None if the private graph has parties with too few neighbours.
    pub fn draw_schedule(draft: &Draft, rounds: u32, seed: u64) -> Option<Schedule> {
        if let Some(outer) = &draft.outer {
            // That of the first outer iteration; the others follow from the seeds after it.
            let iterations = outer.gossip_iterations as usize;
            return Some(MultiGossip::draw(&draft.private_graph, iterations, seed)?.schedule());
        }
        let occasion = Occasion {
            private_graph: &draft.private_graph,
            settings: &draft.mechanism,
            privacy: &draft.privacy,
            rounds,
        };
        draft.mechanism.rules().draw(&occasion, seed)
    }

    /// The schedule of [`Calibration::draw_schedule`], with its seed.
    pub fn draw(draft: &Draft, rounds: u32, seed: u64) -> Option<SeededSchedule> {
        Some(SeededSchedule {
            seed,
            schedule: Self::draw_schedule(draft, rounds, seed)?,
        })
    }

    /// Refuses what does not go with the draft, or with itself.
    pub(super) fn check(&self, draft: &Draft) -> Result<(), PlanError> {
        let rules = draft.mechanism.rules();
        count(
            "mechanism.rounds",
            self.rounds.into(),
            1,
            rules.most_rounds().into(),
        )?;
        self.check_noise(draft)?;
        rules.check_rounds(draft.mechanism.fanout, self.rounds)?;
        self.check_schedule(draft)?;
        count("claims", self.claims.len() as u64, 0, MOST_CLAIMS)?;
        self.claims
            .iter()
            .enumerate()
            .try_for_each(|(index, claim)| claim.check(index, draft.parties(), draft.run.sealed))?;
        self.predicted.check()
    }

    fn check_noise(&self, draft: &Draft) -> Result<(), PlanError> {
        // Squares of anything beyond overflow or vanish; no data is of that size (clipping ranges
        // end at 1e100).
        let positive = |field: &str, found: f64| {
            number(
                field,
                found,
                (1e-120..=1e120).contains(&found),
                "from 1e-120 to 1e120: the noise that epsilon and delta ask for over this clipping range is beyond any number here",
            )
        };
        match draft.mechanism.independent_noise {
            IndependentNoise::Calibrated => positive("mechanism.independent_std", self.independent_std)?,
            IndependentNoise::None if self.independent_std == 0.0 => {}
            IndependentNoise::None => {
                return Err(PlanError::Derived {
                    field: "mechanism.independent_std".into(),
                });
            }
        }
        let key = draft.mechanism.rules().correlated_key();
        let nothing_cancels = draft.mechanism.averages();
        if draft.mechanism.correlated == CorrelatedNoise::Uniform || nothing_cancels {
            return match self.correlated_std {
                0.0 => Ok(()),
                _ => Err(PlanError::Derived {
                    field: format!("mechanism.{key}"),
                }),
            };
        }
        if let Some(outer) = &draft.outer
            && outer
                .pairwise_std
                .given()
                .is_some_and(|given| given != self.correlated_std)
        {
            return Err(PlanError::Derived {
                field: format!("mechanism.{key}"),
            });
        }
        positive(&format!("mechanism.{key}"), self.correlated_std)
    }

    /// Whether a schedule stands in the plan follows from the settings, and the schedule from its
    /// seed. Its shape is looked at before it is drawn again: neither that nor the work may be what
    /// a hostile file says.
    fn check_schedule(&self, draft: &Draft) -> Result<(), PlanError> {
        let refuse = |field: &str| Err(PlanError::Derived { field: field.into() });
        if self.drawn.is_none() != (draft.privacy.coalitions == Coalitions::Static) {
            return refuse("schedule_seed");
        }
        let Some(SeededSchedule { seed, schedule }) = &self.drawn else {
            return Ok(());
        };
        let rules = draft.mechanism.rules();
        let sent = rules.sent_a_round(draft.mechanism.fanout as usize);
        let shaped = schedule.has_shape(self.rounds as usize, draft.parties(), sent);
        if !shaped || Self::draw_schedule(draft, self.rounds, *seed).as_ref() != Some(schedule) {
            return refuse("out");
        }
        Ok(())
    }
}

fn count(field: &str, found: u64, least: u64, most: u64) -> Result<(), PlanError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(PlanError::Settings {
        field: field.into(),
        problem: Problem::Count { found, least, most },
    })
}
