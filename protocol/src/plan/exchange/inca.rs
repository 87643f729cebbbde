//! INCA (Algorithm 2): states are split over the edges of one connected graph; a row of the factors
//! (c, Z) says what of value and noise enters in each round.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::lattice::grid::{LatticeError, Travel};
use crate::lattice::injection::{Injection, InjectionError};
use crate::lattice::payload::Ratio;
use crate::plan::error::DraftError;
use crate::plan::exchange::injector::Mechanism;
use crate::plan::exchange::rules::{Occasion, Planned, Rules};
use crate::plan::named_graph::NamedGraph;
use crate::plan::run_file::fraction::Fraction;
use crate::plan::run_file::limits::{MOST_FANOUT, MOST_ROUNDS};
use crate::plan::run_file::problem::{Checked, Problem, count, require};
use crate::plan::run_file::settings::{Coalitions, CorrelatedNoise, InjectionChoice, Rounds};
use crate::plan::shares::ShareCounts;
use crate::topology::graph::Graph;
use crate::topology::party::Party;
use crate::topology::schedule::Schedule;

/// INCA's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inca {
    /// The number of rounds T.
    pub rounds: Rounds,
    /// The noise that cancels.
    pub noise: Cancelling,
}

/// The noise that cancels in INCA, with what it allows to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelling {
    /// Drawn uniformly from residues; all states, shares and finals are residues.
    Uniform,
    /// Gaussian: the paper's.
    Gaussian(GaussianNoise),
}

/// INCA's choices where its noise is Gaussian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GaussianNoise {
    /// The injection by which value and noise enter a state.
    pub injection: InjectionChoice,
    /// The fan-out k ≥ 1: the number of parties that each sends to in a round.
    pub fanout: u32,
    /// Whether departed parties are taken out again; the paper does not.
    pub rollback: bool,
}

impl Default for GaussianNoise {
    fn default() -> Self {
        GaussianNoise {
            injection: InjectionChoice::Incremental,
            fanout: 1,
            rollback: true,
        }
    }
}

impl Cancelling {
    /// The name of this noise.
    pub fn correlated(&self) -> CorrelatedNoise {
        match self {
            Cancelling::Uniform => CorrelatedNoise::Uniform,
            Cancelling::Gaussian(_) => CorrelatedNoise::Gaussian,
        }
    }

    /// Returns the injection by which value and noise enter a state. Uniform noise has one
    /// injection.
    pub fn injection(&self) -> &InjectionChoice {
        match self {
            Cancelling::Uniform => &InjectionChoice::Late,
            Cancelling::Gaussian(gaussian) => &gaussian.injection,
        }
    }
}

/// Refuses noise of which the theorem of a draw says nothing.
pub(super) fn check_uniform(correlated: CorrelatedNoise) -> Checked {
    let uniform = correlated == CorrelatedNoise::Uniform;
    require(uniform, "mechanism.correlated", || Problem::NotYet {
        found: "\"gaussian\" while coalitions = \"static\"",
        alternative: "\"uniform\"",
    })
}

impl Inca {
    fn check_injection(&self, injection: &InjectionChoice) -> Checked {
        let InjectionChoice::Custom { c, .. } = injection else {
            return Ok(());
        };
        count(
            "mechanism.injection.c",
            c.len() as u64,
            2,
            u64::from(MOST_ROUNDS) + 1,
        )?;
        let expected = c.len() as u32 - 1;
        if let Rounds::Fixed(found) = self.rounds {
            require(found == expected, "mechanism.rounds", || Problem::Rounds {
                found,
                expected,
            })?;
        }
        let exact = injection.exact(expected);
        exact
            .map(drop)
            .map_err(|error| ("mechanism.injection".to_owned(), Problem::Injection(error)))
    }
}

impl Rules for Inca {
    fn most_rounds(&self) -> u32 {
        MOST_ROUNDS
    }

    fn check(&self, parties: usize) -> Checked {
        let Cancelling::Gaussian(gaussian) = &self.noise else {
            return Ok(());
        };
        self.check_injection(&gaussian.injection)?;
        // Below the number of neighbours, of which a party has at most parties − 1.
        count(
            "mechanism.fanout",
            gaussian.fanout.into(),
            1,
            u64::from(MOST_FANOUT).min(parties.saturating_sub(2).max(1) as u64),
        )?;
        let late = gaussian.injection == InjectionChoice::Late;
        require(!late, "mechanism.injection", || Problem::OnlyFor {
            only: "mechanism.correlated = \"uniform\"",
        })
    }

    fn check_static(&self) -> Checked {
        check_uniform(self.noise.correlated())
    }

    fn check_private_graph(&self, graph: &NamedGraph<'_>) -> Result<(), DraftError> {
        graph.check_connected()
    }

    fn correlated_key(&self) -> Option<&'static str> {
        match self.noise {
            Cancelling::Uniform => None,
            Cancelling::Gaussian(_) => Some("correlated_std"),
        }
    }

    /// With fan-out k and T rounds, what is injected at first is a multiple of (k+1)^T steps.
    fn check_rounds(&self, rounds: u32) -> Result<(), LatticeError> {
        let Cancelling::Gaussian(gaussian) = &self.noise else {
            return Ok(());
        };
        match (u128::from(gaussian.fanout) + 1).checked_pow(rounds) {
            Some(_) => Ok(()),
            None => Err(LatticeError::TooWide { bits: 128 }),
        }
    }

    fn rounds_widen_states(&self) -> bool {
        true
    }

    fn sent_a_round(&self) -> RangeInclusive<usize> {
        let fanout = match &self.noise {
            Cancelling::Uniform => 1,
            Cancelling::Gaussian(gaussian) => gaussian.fanout as usize,
        };
        fanout..=fanout
    }

    fn draw(&self, occasion: &Occasion<'_>, seed: u64) -> Option<Schedule> {
        let (graph, rounds) = (occasion.private_graph, occasion.rounds as usize);
        if occasion.privacy.coalitions == Coalitions::Static {
            return Some(Schedule::independent(graph.parties(), rounds, seed));
        }
        match &self.noise {
            Cancelling::Gaussian(gaussian) => Schedule::draw(graph, gaussian.fanout as usize, rounds, seed),
            Cancelling::Uniform => Schedule::apart(graph, rounds, seed),
        }
    }

    fn planned(&self, rounds: u32) -> Result<Arc<dyn Planned>, InjectionError> {
        Ok(Arc::new(PlannedInca {
            split: match &self.noise {
                Cancelling::Uniform => None,
                Cancelling::Gaussian(gaussian) => Some(gaussian.fanout),
            },
            injection: Arc::new(self.noise.injection().exact(rounds)?),
        }))
    }
}

#[derive(Debug)]
struct PlannedInca {
    /// The number k of parties that each sends a part of its state to in a round; `None` where
    /// states are residues.
    split: Option<u32>,
    injection: Arc<Injection<Ratio>>,
}

impl Planned for PlannedInca {
    fn travel(&self, shares: &ShareCounts) -> Travel<'_> {
        match self.split {
            Some(fanout) => Travel::Split {
                fanout,
                injection: &self.injection,
                received_bound: shares.most_at_once,
            },
            None => Travel::Residues { halved: true },
        }
    }

    fn injector(&self, _: &Schedule, _: Party) -> Mechanism<Ratio> {
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
