//! The accountant's answer to a draft: rounds, schedule, noise, claims.

use crate::lattice::average::AverageTerms;
use crate::lattice::grid::{Lattice, LatticeRequest, Travel};
use crate::plan::claim::{Claim, Predicted, number};
use crate::plan::draft::Draft;
use crate::plan::error::PlanError;
use crate::plan::exchange::choice::Exchange;
use crate::plan::exchange::rules::{Occasion, Planned};
use crate::plan::run_file::problem::Problem;
use crate::plan::run_file::records::Records;
use crate::plan::run_file::settings::{Coalitions, Contributed};
use crate::plan::shares::ShareCounts;
use crate::topology::multi_gossip::MultiGossip;
use crate::topology::schedule::Schedule;

/// Claims of one plan: ours have six at most. Each is computed again by whoever verifies it.
const MOST_CLAIMS: u64 = 16;

/// A schedule, and the seed that it follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeededSchedule {
    /// The seed that the schedule was drawn from, on the draft's private graph.
    pub seed: u64,
    /// The schedule of that seed.
    pub schedule: Schedule,
}

/// The accountant's answer to a draft.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The number of rounds T: at least 1, at most what the mechanism allows
    /// ([`Rules::most_rounds`](crate::plan::exchange::rules::Rules::most_rounds)).
    pub rounds: u32,
    /// The schedule with its seed; `None` where it is drawn at START (`coalitions = "static"`).
    pub drawn: Option<SeededSchedule>,
    /// σ*, in a state's units ([`Scales`](crate::plan::sensitivity::Scales)); 0 with
    /// `independent_noise = "none"`.
    pub independent_std: f64,
    /// The noise that cancels in the sum, in a state's units: σ_Δ of INCA, σ_γ of PPSC (the file's
    /// `correlated_std` or `pairwise_std`); 0 where it is uniform and has no scale.
    pub correlated_std: f64,
    /// The claims, the headline first.
    pub claims: Vec<Claim>,
    /// The errors that the accountant expects of the result.
    pub predicted: Predicted,
}

impl Calibration {
    /// Returns the number of shares of the run: of the schedule, or at most of any that can be
    /// drawn.
    pub fn shares(&self, draft: &Draft) -> ShareCounts {
        match &self.drawn {
            _ if !draft.exchange.rules().mixes() => ShareCounts::NONE,
            Some(drawn) => ShareCounts::of(&drawn.schedule, draft.parties()),
            None => {
                let (fanout, rounds) = (draft.exchange.fanout() as usize, self.rounds as usize);
                let any = ShareCounts::of_any(&draft.private_graph, fanout, rounds);
                match draft.exchange {
                    Exchange::Ppsc(_) => any.of_pairs(),
                    _ => any,
                }
            }
        }
    }

    /// Returns the requirements on the lattice of this run.
    pub(super) fn lattice_request<'a>(&self, draft: &Draft, planned: &'a dyn Planned) -> LatticeRequest<'a> {
        let shares = self.shares(draft);
        let records = draft
            .members
            .iter()
            .filter_map(|member| member.records.map(Records::most));
        // A program's sum is rounded once.
        let rounded = records.filter(|_| draft.data.contributed != Contributed::ByProgram);
        let weights = (0..draft.parties()).map(|party| draft.weight_units(party));
        LatticeRequest {
            parties: draft.parties(),
            dimension: draft.dimension(),
            travel: match (planned.travel(&shares), draft.computation.recursion()) {
                // States are as fine as the accuracy that is asked for.
                (Travel::HandOver { exchanges, .. }, Some(recursion)) => Travel::HandOver {
                    exchanges,
                    finest: Some(recursion.finest_step()),
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

    /// The most rounds, fewer than these, whose states fit on a lattice with this noise; `None` if
    /// no number does, or if fewer rounds do not help (PPSC).
    pub fn most_rounds(&self, draft: &Draft) -> Option<u32> {
        let rules = draft.exchange.rules();
        let mut shorter = (1..self.rounds).rev().filter(|_| rules.rounds_widen_states());
        shorter.find(|&rounds| self.fits_with(draft, rounds))
    }

    /// One step of the lattice that such a plan has, in a state's units; `None` if it fits on none.
    pub fn step(&self, draft: &Draft) -> Option<f64> {
        let planned = draft.exchange.planned(self.rounds).ok()?;
        let lattice = Lattice::fit(&self.lattice_request(draft, &*planned)).ok()?;
        Some(lattice.step())
    }

    /// Whether states of so many rounds instead fit on a lattice.
    fn fits_with(&self, draft: &Draft, rounds: u32) -> bool {
        let Ok(planned) = draft.exchange.planned(rounds) else {
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
    /// `None` if the private graph has parties with too few neighbours.
    pub fn draw_schedule(draft: &Draft, rounds: u32, seed: u64) -> Option<Schedule> {
        if let Some(recursion) = draft.computation.recursion() {
            // That of the first outer iteration; the others follow from the seeds after it.
            let iterations = recursion.gossip_iterations as usize;
            return Some(MultiGossip::draw(&draft.private_graph, iterations, seed)?.schedule());
        }
        let occasion = Occasion {
            private_graph: &draft.private_graph,
            privacy: &draft.privacy,
            rounds,
        };
        draft.exchange.rules().draw(&occasion, seed)
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
        let rules = draft.exchange.rules();
        count(
            "mechanism.rounds",
            self.rounds.into(),
            1,
            rules.most_rounds().into(),
        )?;
        self.check_noise(draft)?;
        rules.check_rounds(self.rounds)?;
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
        let derived = |key: &str| {
            Err(PlanError::Derived {
                field: format!("mechanism.{key}"),
            })
        };
        match draft.exchange.adds_own_noise() {
            true => positive("mechanism.independent_std", self.independent_std)?,
            false if self.independent_std == 0.0 => {}
            false => return derived("independent_std"),
        }
        let Some(key) = draft.exchange.rules().correlated_key() else {
            return match self.correlated_std {
                0.0 => Ok(()),
                _ => derived("correlated_std"),
            };
        };
        let given = draft.computation.recursion();
        let given = given.and_then(|recursion| recursion.pairwise_std.given());
        if given.is_some_and(|given| given != self.correlated_std) {
            return derived(key);
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
        let rules = draft.exchange.rules();
        let sent = rules.sent_a_round();
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
