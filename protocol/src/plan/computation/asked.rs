//! Every check that a run file alone allows, of a plan as well.

use std::collections::BTreeSet;

use crate::lattice::grid::WEIGHT_UNIT;
use crate::plan::computation::beside::Beside;
use crate::plan::computation::choice::Computation;
use crate::plan::computation::method::MethodChoice;
use crate::plan::computation::model::ModelSettings;
use crate::plan::exchange::choice::Exchange;
use crate::plan::run_file::limits::*;
use crate::plan::run_file::problem::*;
use crate::plan::run_file::settings::*;
use crate::plan::run_file::tensors::check_radius;

/// Refuses fewer parties than hide each other, and more than exchange with everybody.
pub(in crate::plan) fn count_parties(parties: usize) -> Checked {
    count("the number of parties", parties as u64, 3, MOST_PARTIES as u64)
}

/// Whether `parties − dropouts` (parties: at most [`MOST_PARTIES`]) is more than (parties +
/// colluding)/2, so that any two agreed sets share an honest signer.
pub(in crate::plan) fn majority(parties: usize, colluding: usize, dropouts: usize) -> bool {
    2 * parties.saturating_sub(dropouts) > parties.saturating_add(colluding)
}

/// The settings that a run file and a plan share; members and graphs are beside it.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The run's name, for people.
    pub(crate) name: &'a str,
    /// The computation of the parties.
    pub(crate) computation: &'a Computation,
    /// The settings that every computation has.
    pub(crate) beside: Beside<'a>,
}

impl Asked<'_> {
    /// Checks everything that can be said without the list of peers.
    pub(crate) fn check(&self, parties: usize) -> Checked {
        count_parties(parties)?;
        let name_fine = (1..=64).contains(&self.name.len())
            && self
                .name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b" ._-".contains(&b))
            && self.name.trim() == self.name;
        require(name_fine, "name", || Problem::Name)?;
        let Beside {
            data,
            privacy,
            exchange,
            run,
        } = self.beside;
        self.computation.check(&self.beside)?;
        data.check()?;
        privacy.check(parties)?;
        self.check_exchange(parties)?;
        let uniform = exchange.correlated() == CorrelatedNoise::Uniform;
        if let Some(share_faults) = privacy.share_faults {
            require(
                uniform && exchange.rules().mixes(),
                "privacy.share_faults",
                || Problem::OnlyFor {
                    only: "mechanism.correlated = \"uniform\", and shares",
                },
            )?;
            count("privacy.share_faults", share_faults as u64, 0, parties as u64)?;
        }
        // Residues are summed; no average of them is worth anything.
        let averaged = run.dissemination == Dissemination::Consensus;
        require(!(uniform && averaged), "run.dissemination", || Problem::OnlyFor {
            only: "mechanism.correlated = \"gaussian\"",
        })?;
        let sliced = run.dissemination == Dissemination::Slices;
        require(!sliced || run.sealed, "run.dissemination", || Problem::OnlyFor {
            only: "run.sealed = true",
        })?;
        let sealable = uniform || matches!(exchange, Exchange::Gossip(_));
        require(sealable || !run.sealed, "run.sealed", || Problem::OnlyFor {
            only: "mechanism.correlated = \"uniform\"",
        })?;
        run.check(parties, privacy)
    }

    /// Refuses a number of rounds and readable finals where nothing is mixed: there the number
    /// follows, and sums are sealed.
    fn check_exchange(&self, parties: usize) -> Checked {
        let rules = self.beside.exchange.rules();
        if let Rounds::Fixed(rounds) = self.beside.exchange.rounds() {
            count("mechanism.rounds", rounds.into(), 1, rules.most_rounds().into())?;
            if let Some(only) = rules.rounds(parties, self.beside.privacy) {
                count("mechanism.rounds", rounds.into(), only.into(), only.into())?;
            }
        }
        rules.check(parties)?;
        let readable = !self.beside.run.sealed && !rules.mixes();
        require(!readable, "run.sealed", || Problem::OnlyFor {
            only: "another mechanism.kind than \"pairwise\"",
        })
    }

    /// Refuses what parses, and will run one day, but that this version's plans do not carry.
    pub(crate) fn check_carried(&self) -> Checked {
        if self.beside.privacy.coalitions == Coalitions::Static {
            self.beside.exchange.rules().check_static()?;
        }
        Ok(())
    }
}

impl Computation {
    /// Refuses what does not go with this computation.
    fn check(&self, beside: &Beside<'_>) -> Checked {
        let contributed = match self {
            Computation::Regression { model, .. } if model.method == MethodChoice::Statistics => {
                Contributed::SecondMoments
            }
            Computation::Rounds(_) => beside.data.contributed,
            _ => Contributed::AsTheyAre,
        };
        // Of anybody else's vectors it would be a false Δ.
        let is_described = matches!(beside.data.clip, Clip::Described { .. });
        let derived = contributed == beside.data.contributed
            && contributed_by(self, contributed)
            && is_described == self.described().is_some();
        require(derived, "data.contributed", || Problem::OnlyFor {
            only: "the task and method that it follows from",
        })?;
        let any = beside.privacy.coalitions == Coalitions::Any;
        require(
            any || matches!(self, Computation::Mean {}),
            "privacy.coalitions",
            || Problem::NotYet {
                found: "\"static\" with another task than \"mean\"",
                alternative: "coalitions = \"any\"",
            },
        )?;
        match self {
            Computation::Mean {} => {
                let gossip = matches!(beside.exchange, Exchange::Gossip(_));
                require(!gossip, "mechanism.kind", || Problem::OnlyFor {
                    only: "task = \"stream\"",
                })
            }
            Computation::Regression { model, sequence } => {
                check_model(model, beside)?;
                check_sealed_sums(beside)?;
                sequence.check(beside.run)
            }
            Computation::Rounds(rounds) => {
                rounds.check(beside.data)?;
                check_sealed_sums(beside)?;
                rounds.sequence.check(beside.run)
            }
            Computation::Describe(settings) => settings.check(beside),
            Computation::Stream(stream) => stream.check(beside),
            Computation::LinearEquations(recursion) | Computation::Optimise(recursion) => {
                recursion.check(self.task(), beside)
            }
        }
    }
}

/// Second moments are a model's; sums of a program are of means in sequence.
fn contributed_by(computation: &Computation, contributed: Contributed) -> bool {
    match contributed {
        Contributed::AsTheyAre => true,
        Contributed::ByProgram => computation.rounds().is_some(),
        Contributed::SecondMoments => computation.model().is_some(),
    }
}

fn check_model(model: &ModelSettings, beside: &Beside<'_>) -> Checked {
    model.check()?;
    let rows = beside.data.unit == Unit::Record || model.method == MethodChoice::Descent;
    require(rows, "data.unit", || Problem::NotYet {
        found: "\"party\" with method = \"statistics\"",
        alternative: "unit = \"record\"",
    })
}

/// Each sum in sequence is sealed, over precomputed uniform noise or over masks of pairs.
fn check_sealed_sums(beside: &Beside<'_>) -> Checked {
    let summed = matches!(beside.exchange, Exchange::Inca(_) | Exchange::PairMasks(_));
    require(summed, "mechanism.kind", || Problem::OnlyFor {
        only: "another task: releases in sequence take kind = \"inca\" or \"pairwise\"",
    })?;
    require(beside.run.sealed, "run.sealed", || Problem::OnlyFor {
        only: "another task: each release in sequence is sealed",
    })
}

impl Data {
    fn check(&self) -> Checked {
        let coordinates = self.dimension();
        let fits = (1..=32).contains(&self.shape.len())
            && self.shape.iter().all(|&extent| extent >= 1)
            && coordinates <= MOST_COORDINATES;
        require(fits, "data.shape", || Problem::Shape { coordinates })?;
        self.check_tensors()?;
        self.clip.check(coordinates)?;
        self.check_columns()?;
        if let Some(records) = &self.records {
            require(self.unit == Unit::Record, "data.records", || Problem::OnlyFor {
                only: "unit = \"record\"",
            })?;
            records.check()?;
        }
        let Some(weights) = &self.weights else {
            return Ok(());
        };
        require(self.unit == Unit::Party, "data.weights", || Problem::OnlyFor {
            only: "unit = \"party\"",
        })?;
        for (name, &found) in weights {
            let on_grid = (found * WEIGHT_UNIT as f64).fract() == 0.0;
            require(
                (0.01..=1e6).contains(&found) && on_grid,
                &format!("data.weights.{name}"),
                || Problem::Range {
                    found,
                    expected: "from 0.01 to 1000000, a multiple of 2^-20 (only the ratios of weights matter)",
                },
            )?;
        }
        Ok(())
    }
}

impl Data {
    fn check_columns(&self) -> Checked {
        let Some(columns) = &self.columns else {
            return Ok(());
        };
        let (found, expected) = (columns.len(), self.shape.last().copied().unwrap_or(0));
        require(found == expected, "data.columns", || Problem::ColumnCount {
            found,
            expected,
        })?;
        let wrong = unnamed(columns);
        require(wrong.is_none(), "data.columns", || Problem::ColumnName {
            column: wrong.map_or(0, |at| at + 1),
        })
    }
}

/// The first column, from 0, that has no name of its own that a plan can carry.
pub fn unnamed(columns: &[String]) -> Option<usize> {
    let fine = |name: &str| {
        (1..=256).contains(&name.len()) && name.trim() == name && !name.contains(char::is_control)
    };
    let mut names = BTreeSet::new();
    columns.iter().position(|name| !fine(name) || !names.insert(name))
}

/// Bounds outside of which squares of f64 would overflow or vanish.
fn sizeable(number: f64) -> bool {
    number.is_finite() && number.abs() <= 1e100
}

impl Clip {
    pub(super) fn check(&self, coordinates: usize) -> Checked {
        match self {
            Clip::L2 { radius } => check_radius(*radius),
            Clip::Described {
                replace_one,
                zero_out,
                largest,
                cell,
            } => {
                let numbers = [*replace_one, *zero_out, *largest, *cell];
                let fine = numbers.iter().all(|number| (1e-100..=1e100).contains(number));
                require(fine, "data.clip", || Problem::Range {
                    found: *replace_one,
                    expected: "a number above 0, derived from a description",
                })
            }
            // With the tensors that they are of.
            Clip::Tensors { .. } => Ok(()),
            Clip::Box { low, high } => {
                for (field, bound) in [("data.clip.low", low), ("data.clip.high", high)] {
                    if let Bound::Each(bounds) = bound {
                        let found = bounds.len();
                        require(found == coordinates, field, || Problem::BoundCount {
                            found,
                            expected: coordinates,
                        })?;
                    }
                }
                let listed = match (low, high) {
                    (Bound::All(_), Bound::All(_)) => 1,
                    _ => coordinates,
                };
                for coordinate in 0..listed {
                    let (low, high) = (low.at(coordinate), high.at(coordinate));
                    let inside = sizeable(low) && sizeable(high) && high - low >= 1e-100;
                    require(inside, "data.clip", || Problem::BoxOrder {
                        coordinate,
                        low,
                        high,
                    })?;
                }
                Ok(())
            }
        }
    }
}

impl Privacy {
    fn check(&self, parties: usize) -> Checked {
        let positive = self.epsilon.is_finite() && self.epsilon > 0.0;
        require(positive, "privacy.epsilon", || Problem::Range {
            found: self.epsilon,
            expected: "a finite number above 0, such as 1.0",
        })?;
        let inside = self.delta > 0.0 && self.delta < 1.0;
        require(inside, "privacy.delta", || Problem::Range {
            found: self.delta,
            expected: "above 0 and below 1, such as 1e-6",
        })?;
        count(
            "privacy.colluding",
            self.colluding as u64,
            0,
            parties.saturating_sub(2) as u64,
        )?;
        require(
            majority(parties, self.colluding, self.dropouts),
            "privacy.dropouts",
            || Problem::Dropouts {
                found: self.dropouts,
                remaining: parties.saturating_sub(self.dropouts),
                parties,
                half: (parties + self.colluding) as f64 / 2.0,
            },
        )
    }
}

impl RunSettings {
    fn check(&self, parties: usize, privacy: &Privacy) -> Checked {
        count(
            "run.min_parties",
            self.min_parties as u64,
            parties.saturating_sub(privacy.dropouts) as u64,
            parties as u64,
        )?;
        // Nobody's choice: what no two sets can have both, and all who are left reach.
        let quorum = privacy.quorum(parties).signers() as u64;
        count("run.quorum", self.quorum as u64, quorum, quorum)?;
        count("run.join_ms", self.join_ms, 1, LONGEST_MS)?;
        count("run.grace_ms", self.grace_ms, 0, LONGEST_MS)?;
        count("run.round_ms", self.round_ms, 1, LONGEST_MS)?;
        count("run.settle_ms", self.settle_ms, 4, LONGEST_MS)?;
        let (pace_ms, round_ms) = (self.pace_ms, self.round_ms);
        require(pace_ms <= round_ms, "run.pace_ms", || Problem::Pace {
            pace_ms,
            round_ms,
        })?;
        let usable = self.accuracy.is_finite() && self.accuracy > 0.0;
        require(usable, "run.accuracy", || Problem::Range {
            found: self.accuracy,
            expected: "a finite number above 0",
        })
    }
}
