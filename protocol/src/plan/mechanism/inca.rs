//! INCA (Algorithm 2): states are split over the edges of one connected graph; a row of the factors
//! (c, Z) says what of value and noise enters in each round.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::grid::{LatticeError, Travel};
use crate::lattice::injection::{Injection, InjectionError};
use crate::lattice::payload::Ratio;
use crate::plan::error::DraftError;
use crate::plan::mechanism::rules::{Occasion, Planned, Rules};
use crate::plan::mechanism::ways_in::Mechanism;
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::fraction::Fraction;
use crate::plan::run_file::limits::MOST_ROUNDS;
use crate::plan::run_file::problem::{Checked, Problem, refuse, require};
use crate::plan::run_file::settings::{
    Coalitions, CorrelatedNoise, IndependentNoise, InjectionChoice, MechanismSettings,
};
use crate::plan::shares::ShareCounts;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

pub(super) struct Inca;

/// Refuses noise of which the theorem of a draw says nothing.
pub(super) fn check_even(settings: &MechanismSettings) -> Checked {
    let uniform = settings.correlated == CorrelatedNoise::Uniform;
    require(uniform, "mechanism.correlated", || Problem::NotYet {
        found: "\"gaussian\" while coalitions = \"static\"",
        instead: "\"uniform\"",
    })
}

impl Rules for Inca {
    fn most_rounds(&self) -> u32 {
        MOST_ROUNDS
    }

    fn check(&self, settings: &MechanismSettings) -> Checked {
        let only = Problem::OnlyFor {
            only: "mechanism.kind = \"ppsc\"",
        };
        let foreign = [
            (
                "mechanism.independent_noise",
                settings.independent_noise != IndependentNoise::Calibrated,
            ),
            ("mechanism.accept_exact_sum", settings.accept_exact_sum),
            ("mechanism.local_noise_ok", settings.local_noise_ok),
        ];
        match foreign.into_iter().find(|&(_, set)| set) {
            Some((field, _)) => refuse(field, only),
            None => Ok(()),
        }
    }

    fn check_static(&self, settings: &MechanismSettings) -> Checked {
        check_even(settings)
    }

    fn check_private_graph(&self, graph: &NamedGraph<'_>) -> Result<(), DraftError> {
        graph.check_connected()
    }

    fn keys(&self) -> &'static [&'static str] {
        &["injection", "correlated_std"]
    }

    fn correlated_key(&self) -> &'static str {
        "correlated_std"
    }

    /// With fan-out k and T rounds, what is injected at first is a multiple of (k+1)^T steps.
    fn check_rounds(&self, fanout: u32, rounds: u32) -> Result<(), LatticeError> {
        match (u128::from(fanout) + 1).checked_pow(rounds) {
            Some(_) => Ok(()),
            None => Err(LatticeError::TooWide { bits: 128 }),
        }
    }

    fn rounds_widen_states(&self) -> bool {
        true
    }

    fn sent_a_round(&self, fanout: usize) -> RangeInclusive<usize> {
        fanout..=fanout
    }

    fn draw(&self, occasion: &Occasion<'_>, seed: u64) -> Option<Schedule> {
        let (graph, rounds) = (occasion.private_graph, occasion.rounds as usize);
        if occasion.privacy.coalitions == Coalitions::Static {
            return Some(Schedule::independent(graph.parties(), rounds, seed));
        }
        match occasion.settings.correlated {
            CorrelatedNoise::Gaussian => {
                Schedule::draw(graph, occasion.settings.fanout as usize, rounds, seed)
            }
            CorrelatedNoise::Uniform => Schedule::apart(graph, rounds, seed),
        }
    }

    fn planned(&self, settings: &MechanismSettings, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        Ok(Arc::new(PlannedInca {
            fanout: settings.fanout,
            correlated: settings.correlated,
            injection: Arc::new(settings.injection.exact(rounds)?),
        }))
    }
}

#[derive(Debug)]
struct PlannedInca {
    /// To how many parties each sends in a round, k.
    fanout: u32,
    correlated: CorrelatedNoise,
    injection: Arc<Injection<Ratio>>,
}

impl Planned for PlannedInca {
    fn travel(&self, shares: &ShareCounts) -> Travel<'_> {
        match self.correlated {
            CorrelatedNoise::Gaussian => Travel::Split {
                fanout: self.fanout,
                injection: &self.injection,
                received_bound: shares.most_at_once,
            },
            CorrelatedNoise::Uniform => Travel::Residues { halved: true },
        }
    }

    fn way_in(&self, _: &Schedule, _: Party) -> Mechanism<Ratio> {
        Mechanism::Injection(self.injection.clone())
    }

    fn iterations(&self, _: &Graph, _: &Schedule) -> Option<u32> {
        None
    }
}

impl InjectionChoice {
    /// The exact (c, Z) for `rounds` rounds (1…63); refused if a custom one is not valid or for
    /// another number of rounds.
    pub fn exact(&self, rounds: u32) -> Result<Injection<Ratio>, InjectionError> {
        let rounds = rounds as usize;
        match self {
            InjectionChoice::Incremental => Ok(Injection::exact_incremental(rounds)),
            InjectionChoice::Early => Ok(Injection::exact_early(rounds)),
            InjectionChoice::Late => Ok(Injection::exact_late(rounds)),
            InjectionChoice::Custom { c, z } => {
                if c.len() != rounds + 1 {
                    return Err(InjectionError::Shape {
                        what: "c".into(),
                        found: c.len(),
                        expected: rounds + 1,
                        rounds,
                    });
                }
                let ratios = |row: &Vec<Fraction>| row.iter().map(|fraction| fraction.0).collect::<Vec<_>>();
                Injection::exact_custom(ratios(c), z.iter().map(ratios).collect())
            }
        }
    }
}
